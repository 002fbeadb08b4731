"""A GPT-like decoder in paddle, as large as one likes."""

from __future__ import annotations

import paddle
from paddle import nn


class Attention(nn.Layer):
    """Causal self-attention with one fused projection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, hidden: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        """Map (batch, seq, width) to the same shape."""
        batch, length, width = hidden.shape
        split = self.qkv(hidden).reshape([batch, length, 3, self.heads, width // self.heads])
        query, key, value = paddle.unbind(split.transpose([2, 0, 3, 1, 4]))
        scores = query @ key.transpose([0, 1, 3, 2]) * (width // self.heads) ** -0.5
        mixed = nn.functional.softmax(scores + mask) @ value
        joined: paddle.Tensor = self.out(
            mixed.transpose([0, 2, 1, 3]).reshape([batch, length, width])
        )
        return joined


class Block(nn.Layer):
    """Pre-norm attention and feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.gelu = nn.GELU()
        self.down = nn.Linear(4 * width, width)

    def forward(self, hidden: paddle.Tensor, mask: paddle.Tensor) -> paddle.Tensor:
        """Map (batch, seq, width) to the same shape."""
        hidden = hidden + self.attention(self.norm1(hidden), mask)
        added: paddle.Tensor = hidden + self.down(self.gelu(self.up(self.norm2(hidden))))
        return added


class GPT(nn.Layer):
    """Embeddings, blocks, a norm, a head."""

    def __init__(self, *, layers: int, width: int, heads: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(1024, width)
        self.blocks = nn.LayerList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: paddle.Tensor) -> paddle.Tensor:
        """Map ids (batch, seq) to logits (batch, seq, vocabulary)."""
        length = ids.shape[1]
        mask = paddle.triu(paddle.full([length, length], -1e9), 1)
        hidden = self.tokens(ids) + self.positions(paddle.arange(length))
        for block in self.blocks:
            hidden = block(hidden, mask)
        scores: paddle.Tensor = self.head(self.norm(hidden))
        return scores
