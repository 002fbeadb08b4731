"""The conformance kit for adapters, on layers of Keras in torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

os.environ["KERAS_BACKEND"] = "torch"  # read when keras is imported

import keras
from keras import layers

from padiff.testing import Nets, adapter_suite

if TYPE_CHECKING:
    from collections.abc import Callable

Tensor = Any


def built(self: Any, shape: object) -> None:
    """Build nothing: without this, Keras runs the layer once to find out."""


def net(call: Callable[..., Tensor], **children: keras.Layer) -> keras.Layer:
    made = type("Net", (layers.Layer,), {"call": call, "build": built})()
    for name, child in children.items():
        setattr(made, name, child)
    return made


class Dense(layers.Layer):
    """That of Keras multiplies numbers of float64 in float32."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.kernel = self.add_weight(shape=(inside, outside), name="kernel")
        self.bias = self.add_weight(shape=(outside,), initializer="random_normal", name="bias")

    def call(self, x: Tensor) -> Tensor:
        return x @ self.kernel.value + self.bias.value


def chain(self: Any, x: Tensor) -> Tensor:
    return self.second(self.act(self.first(x)))


def raising(self: Any, x: Tensor) -> Tensor:
    raise ValueError("planted")


def catching(self: Any, x: Tensor) -> Tensor:
    try:
        return self.bad(x)
    except ValueError:
        return self.good(x)


def nested() -> keras.Layer:
    inner = net(chain, first=Dense(3, 4), act=layers.Activation("tanh"), second=Dense(4, 2))
    return net(lambda self, x: self.inner(x), inner=inner)


def shared() -> keras.Layer:
    one = Dense(3, 3)
    return net(lambda self, x: self.other(self.one(x)), one=one, other=one)


def failing() -> keras.Layer:
    return net(lambda self, x: self.bad(self.good(x)), good=Dense(3, 3), bad=net(raising))


NETS = Nets(
    nested=nested,
    shared=shared,
    failing=failing,
    catching=lambda: net(catching, good=Dense(3, 3), bad=net(raising)),
)
keras.config.set_floatx("float64")  # the kit holds gradients against differences
keras.config.set_dtype_policy("float64")

TestKeras = adapter_suite("torch", NETS)
