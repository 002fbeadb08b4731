"""A port of the small decoder to Paddle, with other names and a fused projection."""

import math

import paddle
from paddle import nn
from paddle.nn import functional as F


class Attention(nn.Layer):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape([b, t, 3, self.h, d // self.h]).transpose([2, 0, 3, 1, 4])
        w = q @ k.transpose([0, 1, 3, 2]) / math.sqrt(d // self.h)
        w = F.softmax(w + paddle.triu(paddle.full([t, t], float("-inf")), 1))
        return self.out((w @ v).transpose([0, 2, 1, 3]).reshape([b, t, d]))


class FFN(nn.Layer):
    def __init__(self, d, f):
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(d, f, bias_attr=False),
            nn.Linear(f, d, bias_attr=False),
            nn.Linear(d, f, bias_attr=False),
        )

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Decoder(nn.Layer):
    def __init__(self, d, h):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.ffn = (
            nn.LayerNorm(d),
            Attention(d, h),
            nn.LayerNorm(d),
            FFN(d, 2 * d),
        )

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class Model(nn.Layer):
    def __init__(self, depth=3, d=32, h=4, vocab=61):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(32, d)
        self.h = nn.LayerList([Decoder(d, h) for _ in range(depth)])
        self.ln_f, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias_attr=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(paddle.arange(ids.shape[1]))
        for m in self.h:
            x = m(x)
        return self.head(self.ln_f(x))


def build(depth=3, seed=0):
    paddle.seed(seed + 100)
    return Model(depth)


def loss(logits, label):
    return F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), label.reshape([-1]))


def adam(model, lr=1e-4):
    return paddle.optimizer.Adam(lr, parameters=model.parameters())


def adamw(model, lr=1e-3):
    return paddle.optimizer.AdamW(lr, parameters=model.parameters(), weight_decay=0.01)
