"""The operators of torch.

Short forms of names: ``add`` is ``torch.add``, ``.add`` is ``torch.Tensor.add`` and ``F.relu`` is
``torch.nn.functional.relu``. Operators that write into their first argument stand beside the
others: the new value is what the functional form returns. An operator of ATen, which exported
programs call, is recorded as the function of torch that it is; ``aten.slice`` is one that has none
of its signature.
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
    shapes,
    updates,
)

__all__ = ["TORCH"]

TORCH = Table(
    framework="torch",
    prefixes={
        "": "torch.",
        ".": "torch.Tensor.",
        "F.": "torch.nn.functional.",
        "aten.": "aten.",
    },
    rows=tuple(
        entry
        for room in (
            elementwise,
            networks,
            shapes,
            reductions,
            indexing,
            linear,
            layers,
            recurrence,
            losses,
            updates,
        )
        for entry in room.ROWS
    ),
    aliases={
        "x": ("input",),
        "self": ("input",),
        "x2": ("other",),
        "x1": ("input",),
        "axis": ("dim", "dims"),
        "axes": ("dim", "dims"),
        "keepdims": ("keepdim",),
        "size": ("shape",),
        "A": ("input",),
        "mat2": ("other",),
        "vec": ("other",),
        "tensor": ("other", "input"),
        "split_size_or_sections": ("split_size",),
    },
)
