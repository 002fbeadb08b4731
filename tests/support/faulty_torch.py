"""A small CNN and a small transformer in torch, each of which can hold one planted fault."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class ResidualBlock(nn.Module):
    def __init__(self, channels: int, fault: str) -> None:
        super().__init__()
        is_spread = fault == "stride"
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=2 if is_spread else 1)
        if is_spread:
            self.conv1.dilation = (2, 2)
        self.bn1 = nn.BatchNorm2d(channels, eps=1e-2 if fault == "eps" else 1e-5)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(channels)
        self.planted = {fault}  # a set: the recorder takes it for no attribute

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if "detached branch" in self.planted:
            hidden = hidden.detach()
        if "detached skip" in self.planted:
            x = x.detach()
        out: Tensor = self.relu(hidden + x)
        return out


class Cnn(nn.Module):
    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, stride=2, padding=1)
        kernel, padding = (2, 0) if faults.get("pool") == "stride" else (3, 1)
        self.pool = nn.AvgPool2d(kernel, stride=2, padding=padding, count_include_pad=False)
        self.block1 = ResidualBlock(6, faults.get("block1", ""))
        self.block2 = ResidualBlock(6, faults.get("block2", ""))
        self.head = nn.Linear(6, 5)

    def forward(self, image: Tensor) -> Tensor:
        hidden = self.block2(self.block1(self.pool(self.stem(image))))
        out: Tensor = self.head(hidden.mean((2, 3)))
        return out


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, fault: str) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.heads = heads
        self.planted = {fault}  # a set: the recorder takes it for no attribute

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        query, key, value = (
            layer(x).reshape(split).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        scale = 1.0 if "scale" in self.planted else (width // self.heads) ** -0.5
        if "detached value" in self.planted:
            value = value.detach()
        weights = torch.softmax(query @ key.transpose(2, 3) * scale, dim=-1)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, length, width)
        out: Tensor = self.out(mixed)
        return out


class TransformerBlock(nn.Module):
    def __init__(self, width: int, fault: str) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, 2, fault)
        self.norm2 = nn.LayerNorm(width, eps=1e-3 if fault == "eps" else 1e-5)
        self.fc1 = nn.Linear(width, 2 * width)
        self.act = nn.GELU(approximate="tanh" if fault == "gelu" else "none")
        self.fc2 = nn.Linear(2 * width, width)
        self.planted = {fault}  # a set: the recorder takes it for no attribute

    def forward(self, x: Tensor) -> Tensor:
        attended = self.attention(self.norm1(x))
        x = x + (attended.detach() if "detached branch" in self.planted else attended)
        hidden = self.fc1(self.norm2(x))
        is_functional = "functional gelu" in self.planted
        hidden = functional.gelu(hidden, approximate="tanh") if is_functional else self.act(hidden)
        skip = x.detach() if "detached skip" in self.planted else x
        out: Tensor = skip + self.fc2(hidden)
        return out


class Transformer(nn.Module):
    def __init__(self, faults: dict[str, str]) -> None:
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        blocks = [TransformerBlock(8, faults.get(f"blocks.{place}", "")) for place in range(3)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.tokens(ids)
        for block in self.blocks:
            hidden = block(hidden)
        out: Tensor = self.head(self.norm(hidden))
        return out


MODELS = {"cnn": Cnn, "transformer": Transformer}


def build(name: str, faults: dict[str, str]) -> nn.Module:
    """Build a model with seeded weights.

    Args:
        name: ``cnn`` or ``transformer``.
        faults: What is wrong, by module path; ``weight`` perturbs the first weight inside.
    """
    torch.manual_seed(0)
    model: nn.Module = MODELS[name](faults).eval()
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            nn.init.uniform_(tensor.data, 0.1, 0.9) if tensor.ndim == 1 else nn.init.normal_(
                tensor.data, std=0.3
            )
    for path, fault in faults.items():
        if fault == "weight":
            next(model.get_submodule(path).parameters()).data.view(-1)[3] += 0.05
    return model
