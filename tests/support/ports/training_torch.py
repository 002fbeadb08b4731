"""A small CNN and a small transformer with their losses and optimizers, in torch."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 6, 3, stride=2, bias=False), nn.BatchNorm2d(6)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.head(x.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        size, length, width = x.shape
        h = self.norm1(x)
        q, k, v = (
            p(h).reshape(size, length, self.heads, -1).transpose(1, 2)
            for p in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(size, length, width)
        x = x + self.drop(self.out(mixed))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList(Block(8, 2) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def tokens_loss(logits, ids):
    return F.cross_entropy(logits.reshape(-1, 11), ids.reshape(-1))


def sgd(parameters, lr=0.1, nesterov=False):
    return torch.optim.SGD(parameters, lr, momentum=0.9, weight_decay=0.01, nesterov=nesterov)


def adam(parameters, lr=0.01):
    return torch.optim.Adam(parameters, lr)


def adamw(model, all_decay=False):
    named = list(model.named_parameters())
    return torch.optim.AdamW(
        [
            {"params": [p for n, p in named if p.ndim > 1 or all_decay], "weight_decay": 0.1},
            {"params": [p for n, p in named if p.ndim < 2 and not all_decay], "weight_decay": 0.0},
        ][: 1 if all_decay else 2],
        lr=0.005,
    )


def rmsprop(parameters, eps=1e-3):
    return torch.optim.RMSprop(parameters, 0.01, alpha=0.95, eps=eps)


def warmup_cosine(optimizer, offset=0):
    def factor(step):
        at = step + offset
        return (at + 1) / 3 if at < 2 else 0.5 * (1 + math.cos(math.pi * (at - 2) / 6))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
