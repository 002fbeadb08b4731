"""A small encoder in torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, 2 * width)
        self.linear2 = nn.Linear(2 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        attended, _ = self.attention(x, x, x, key_padding_mask=mask, need_weights=False)
        x = self.norm1(x + attended)
        return self.norm2(x + self.linear2(nn.functional.gelu(self.linear1(x))))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.places = nn.Embedding(12, 16)
        self.layers = nn.ModuleList([Layer(16, 4), Layer(16, 4)])
        self.head = nn.Linear(16, 50)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x, mask == 0)
        return self.head(x)
