"""A small CNN and a small transformer with their losses and optimizers, in Paddle."""

import math

import paddle
from paddle import nn
from paddle.nn import functional as F


class CNN(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2D(3, 4, 3, padding=1, bias_attr=False)
        self.bn1 = nn.BatchNorm2D(4)
        self.conv2 = nn.Conv2D(4, 6, 3, stride=2, bias_attr=False)
        self.bn2 = nn.BatchNorm2D(6)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.head(x.mean([2, 3]))


class Block(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias_attr=False) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        size, length, width = x.shape
        h = self.norm1(x)
        q, k, v = (
            p(h).reshape([size, length, self.heads, -1]).transpose([0, 2, 1, 3])
            for p in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose([0, 1, 3, 2]) / math.sqrt(width // self.heads)
        mixed = (F.softmax(scores) @ v).transpose([0, 2, 1, 3]).reshape([size, length, width])
        x = x + self.drop(self.out(mixed))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Transformer(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.LayerList([Block(8, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias_attr=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def tokens_loss(logits, ids):
    return F.cross_entropy(logits.reshape([-1, 11]), ids.reshape([-1]))


def sgd(parameters, lr=0.1, nesterov=False):
    return paddle.optimizer.Momentum(lr, 0.9, parameters, weight_decay=0.01, use_nesterov=nesterov)


def adam(parameters, lr=0.01):
    return paddle.optimizer.Adam(lr, parameters=parameters)


def adamw(model, all_decay=False):
    wide = {p.name for p in model.parameters() if all_decay or p.ndim > 1}
    return paddle.optimizer.AdamW(
        0.005,
        parameters=model.parameters(),
        weight_decay=0.1,
        apply_decay_param_fun=lambda name: name in wide,
    )


def rmsprop(parameters, eps=1e-3):
    return paddle.optimizer.RMSProp(0.01, rho=0.95, epsilon=eps, parameters=parameters)


def warmup_cosine(optimizer, offset=0):
    def factor(step):
        at = step + offset
        return (at + 1) / 3 if at < 2 else 0.5 * (1 + math.cos(math.pi * (at - 2) / 6))

    return paddle.optimizer.lr.LambdaDecay(optimizer.get_lr(), factor)
