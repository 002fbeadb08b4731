"""The same in flax.nnx, whose attention has kernels for each head. Two faults can be planted."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jax import Array


class Layer(nnx.Module):
    def __init__(
        self, width: int, heads: int, rngs: nnx.Rngs, *, approximate: bool = False, share: float = 1
    ) -> None:
        self.attention = nnx.MultiHeadAttention(heads, width, decode=False, rngs=rngs)
        self.norm1 = nnx.LayerNorm(width, epsilon=1e-5, rngs=rngs)
        self.linear1 = nnx.Linear(width, 2 * width, rngs=rngs)
        self.linear2 = nnx.Linear(2 * width, width, rngs=rngs)
        self.norm2 = nnx.LayerNorm(width, epsilon=1e-5, rngs=rngs)
        self.approximate, self.share = approximate, share

    def __call__(self, x: Array, mask: Array) -> Array:
        attended = self.attention(x, mask=mask)
        x = self.norm1(x + (attended if self.share == 1 else attended * self.share))
        inner = nnx.gelu(self.linear1(x), approximate=self.approximate)
        return self.norm2(x + self.linear2(inner))


class Encoder(nnx.Module):
    def __init__(self, *, approximate: bool = False, share: float = 1) -> None:
        rngs = nnx.Rngs(0)
        self.words = nnx.Embed(50, 16, rngs=rngs)
        self.places = nnx.Embed(12, 16, rngs=rngs)
        last = Layer(16, 4, rngs, approximate=approximate, share=share)
        self.layers = nnx.List([Layer(16, 4, rngs), last])
        self.head = nnx.Linear(16, 50, rngs=rngs)

    def __call__(self, ids: Array, mask: Array) -> Array:
        x = self.words(ids) + self.places(jnp.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :] > 0)
        return self.head(x)
