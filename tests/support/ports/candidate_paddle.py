"""Ports of the reference models from their papers, with module trees of their own."""

from __future__ import annotations

import paddle
from paddle import nn
from paddle.nn import functional


class FusedHeads(nn.Layer):
    """Causal self-attention with one fused projection; no module for softmax or dropout."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.proj_in = nn.Linear(width, 3 * width)
        self.proj_out = nn.Linear(width, width)
        self.heads = heads
        self.scale = (width // heads) ** -0.5

    def forward(self, hidden: paddle.Tensor) -> paddle.Tensor:
        """Attend over (batch, seq, width)."""
        batch, length, width = hidden.shape
        packed = self.proj_in(hidden).reshape([batch, length, 3, self.heads, width // self.heads])
        query, key, value = packed.transpose([2, 0, 3, 1, 4])
        scores = paddle.matmul(query * self.scale, key, transpose_y=True)
        hide = paddle.triu(paddle.full([length, length], -1e9, scores.dtype), 1)
        mixed = paddle.matmul(functional.softmax(scores + hide), value)
        return self.proj_out(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, width]))


class SplitHeads(nn.Layer):
    """Self-attention with three projections in a list, key first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(width, width) for _ in range(3))
        self.merge = nn.Linear(width, width)
        self.heads = heads

    def _split(self, hidden: paddle.Tensor) -> paddle.Tensor:
        batch, length, width = hidden.shape
        shape = [batch, length, self.heads, width // self.heads]
        return hidden.reshape(shape).transpose([0, 2, 1, 3])

    def forward(self, hidden: paddle.Tensor) -> paddle.Tensor:
        """Attend over (batch, seq, width)."""
        key, value = self._split(self.key(hidden)), self._split(self.value(hidden))
        query = self._split(self.query(hidden))
        scores = paddle.matmul(query, key, transpose_y=True) / (key.shape[-1] ** 0.5)
        mixed = paddle.matmul(functional.softmax(scores), value).transpose([0, 2, 1, 3])
        return self.merge(mixed.reshape(hidden.shape))


class PostNormBlock(nn.Layer):
    """BERT's layer without the wrappers around dense layers."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm_out = nn.LayerNorm(width, epsilon=1e-12)
        self.norm_att = nn.LayerNorm(width, epsilon=1e-12)
        self.attention = SplitHeads(width, heads)
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)

    def forward(self, hidden: paddle.Tensor) -> paddle.Tensor:
        """Transform (batch, seq, width)."""
        hidden = self.norm_att(hidden + self.attention(hidden))
        return self.norm_out(hidden + self.down(functional.gelu(self.up(hidden))))


class Bert(nn.Layer):
    """BERT with pooler; returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.Linear(32, 32)
        self.blocks = nn.LayerList([PostNormBlock(32, 4, 64) for _ in range(2)])
        self.embed_types = nn.Embedding(2, 32)
        self.embed_places = nn.Embedding(24, 32)
        self.embed_words = nn.Embedding(60, 32)
        self.embed_norm = nn.LayerNorm(32, epsilon=1e-12)

    def forward(self, input_ids: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        """Map ids (batch, seq) to hidden states and the pooled first token."""
        places = paddle.arange(input_ids.shape[1]).unsqueeze(0)
        hidden = self.embed_words(input_ids) + self.embed_types(paddle.zeros_like(input_ids))
        hidden = self.embed_norm(hidden + self.embed_places(places))
        for block in self.blocks:
            hidden = block(hidden)
        return hidden, paddle.tanh(self.pool(hidden[:, 0]))


class PreNormBlock(nn.Layer):
    """A pre-norm block; fused heads and tanh GELU for GPT-2, split heads and erf GELU for ViT."""

    def __init__(self, width: int, heads: int, inner: int, *, eps: float, causal: bool) -> None:
        super().__init__()
        self.ln_a = nn.LayerNorm(width, epsilon=eps)
        self.att = FusedHeads(width, heads) if causal else SplitHeads(width, heads)
        self.ln_b = nn.LayerNorm(width, epsilon=eps)
        self.ffn = nn.Sequential(
            nn.Linear(width, inner), nn.GELU(approximate=causal), nn.Linear(inner, width)
        )

    def forward(self, hidden: paddle.Tensor) -> paddle.Tensor:
        """Transform (batch, seq, width)."""
        hidden = hidden + self.att(self.ln_a(hidden))
        return hidden + self.ffn(self.ln_b(hidden))


class Gpt2(nn.Layer):
    """GPT-2 with tied head, computed by a plain matmul."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(60, 32)
        self.places = nn.Embedding(24, 32)
        self.stack = nn.Sequential(
            *[PreNormBlock(32, 4, 128, eps=1e-5, causal=True) for _ in range(2)]
        )
        self.last_norm = nn.LayerNorm(32, epsilon=1e-5)

    def forward(self, input_ids: paddle.Tensor) -> paddle.Tensor:
        """Map ids (batch, seq) to logits (batch, seq, vocabulary)."""
        hidden = self.words(input_ids) + self.places(paddle.arange(input_ids.shape[1]))
        hidden = self.last_norm(self.stack(hidden))
        return paddle.matmul(hidden, self.words.weight, transpose_y=True)


class Vit(nn.Layer):
    """ViT that keeps class token and positions as its own parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2D(3, 32, 4, stride=4)
        self.first = self.create_parameter([1, 1, 32])
        self.where = self.create_parameter([1, 17, 32])
        self.layers = nn.LayerList(
            [PreNormBlock(32, 4, 64, eps=1e-12, causal=False) for _ in range(2)]
        )
        self.final = nn.LayerNorm(32, epsilon=1e-12)

    def forward(self, pixel_values: paddle.Tensor) -> paddle.Tensor:
        """Map images (batch, 3, 16, 16) to hidden states (batch, 17, 32)."""
        seen = self.patches(pixel_values).flatten(2).transpose([0, 2, 1])
        hidden = paddle.concat([self.first.expand([seen.shape[0], 1, 32]), seen], axis=1)
        hidden = hidden + self.where
        for layer in self.layers:
            hidden = layer(hidden)
        return self.final(hidden)


def bert() -> nn.Layer:
    """Build the BERT port."""
    return Bert()


def gpt2() -> nn.Layer:
    """Build the GPT-2 port."""
    return Gpt2()


def vit() -> nn.Layer:
    """Build the ViT port."""
    return Vit()


def _faulty(model: nn.Layer, path: str) -> nn.Layer:
    dict(model.named_sublayers())[path]._epsilon = 1e-3
    return model


def faulty_bert() -> nn.Layer:
    """Build the BERT port with a wrong epsilon in its second block."""
    return _faulty(Bert(), "blocks.1.norm_att")


def faulty_gpt2() -> nn.Layer:
    """Build the GPT-2 port with a wrong epsilon in its first block."""
    return _faulty(Gpt2(), "stack.0.ln_b")


def faulty_vit() -> nn.Layer:
    """Build the ViT port with a wrong epsilon in its second block."""
    return _faulty(Vit(), "layers.1.ln_a")
