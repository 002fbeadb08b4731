"""The models of ``mindspore_models.py`` as their users write them for torch."""

import torch
from torch import nn
from torch.nn import functional


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(256, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = x.flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, padding=3, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.stages = nn.Sequential(
            Block(8, 8, 1), Block(8, 8, 1), Block(8, 16, 2), Block(16, 16, 1)
        )
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        parts = (one(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                 for one in (self.query, self.key, self.value))  # fmt: skip
        return self.out(functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.position = nn.Parameter(torch.randn(1, 7, 16))
        self.layers = nn.ModuleList([Layer(16, 4), Layer(16, 4)])
        self.head = nn.Linear(16, 50)

    def forward(self, ids):
        x = self.embed(ids) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Mint(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 12)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        x = functional.silu(self.linear(x))
        x = x + x * 0.5
        x = torch.cat([x[:, :6], torch.relu(x[:, 6:])], 1)
        return (self.head(x) - x.sum(1, keepdim=True)).softmax(-1)


def mean_square(output):
    return (output * output).mean()
