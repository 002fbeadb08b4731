"""Tensors that nothing recorded holds whole: the states of a loop, stacked along time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import RecordInfo

    from .causesides import Sides
    from .contrast import Contrast

__all__ = ["Stack", "stacks"]

FEWEST = 2
"""Calls of one module from which on it is a loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What the calls of one module gave, or were given, side by side."""

    name: str
    axis: int
    """Of the tensor that it may be part of."""
    array: Array
    """Shape (*S), but along the axis as many as there are parts, from index 0 on."""

    def cut(self, sides: Contrast) -> Contrast:
        """Give the part of a pair that the stack covers."""
        return replace(
            sides, reference=self.part(sides.reference), candidate=self.part(sides.candidate)
        )

    def part(self, array: Array) -> Array:
        """Give the part of a tensor that the stack covers."""
        kept = [slice(None)] * array.ndim
        kept[self.axis] = slice(self.array.shape[self.axis])
        result: Array = array[tuple(kept)]
        return result


def stacks(sides: Sides, record: RecordInfo, shape: Sequence[int]) -> Iterator[Stack]:
    """Yield the stacks that a tensor made by the code of a call may hold.

    The output of the n-th call of a module stands at index n; where a loop hands its state on, the
    input of the n-th call is the state at index n - 1.

    Args:
        sides: Both dumps.
        record: The tensor: an input of a call, or an output of a call with calls inside.
        shape: Its shape.
    """
    tree, call = sides.tree, record.call
    if call is None:
        return
    around = call if record.role is Role.OUTPUT else tree.reference.calls[call].parent
    by_module: dict[int, list[int]] = defaultdict(list)
    for child in () if around is None else tree.children.get(around, ()):
        if tree.reference.calls[child].start < record.order:
            by_module[tree.reference.calls[child].module].append(child)
    for calls in by_module.values():
        if len(calls) >= FEWEST and len(calls) in shape[1:]:
            for role in (Role.OUTPUT, Role.INPUT):
                yield from _stacked(sides, calls, role, shape)


def _stacked(
    sides: Sides, calls: Sequence[int], role: Role, shape: Sequence[int]
) -> Iterator[Stack]:
    calls = calls if role is Role.OUTPUT else calls[1:]
    records = [sides.tree.reference_flow.records(call, role) for call in calls]
    if not calls or not all(records):
        return
    arrays = [sides.small(one[0]) for one in records]
    parts = [array for array in arrays if array is not None]
    if len(parts) < len(arrays) or len({part.shape for part in parts}) != 1:
        return
    total = len(calls) + (role is Role.INPUT)
    for axis in range(1, len(shape)):
        if shape[axis] != total or (*shape[:axis], *shape[axis + 1 :]) != parts[0].shape:
            continue
        path = sides.tree.path(calls[0]).rpartition(".")[2]
        name = f"the {role}s of all calls of {path}, stacked along axis {axis}"
        if role is Role.INPUT:
            name = f"the states given to {path} from its second call on, stacked along axis {axis}"
        yield Stack(name=name, axis=axis, array=np.stack(parts, axis=axis))
