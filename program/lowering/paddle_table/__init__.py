"""The operators of Paddle.

Short forms of names: ``add`` is ``paddle._C_ops.add``, and ``.__getitem__`` is
``paddle.Tensor.__getitem__``, ``legacy.relu`` is ``paddle._legacy_C_ops.relu``, and
``paddle.to_tensor`` is itself. Arguments of operators stand in
the order of Paddle's C++ interface, in which its own functions call them. Some functions, such as
``paddle.sum``, hand the user's arguments on as they are: axes may be one number or None, dtypes
strings, and the last argument the ``name`` that Paddle ignores. Results that Paddle needs for
gradients only are no outputs, unless the operator returns them.
"""

from __future__ import annotations

from padiff.program.lowering.rules import Table

from . import (
    elementwise,
    indexing,
    layers,
    legacy,
    linear,
    losses,
    networks,
    recurrence,
    reductions,
    sampling,
    shapes,
    updates,
)

__all__ = ["PADDLE"]

PADDLE = Table(
    framework="paddle",
    prefixes={
        "": "paddle._C_ops.",
        ".": "paddle.Tensor.",
        "legacy.": "paddle._legacy_C_ops.",
        "paddle.": "paddle.",
    },
    has_names=True,
    sharing=frozenset({"paddle.Tensor.__getitem__"}),
    rows=tuple(
        entry
        for room in (
            elementwise,
            networks,
            layers,
            legacy,
            linear,
            sampling,
            recurrence,
            shapes,
            reductions,
            indexing,
            losses,
            updates,
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
