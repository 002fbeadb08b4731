"""A small pre-norm decoder with SwiGLU and its optimizers, in torch."""

import torch
from torch import nn
from torch.nn import functional as F


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        for n in "qkvo":
            setattr(self, n + "_proj", nn.Linear(d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            m(x).view(b, t, self.h, d // self.h).transpose(1, 2)
            for m in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, d))


class MLP(nn.Module):
    def __init__(self, d, f):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (
            nn.Linear(d, f, bias=False),
            nn.Linear(d, f, bias=False),
            nn.Linear(f, d, bias=False),
        )

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.input_layernorm, self.self_attn = nn.LayerNorm(d), Attn(d, h)
        self.post_attention_layernorm, self.mlp = nn.LayerNorm(d), MLP(d, 2 * d)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class GPT(nn.Module):
    def __init__(self, depth=3, d=32, h=4, vocab=61):
        super().__init__()
        self.embed_tokens, self.embed_positions = nn.Embedding(vocab, d), nn.Embedding(32, d)
        self.layers = nn.ModuleList(Block(d, h) for _ in range(depth))
        self.norm, self.lm_head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.embed_tokens(ids) + self.embed_positions(torch.arange(ids.shape[1]))
        for m in self.layers:
            x = m(x)
        return self.lm_head(self.norm(x))


def build(depth=3, seed=0):
    torch.manual_seed(seed)
    return GPT(depth)


def loss(logits, label):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), label.reshape(-1))


def adam(model, lr=1e-4):
    return torch.optim.Adam(model.parameters(), lr)


def adamw(model, lr=1e-3):
    return torch.optim.AdamW(model.parameters(), lr)
