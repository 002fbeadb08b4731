"""The conformance kit for adapters, on Cells of MindSpore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mindspore import nn

from padiff.testing import Nets, adapter_suite

if TYPE_CHECKING:
    from collections.abc import Callable

Tensor = Any


def net(construct: Callable[..., Tensor], **children: nn.Cell) -> nn.Cell:
    made = type("Net", (nn.Cell,), {"construct": construct})()
    for name, child in children.items():
        setattr(made, name, child)
    return made


def chain(self: Any, x: Tensor) -> Tensor:
    return self.second(self.act(self.first(x)))


def raising(self: Any, x: Tensor) -> Tensor:
    raise ValueError("planted")


def catching(self: Any, x: Tensor) -> Tensor:
    try:
        return self.bad(x)
    except ValueError:
        return self.good(x)


def nested() -> nn.Cell:
    inner = net(chain, first=nn.Dense(3, 4), act=nn.Tanh(), second=nn.Dense(4, 2))
    return net(lambda self, x: self.inner(x), inner=inner)


def shared() -> nn.Cell:
    one = nn.Dense(3, 3)
    return net(lambda self, x: self.other(self.one(x)), one=one, other=one)


def failing() -> nn.Cell:
    return net(lambda self, x: self.bad(self.good(x)), good=nn.Dense(3, 3), bad=net(raising))


NETS = Nets(
    nested=nested,
    shared=shared,
    failing=failing,
    catching=lambda: net(catching, good=nn.Dense(3, 3), bad=net(raising)),
)

TestMindSpore = adapter_suite("mindspore", NETS)
