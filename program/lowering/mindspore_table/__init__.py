"""The operators of MindSpore.

Short forms of names: ``MatMul`` is the primitive ``mindspore.ops.MatMul``, ``.reshape`` the method
``mindspore.Tensor.reshape``, ``mint.add`` the function ``mindspore.mint.add``, and
``mindspore.tensor`` itself. What a primitive was made with comes behind what it is called with.
"""

from __future__ import annotations

from padiff.program.lowering.rules import Table

from . import elementwise, networks, reductions, shapes

__all__ = ["MINDSPORE"]

MINDSPORE = Table(
    framework="mindspore",
    prefixes={
        "": "mindspore.ops.",
        ".": "mindspore.Tensor.",
        "mint.": "mindspore.mint.",
        "mindspore.": "mindspore.",
    },
    rows=tuple(
        entry for room in (elementwise, networks, reductions, shapes) for entry in room.ROWS
    ),
    aliases={
        "input": ("x",),
        "input_x": ("x",),
        "logits": ("x",),
        "dim": ("axis",),
        "keep_dims": ("keepdim",),
        "keepdims": ("keepdim",),
        "mat2": ("y",),
        "other": ("y",),
    },
)
