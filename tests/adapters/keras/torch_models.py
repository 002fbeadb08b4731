"""The models of ``keras_models.py`` in torch."""

from __future__ import annotations

import torch
from torch import nn


class Convolutions(nn.Module):
    """Convolutions with a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6, eps=1e-3)
        self.skip = nn.Conv2d(3, 6, 1)
        self.head = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the model."""
        y = torch.relu(self.bn(self.conv(x))) + self.skip(x)
        return self.head(y.mean((2, 3)))


class Perceptron(nn.Module):
    """A chain of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16, eps=1e-3)
        self.down = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the model."""
        return self.down(self.norm(torch.relu(self.up(x))))


class Block(nn.Module):
    """An attention with what stands around it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the block."""
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Encoder(nn.Module):
    """Blocks behind an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Run the model."""
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return x
