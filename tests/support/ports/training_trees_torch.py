"""A small ResNet and a small GPT with their optimizers, in torch."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class Unit(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        self.c1 = nn.Conv2d(ins, outs, 3, 2, 1, bias=False)
        self.b1 = nn.BatchNorm2d(outs)
        self.c2 = nn.Conv2d(outs, outs, 3, 1, 1, bias=False)
        self.b2 = nn.BatchNorm2d(outs)
        self.short = nn.Sequential(nn.Conv2d(ins, outs, 1, 2, bias=False), nn.BatchNorm2d(outs))

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(self.b2(self.c2(y)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        convolution = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.stem = nn.Sequential(convolution, nn.BatchNorm2d(8), nn.ReLU())
        self.stage1, self.stage2 = Unit(8, 12), Unit(12, 16)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.cls = nn.Linear(16, 7)

    def forward(self, x):
        x = self.stage2(self.stage1(self.stem(x)))
        return self.cls(self.pool(x).flatten(1))


class GPT(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.tok, self.pos = nn.Embedding(17, width), nn.Embedding(12, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, 3, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(2)
        )
        self.ln = nn.LayerNorm(width)
        self.lm = nn.Linear(width, 17, bias=False)

    def forward(self, ids):
        length = ids.shape[1]
        mask = torch.triu(torch.full((length, length), float("-inf")), 1)
        x = self.tok(ids) + self.pos(torch.arange(length))
        for layer in self.layers:
            x = layer(x, mask)
        return self.lm(self.ln(x))


def next_token(logits, ids, **options):
    return F.cross_entropy(logits[:, :-1].reshape(-1, 17), ids[:, 1:].reshape(-1), **options)


def sgd(parameters, lr=0.1, **options):
    return torch.optim.SGD(parameters, lr, momentum=0.9, **options)


def adam(parameters, **options):
    return torch.optim.Adam(parameters, 0.003, **options)


def adamw(model):
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.003)


def rmsprop(parameters, **options):
    return torch.optim.RMSprop(parameters, 0.003, alpha=0.95, **options)


def warm_cosine(optimizer):
    def factor(step):
        return (step + 1) / 2 if step < 2 else 0.5 * (1 + math.cos(math.pi * (step - 2) / 5))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
