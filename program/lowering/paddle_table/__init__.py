"""The operators of Paddle.

Short forms of names: ``add`` is ``paddle._C_ops.add``, and ``.__getitem__`` is
``paddle.Tensor.__getitem__``. Arguments stand in the order of Paddle's C++ interface, in which
its own functions call them. Results that Paddle needs for gradients only are no outputs, unless
the operator returns them.
"""

from __future__ import annotations

from padiff.program.lowering.rules import Table

from . import (
    elementwise,
    indexing,
    layers,
    linear,
    losses,
    networks,
    recurrence,
    reductions,
    sampling,
    shapes,
)

__all__ = ["PADDLE"]

PADDLE = Table(
    framework="paddle",
    prefixes={"": "paddle._C_ops.", ".": "paddle.Tensor."},
    rows=tuple(
        entry
        for room in (
            elementwise,
            networks,
            layers,
            linear,
            sampling,
            recurrence,
            shapes,
            reductions,
            indexing,
            losses,
        )
        for entry in room.ROWS
    ),
    aliases={
        "input": ("x", "arr"),
        "other": ("y",),
        "dim": ("axis",),
        "keepdims": ("keepdim",),
    },
)
