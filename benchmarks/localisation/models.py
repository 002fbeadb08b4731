"""Three small torch models whose parts can be swapped for faulty or for other correct ones."""
# ruff: noqa: D102 -- what forward does is said by the class

from __future__ import annotations

import torch
from torch import Tensor, nn

WIDTH, HEADS, LAYERS = 32, 4, 6


class Block(nn.Module):
    """A residual block: convolution, BatchNorm, ReLU, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(16, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.act = nn.ReLU()
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(16)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.bn2(self.conv2(self.act(self.bn1(self.conv1(x)))))
        result: Tensor = self.act(self.join(x, hidden))
        return result

    def join(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Add the residual; what faults replace."""
        return x + hidden


class Attention(nn.Module):
    """Multi-head attention with a projection each."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = (WIDTH // HEADS) ** -0.5
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query, key, value = (
            layer(x).reshape(batch, length, HEADS, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = self.merge(self.attend(query, key, value))
        result: Tensor = self.out(mixed)
        return result

    def merge(self, mixed: Tensor) -> Tensor:
        """Put the heads side by side; what faults replace."""
        return mixed.transpose(1, 2).flatten(2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Mix the values; what faults and other correct forms replace."""
        weights = torch.softmax(query @ key.transpose(2, 3) * self.scale, dim=-1)
        return weights @ value


class Layer(nn.Module):
    """A pre-norm transformer layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, 2 * WIDTH)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.join(x, self.attention(self.norm1(x)))
        result: Tensor = x + self.fc2(self.act(self.fc1(self.norm2(x))))
        return result

    def join(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Add the first residual; what faults replace."""
        return x + hidden


class Recurrent(nn.Module):
    """A GRU layer by hand, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, 3 * WIDTH)
        self.outer = nn.Linear(WIDTH, 3 * WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        given = self.inner(x)
        state = torch.zeros_like(x[:, 0])
        states = []
        for time in range(x.shape[1]):
            state = self.gates(given[:, time], self.outer(state), state)
            states.append(state)
        result: Tensor = self.norm(self.join(x, torch.stack(states, dim=1)))
        return result

    def join(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Add the residual; what faults replace."""
        return x + hidden

    def gates(self, given: Tensor, kept: Tensor, state: Tensor) -> Tensor:
        """Make the next state; what faults replace."""
        reset, update = torch.sigmoid(given + kept)[:, : 2 * WIDTH].chunk(2, dim=-1)
        new = torch.tanh(given[:, 2 * WIDTH :] + reset * kept[:, 2 * WIDTH :])
        return (1 - update) * new + update * state


class Net(nn.Module):
    """Some blocks between a stem and a head."""

    def __init__(self, stem: nn.Module, blocks: list[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.stem = stem
        self.blocks = nn.Sequential(*blocks)
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.blocks(self.stem(x))
        result: Tensor = self.head(hidden.mean((2, 3)) if hidden.ndim == 4 else hidden)
        return result
