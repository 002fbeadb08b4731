"""How layers of Megatron and of Paddle's fleet lie over the ranks of tensor parallelism.

They split by hand: their weights and activations are plain tensors that say nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import Role

from .assembling import REPLICATE

if TYPE_CHECKING:
    from padiff.dumpfile import ModuleInfo

TENSOR_DIMS = frozenset({"tp", "mp", "tensor", "model", "ranks"})
"""What people call the dimension of a mesh along which such layers split."""

_COLUMN, _ROW, _WORDS = range(3)
_KINDS = {
    "ColumnParallelLinear": _COLUMN,
    "ColumnSequenceParallelLinear": _COLUMN,
    "TEColumnParallelLinear": _COLUMN,
    "TELayerNormColumnParallelLinear": _COLUMN,
    "RowParallelLinear": _ROW,
    "RowSequenceParallelLinear": _ROW,
    "TERowParallelLinear": _ROW,
    "VocabParallelEmbedding": _WORDS,
}
_LAST = -1
"""Stands for the last axis."""
_OUT, _IN = "out", "in"
_AXES = {"torch": {_OUT: 0, _IN: 1}, "paddle": {_OUT: 1, _IN: 0}}
"""Axis of a linear weight, by framework."""
_FEATURES: dict[tuple[int, Role, str], int | str | None] = {
    (_COLUMN, Role.WEIGHT, ".weight"): _OUT,
    (_COLUMN, Role.WEIGHT, ".bias"): 0,
    (_COLUMN, Role.INPUT, ""): None,
    (_COLUMN, Role.GRAD_INPUT, ""): None,
    (_COLUMN, Role.OUTPUT, ""): _LAST,
    (_COLUMN, Role.GRAD_OUTPUT, ""): _LAST,
    (_ROW, Role.WEIGHT, ".weight"): _IN,
    (_ROW, Role.WEIGHT, ".bias"): None,
    (_ROW, Role.INPUT, ""): _LAST,
    (_ROW, Role.GRAD_INPUT, ""): _LAST,
    (_ROW, Role.OUTPUT, ""): None,
    (_ROW, Role.GRAD_OUTPUT, ""): None,
    (_WORDS, Role.WEIGHT, ".weight"): 0,
    (_WORDS, Role.INPUT, ""): None,
    (_WORDS, Role.OUTPUT, ""): None,
    (_WORDS, Role.GRAD_OUTPUT, ""): None,
}
"""The axis that is split, None for a tensor that each rank has all of."""
_UNLESS = {
    (_COLUMN, Role.OUTPUT): ("gather_output", True),
    (_COLUMN, Role.GRAD_OUTPUT): ("gather_output", True),
    (_ROW, Role.INPUT): ("input_is_parallel", False),
    (_ROW, Role.GRAD_INPUT): ("input_is_parallel", False),
}
"""Attributes, with the value at which a record is whole after all."""


def layout_by_class(
    module: ModuleInfo, framework: str, role: Role, slot: str, ndim: int
) -> str | None:
    """Return the placement that a module's class promises; None where it promises none.

    Args:
        module: Whose record it is.
        framework: That recorded it.
        role: Of the record.
        slot: Of the record.
        ndim: Number of its axes.
    """
    kind = _KINDS.get(module.class_name)
    if kind is None or module.attributes.get("sequence_parallel") is True:
        return None
    place = slot if role is Role.WEIGHT else ""
    if (kind, role, place) not in _FEATURES or (not place and slot not in {"", "[0]"}):
        return None
    axis = _FEATURES[kind, role, place]
    name, value = _UNLESS.get((kind, role), ("", None))
    if axis is None or (name and module.attributes.get(name) is value):
        return REPLICATE
    if isinstance(axis, str):
        axis = _AXES.get(framework, _AXES["torch"])[axis]
    return f"S({ndim - 1 if axis == _LAST else axis})"
