"""The conformance kit for adapters, on JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
from flax import nnx

from padiff.testing import DTYPES, Nets, adapter_suite

if TYPE_CHECKING:
    from collections.abc import Callable

Array = Any


def net(call: Callable[..., Array], **children: nnx.Module) -> nnx.Module:
    made = type("Net", (nnx.Module,), {"__call__": call})()
    for name, child in children.items():
        setattr(made, name, child)
    return made


def linear(inside: int, outside: int) -> nnx.Linear:
    return nnx.Linear(
        inside, outside, rngs=nnx.Rngs(inside), bias_init=nnx.initializers.normal(1.0)
    )


class Tanh(nnx.Module):
    def __call__(self, x: Array) -> Array:
        return jax.numpy.tanh(x)


def chain(self: Any, x: Array) -> Array:
    return self.second(self.act(self.first(x)))


def raising(self: Any, x: Array) -> Array:
    raise ValueError("planted")


def catching(self: Any, x: Array) -> Array:
    try:
        return self.bad(x)
    except ValueError:
        return self.good(x)


def nested() -> nnx.Module:
    inner = net(chain, first=linear(3, 4), act=Tanh(), second=linear(4, 2))
    return net(lambda self, x: self.inner(x), inner=inner)


def shared() -> nnx.Module:
    one = linear(3, 3)
    return net(lambda self, x: self.other(self.one(x)), one=one, other=one)


def failing() -> nnx.Module:
    return net(lambda self, x: self.bad(self.good(x)), good=linear(3, 3), bad=net(raising))


NETS = Nets(
    nested=nested,
    shared=shared,
    failing=failing,
    catching=lambda: net(catching, good=linear(3, 3), bad=net(raising)),
    dtypes=DTYPES,
)
jax.config.update("jax_enable_x64", True)  # noqa: FBT003

TestJax = adapter_suite("jax", NETS)
