"""Fit primitives to operands of other sizes than were recorded.

How many elements a search finds depends on the elements: a router sends another number of tokens to
an expert where the weights ahead of it are others. What follows is made for the recorded number,
such as the shape of a reshape; here it gets the number that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from padiff.dumpfile import ProgramError

from .primitives import ELEMENTWISE, VOCABULARY, Array, Kind, ShapeError, Spec

if TYPE_CHECKING:
    from .lowering import Node

Shape: TypeAlias = tuple[int, ...]

COUNTED: Mapping[str, Callable[[Array], int]] = {
    "nonzero": lambda x: int(np.count_nonzero(x)),
    "unique": lambda x: len(np.unique(x)),
}
"""Primitives that find as many elements as there are, and how many those are."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A primitive for operands of other sizes."""

    operands: list[Array]
    attributes: dict[str, Any]
    taken: list[Spec]
    """What the operands are."""
    made: list[Spec]
    """What the primitive makes of them."""


def fit(node: Node, operands: Sequence[Array], recorded: Sequence[Spec]) -> Fitted | None:
    """Fit a primitive to its operands.

    Args:
        node: The primitive.
        operands: Their elements.
        recorded: The operands as recorded.

    Returns:
        None where operands and counts are as recorded.

    Raises:
        ProgramError: The primitive cannot take these sizes.
    """
    attributes: dict[str, Any] = dict(node.attributes)
    is_same = all(one.shape == spec.shape for one, spec in zip(operands, recorded, strict=True))
    count = COUNTED[node.primitive](operands[0]) if node.primitive in COUNTED else None
    if is_same and count in (None, attributes.get("count")):
        return None
    if count is not None:
        attributes["count"] = count
    elif node.primitive in _FITTING:
        attributes = _FITTING[node.primitive](attributes, recorded[0].shape, operands[0].shape)
    try:
        return _inferred(node, list(operands), attributes, recorded)
    except ShapeError as error:
        raise ProgramError(
            f"cannot execute operator {node.operator} ({node.primitive}): {error}"
        ) from error


def _inferred(
    node: Node, operands: list[Array], attributes: dict[str, Any], recorded: Sequence[Spec]
) -> Fitted:
    """Return the primitive with what it makes; raises ShapeError."""
    if node.primitive in ELEMENTWISE:
        sizes = _other_sizes(operands, recorded)
        operands = [_once(one, sizes) for one in operands]
        _check_sizes(operands, sizes)
        return _with_specs(node, operands, attributes)
    try:
        return _with_specs(node, operands, attributes)
    except ShapeError:
        axes = range(-max(one.ndim for one in operands), 0)
        return _with_specs(node, [_once(one, axes) for one in operands], attributes)


def _other_sizes(operands: Sequence[Array], recorded: Sequence[Spec]) -> dict[int, int]:
    """Return the sizes of the axes that are not as recorded, counted from the end."""
    return {
        axis: one.shape[axis]
        for one, spec in zip(operands, recorded, strict=True)
        for axis in range(-one.ndim, 0)
        if one.shape[axis] != spec.shape[axis]
    }


def _check_sizes(operands: Sequence[Array], sizes: Mapping[int, int]) -> None:
    """Raise ShapeError where an operand has elements of its own, as many as were recorded."""
    for one in operands:
        for axis, size in sizes.items():
            if -axis <= one.ndim and one.shape[axis] not in (1, size):
                found = one.shape[axis]
                raise ShapeError(f"expected 1 or {size} along axis {axis}, found {found}")


def _with_specs(node: Node, operands: list[Array], attributes: dict[str, Any]) -> Fitted:
    taken = [Spec(Kind.of_dtype(one.dtype.name), one.shape) for one in operands]
    made = VOCABULARY[node.primitive].infer(*taken, **attributes)
    return Fitted(operands, attributes, taken, [made] if isinstance(made, Spec) else list(made))


def _once(array: Array, axes: Iterable[int]) -> Array:
    """Return an array without what it was repeated along some axes: it broadcasts anew."""
    parts = [slice(None)] * array.ndim
    for axis in axes:
        if -axis <= array.ndim and array.strides[axis] == 0 and array.shape[axis] > 1:
            parts[axis] = slice(0, 1)
    return array[tuple(parts)]


def _reshaped(attributes: dict[str, Any], old: Shape, new: Shape) -> dict[str, Any]:
    """Return a reshape in which the axes that others become part of grow or shrink with them."""
    recorded: Shape = attributes["shape"]
    shape = list(recorded)
    for axis, (before, after) in enumerate(zip(old, new, strict=True)):
        if before == after:
            continue
        for place, size in enumerate(recorded):
            is_here = prod(recorded[:place]) == prod(old[:axis])
            if is_here and before and (size > 1 or before == 1) and size * after % before == 0:
                shape[place] = size * after // before
                break
            if is_here and not before and not size:
                rest = prod(one for at, one in enumerate(shape) if at != place)
                shape[place] = prod(new) // max(rest, 1)
                break
    return {**attributes, "shape": tuple(shape)}


def _expanded(attributes: dict[str, Any], old: Shape, new: Shape) -> dict[str, Any]:
    """Return an expansion that leaves axes of other sizes as they are."""
    shape = list(attributes["shape"])
    for axis in range(-len(old), 0):
        if old[axis] != new[axis]:
            shape[axis] = new[axis]
    return {**attributes, "shape": tuple(shape)}


def _sliced(attributes: dict[str, Any], old: Shape, new: Shape) -> dict[str, Any]:
    """Return a slice that goes to the end of an axis where it went there before."""
    axis = attributes["axis"]
    is_end = attributes["stop"] == old[axis]
    return {**attributes, "stop": new[axis] if is_end else attributes["stop"]}


_FITTING: Mapping[str, Callable[[dict[str, Any], Shape, Shape], dict[str, Any]]] = {
    "reshape": _reshaped,
    "expand": _expanded,
    "slice": _sliced,
}
"""Primitives that say which sizes they make, and how these follow from the operand's."""
