"""Small networks out of a function, and gradients that a function changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .changes import ScaledGradient

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Net", "cut", "net", "scaled_gradient"]


class Net(nn.Module):
    """A module whose forward is a function of the module and its inputs."""

    def __init__(self, function: Callable[..., Any], **children: Any) -> None:  # noqa: ANN401
        super().__init__()
        for name, child in children.items():
            setattr(self, name, child)
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:  # noqa: ANN401 - whatever the function returns
        """Run the function."""
        return self.function(self, *inputs)


def net(function: Callable[..., Any], **children: Callable[[], nn.Module]) -> Net:
    """Build a network with seeded children.

    Args:
        function: Gets the network and its inputs.
        **children: What builds each of them.
    """
    torch.manual_seed(0)
    return Net(function, **{name: make() for name, make in children.items()})


def scaled_gradient(x: Tensor, factor: float) -> Tensor:
    """Return the tensor as it is, with a gradient times a factor."""
    made: Tensor = ScaledGradient.apply(x, factor)  # type: ignore[no-untyped-call]
    return made


def cut(x: Tensor) -> Tensor:
    """Return the tensor as it is, without a gradient."""
    return x.detach()
