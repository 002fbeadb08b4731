"""A small residual network in torch: NCHW."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        if stride != 1:
            self.down = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (self.down(x) if hasattr(self, "down") else x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.blocks = nn.ModuleList([Block(8, 8, 1), Block(8, 16, 2)])
        self.head = nn.Linear(16, 5)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean = torch.randn_like(module.weight) * 0.1
                module.running_var = torch.rand_like(module.weight) + 0.5
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, 0, 0.1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.stem(x)))
        x = nn.functional.max_pool2d(x, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))
