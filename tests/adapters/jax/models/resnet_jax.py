"""The same in flax.nnx: NHWC. A fault can be planted: another epsilon."""

from __future__ import annotations

import jax.numpy as jnp
from flax import nnx
from jax import Array


class Block(nnx.Module):
    def __init__(
        self, inside: int, outside: int, stride: int, rngs: nnx.Rngs, epsilon: float = 1e-5
    ) -> None:
        self.conv1 = nnx.Conv(inside, outside, (3, 3), stride, padding=1, use_bias=False, rngs=rngs)
        self.bn1 = nnx.BatchNorm(outside, rngs=rngs, epsilon=1e-5)
        self.conv2 = nnx.Conv(outside, outside, (3, 3), padding=1, use_bias=False, rngs=rngs)
        self.bn2 = nnx.BatchNorm(outside, rngs=rngs, epsilon=epsilon)
        if stride != 1:
            self.down = nnx.Conv(inside, outside, (1, 1), stride, use_bias=False, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        y = nnx.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return nnx.relu(y + (self.down(x) if hasattr(self, "down") else x))


class ResNet(nnx.Module):
    def __init__(self, epsilon: float = 1e-5) -> None:
        rngs = nnx.Rngs(0)
        self.stem = nnx.Conv(3, 8, (3, 3), padding=1, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs, epsilon=1e-5)
        self.blocks = nnx.List([Block(8, 8, 1, rngs), Block(8, 16, 2, rngs, epsilon)])
        self.head = nnx.Linear(16, 5, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        x = nnx.relu(self.norm(self.stem(x)))
        x = nnx.max_pool(x, (2, 2), (2, 2))
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, axis=(1, 2)))
