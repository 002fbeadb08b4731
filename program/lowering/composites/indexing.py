"""Reading and writing by indices, in the common ground of frameworks and numpy.

Integers and slices select first, each on its own axis; indices that are tensors then work
together, and their axes stand where the first of them stood, or in front if they are apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.primitives import Kind

from .shaping import (
    as_kind,
    axis_of,
    expand,
    integer,
    move_axis,
    narrow,
    positions,
    reshape,
    unsqueeze,
)

_Bounds: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """An index in parts: bounds of every axis, axes to drop or insert, tensors."""

    bounds: list[_Bounds]
    layout: list[Any]
    """What stands at each place of the result: an axis, None for a new one, or an index tensor
    (a tuple of axes and tensor)."""


def _parts(b: Builder, x: Term, index: Any) -> tuple[Any, ...]:
    """Return the parts of an index; a list of numbers, recorded as a tuple, is one part.

    A tuple of integers takes as many axes away, a list none: the recorded axes tell them apart.
    """
    if not isinstance(index, tuple):
        return (index,)
    whole = all(type(each) is int for each in index)
    if index and whole and len(b.expected) == 1 and b.expected[0].ndim == x.ndim:
        return (index,) if b.expected[0].shape[0] == len(index) else index
    return index


def _consumed(part: Any) -> int:
    if part is None or part is ... or isinstance(part, bool):
        return 0
    return part.ndim if isinstance(part, Term) and part.kind is Kind.BOOL else 1


def _as_tensor(b: Builder, part: Any) -> Any:
    if isinstance(part, tuple | list):
        if any(isinstance(each, Term) for each in part):
            return b.literal(np.array([integer(b, each) for each in part]))
        return b.literal(np.asarray(part))
    return part


def _read(b: Builder, x: Term, index: Any) -> _Index:
    parts = [_as_tensor(b, part) for part in _parts(b, x, index)]
    missing = x.ndim - sum(map(_consumed, parts))
    if missing < 0:
        raise NotLoweredError("more indices than axes")
    if not any(part is ... for part in parts):
        parts.append(...)
    bounds: list[_Bounds] = [(0, size, 1) for size in x.shape]
    layout: list[Any] = []
    axis = 0
    for part in parts:
        if part is ...:
            layout += range(axis, axis + missing)
            axis += missing
        elif part is None:
            layout.append(None)
        elif isinstance(part, slice):
            bounds[axis] = _bounds_of(b, part, x.shape[axis])
            layout.append(axis)
            axis += 1
        elif isinstance(part, bool):
            raise NotLoweredError("an index that is True or False")
        elif isinstance(part, int):
            axis = _select(b, x, part, axis, bounds, layout)
        elif isinstance(part, Term):
            layout.append((tuple(range(axis, axis + _consumed(part))), part))
            axis += _consumed(part)
        else:
            raise NotLoweredError(f"an index of type {type(part).__name__}")
    return _Index(bounds=bounds, layout=layout)


def _select(
    b: Builder, x: Term, part: Any, axis: int, bounds: list[_Bounds], layout: list[Any]
) -> int:
    size, place = x.shape[axis], integer(b, part)
    if not -size <= place < size:
        raise NotLoweredError(f"index {place} beyond an axis of {size}")
    bounds[axis] = (place % size, place % size + 1, 1)
    layout.append((axis,))
    return axis + 1


def _bounds_of(b: Builder, part: slice, size: int) -> _Bounds:
    start, stop, step = (
        None if each is None else integer(b, each) for each in (part.start, part.stop, part.step)
    )
    start, stop, step = slice(start, stop, step).indices(size)
    return start, max(start, stop) if step > 0 else min(start, stop), step


def _basic(b: Builder, x: Term, bounds: Sequence[_Bounds]) -> Term:
    for axis, (start, stop, step) in enumerate(bounds):
        if step > 0:
            x = narrow(b, x, axis, start, stop, step)
        else:
            last = x.shape[axis] - 1
            x = narrow(b, b("flip", x, axes=(axis,)), axis, last - start, last - stop, -step)
    return x


def _without_selected(x: Term, layout: list[Any]) -> list[Any]:
    """Return the layout without dropped axes, and axes counted as if they were gone."""
    dropped = {part[0] for part in layout if isinstance(part, tuple) and len(part) == 1}
    kept = [axis for axis in range(x.ndim) if axis not in dropped]
    number = {axis: place for place, axis in enumerate(kept)}
    result: list[Any] = []
    for part in layout:
        if isinstance(part, int):
            result.append(number[part])
        elif part is None:
            result.append(None)
        elif len(part) > 1:
            result.append((tuple(number[axis] for axis in part[0]), part[1]))
    return result


def _selected_shape(x: Term, layout: list[Any]) -> tuple[int, ...]:
    dropped = {part[0] for part in layout if isinstance(part, tuple) and len(part) == 1}
    return tuple(size for axis, size in enumerate(x.shape) if axis not in dropped)


def get_item(b: Builder, x: Term, index: Any) -> Term:
    """Read ``x[index]``."""
    read = _read(b, x, index)
    x = _basic(b, x, read.bounds)
    layout = _without_selected(x, read.layout)
    x = reshape(b, x, _selected_shape(x, read.layout))
    tensors = [part for part in layout if isinstance(part, tuple)]
    if not tensors:
        return _with_new_axes(b, x, layout)
    indices, axes = _index_tensors(b, x, tensors)
    together = _neighbours(layout)
    place = layout.index(tensors[0]) if together else 0
    new_before = sum(part is None for part in layout[:place])
    result = _pick(b, x, axes, indices, front=not together, at=place - new_before)
    shape = list(result.shape)
    count = _places_ndim(indices)
    rest = [part for part in layout if not isinstance(part, tuple)]
    at = sum(not isinstance(part, tuple) for part in layout[:place]) if together else 0
    sizes = iter(shape[: at - new_before] + shape[at - new_before + count :])
    final = [1 if part is None else next(sizes) for part in rest]
    final[at:at] = shape[at - new_before : at - new_before + count]
    return reshape(b, result, final)


def _with_new_axes(b: Builder, x: Term, layout: list[Any]) -> Term:
    sizes = iter(x.shape)
    return reshape(b, x, [1 if part is None else next(sizes) for part in layout])


def _neighbours(layout: list[Any]) -> bool:
    places = [place for place, part in enumerate(layout) if isinstance(part, tuple)]
    return places[-1] - places[0] + 1 == len(places)


def _places_ndim(indices: Sequence[Term]) -> int:
    return max(index.ndim for index in indices)


def _index_tensors(
    b: Builder, x: Term, tensors: list[tuple[tuple[int, ...], Term]]
) -> tuple[list[Term], list[int]]:
    """Return integer indices and the axis of each; masks become coordinates."""
    indices: list[Term] = []
    axes: list[int] = []
    for where, tensor in tensors:
        if tensor.kind is Kind.BOOL:
            coordinates = b("nonzero", tensor, count=_mask_count(b, x, tensor, where, tensors))
            indices += [
                reshape(b, narrow(b, coordinates, 1, place, place + 1), (-1,))
                for place in range(tensor.ndim)
            ]
        else:
            indices.append(tensor)
        axes += where
    return indices, axes


def _mask_count(b: Builder, x: Term, mask: Term, where: tuple[int, ...], tensors: list[Any]) -> int:
    """Return how many elements a mask holds, from the size of the recorded result."""
    taken = {axis for axes, _ in tensors for axis in axes}
    rest = math.prod(size for axis, size in enumerate(x.shape) if axis not in taken)
    if len(tensors) == 1 and rest and len(b.expected) == 1 and mask.ndim == len(where):
        return b.expected[0].count // rest
    return int(np.count_nonzero(b.static(mask)))


def masked_count(b: Builder, mask: Term) -> int:
    """Return how many elements a mask holds: the recorded size of the first axis."""
    if b.expected and b.expected[0].ndim:
        return b.expected[0].shape[0]
    return int(np.count_nonzero(b.static(mask)))


def _pick(
    b: Builder, x: Term, axes: list[int], indices: list[Term], *, front: bool, at: int
) -> Term:
    if len(axes) == 1:
        result = b("take", x, indices[0], axis=axes[0])
        if not front or axes[0] == 0:
            return result
        count = indices[0].ndim
        return move_axis(b, result, range(axes[0], axes[0] + count), range(count))
    result = b("pick", move_axis(b, x, axes, range(len(axes))), *indices)
    count = _places_ndim(indices)
    return result if front else move_axis(b, result, range(count), range(at, at + count))


def set_item(b: Builder, x: Term, index: Any, value: Any, *, accumulate: bool = False) -> Term:
    """Return what ``x`` is after ``x[index] = value``, or ``+=`` where indices repeat."""
    read = _read(b, x, index)
    value = as_kind(b, b.term(value), x.kind)
    inner = _basic(b, x, read.bounds)
    layout = _without_selected(inner, read.layout)
    region = reshape(b, inner, _selected_shape(inner, read.layout))
    tensors = [part for part in layout if isinstance(part, tuple)]
    if tensors:
        fresh = _written(b, region, layout, tensors, value, accumulate=accumulate)
    else:
        sizes = iter(region.shape)
        wide = [1 if part is None else next(sizes) for part in layout]
        fresh = reshape(b, expand(b, _fitting(b, value, len(wide)), wide), region.shape)
        fresh = region + fresh if accumulate else fresh
    return _assigned(b, x, read.bounds, reshape(b, fresh, inner.shape))


def _fitting(b: Builder, value: Term, ndim: int) -> Term:
    """Leave leading axes of size one away that the region lacks."""
    extra = value.ndim - ndim
    if extra > 0 and set(value.shape[:extra]) <= {1}:
        return reshape(b, value, value.shape[extra:])
    return value


def _written(
    b: Builder,
    x: Term,
    layout: list[Any],
    tensors: list[Any],
    value: Term,
    *,
    accumulate: bool,
) -> Term:
    if None in layout:
        raise NotLoweredError("writing through an index with new axes")
    where, mask = tensors[0]
    if len(tensors) == 1 and mask.kind is Kind.BOOL and not accumulate:
        return _masked(b, x, mask, where, value)
    indices, axes = _index_tensors_known(b, tensors)
    moved = move_axis(b, x, axes, range(len(axes)))
    if _neighbours(layout):
        at = sum(axis < axes[0] for axis in range(x.ndim) if axis not in axes)
        value = _value_in_front(b, value, x.ndim - len(axes), _places_ndim(indices), at)
    reduce = "add" if accumulate else "set"
    return move_axis(b, b("put", moved, value, *indices, reduce=reduce), range(len(axes)), axes)


def _value_in_front(b: Builder, value: Term, rest: int, places: int, at: int) -> Term:
    """Move the axes of the places to the front of what is written."""
    value = _fitting(b, value, rest + places)
    if not at:
        return value
    value = reshape(b, value, (1,) * (rest + places - value.ndim) + value.shape)
    return move_axis(b, value, range(at, at + places), range(places))


def _index_tensors_known(b: Builder, tensors: list[Any]) -> tuple[list[Term], list[int]]:
    indices: list[Term] = []
    axes: list[int] = []
    for where, tensor in tensors:
        if tensor.kind is Kind.BOOL:
            found = np.argwhere(b.static(tensor))
            coordinates = b("nonzero", tensor, count=len(found))
            indices += [
                reshape(b, narrow(b, coordinates, 1, place, place + 1), (-1,))
                for place in range(tensor.ndim)
            ]
        else:
            indices.append(tensor)
        axes += where
    return indices, axes


def _masked(b: Builder, x: Term, mask: Term, where: tuple[int, ...], value: Term) -> Term:
    """Write where a mask holds: one value for all places, or one after the other."""
    rest = x.ndim - len(where)
    shape = [size if axis in where else 1 for axis, size in enumerate(x.shape)]
    wide = reshape(b, mask, shape)
    value = _fitting(b, value, rest + 1)
    if value.ndim <= rest or (value.ndim == rest + 1 and value.shape[0] == 1 and not where[0]):
        if value.ndim > rest:
            value = reshape(b, value, value.shape[1:])
        if where[0] == 0 or not value.ndim:
            return b("where", wide, value, x)
    if where != tuple(range(len(where))):
        raise NotLoweredError("writing several rows by a mask behind other axes")
    source = expand(b, value, (value.shape[0], *x.shape[len(where) :]))
    return b("masked_put", x, expand(b, wide, x.shape), source)


def _assigned(b: Builder, x: Term, bounds: Sequence[_Bounds], value: Term) -> Term:
    """Return ``x`` with a region replaced; the region is cut axis by axis, and joined again."""
    for axis, (start, stop, step) in enumerate(bounds):
        size = x.shape[axis]
        if (start, step) == (0, 1) and stop >= size:
            continue
        if step < 0:
            raise NotLoweredError("writing through a slice that runs backward")
        whole = [(0, extent, 1) for extent in x.shape]
        rest = [*whole[: axis + 1], *bounds[axis + 1 :]]
        inner = narrow(b, x, axis, start, stop, step)
        fresh = _assigned(b, inner, rest, value)
        if step == 1:
            parts = [narrow(b, x, axis, 0, start), fresh, narrow(b, x, axis, stop, size)]
            parts = [part for part in parts if part.shape[axis]]
            return b("concat", *parts, axis=axis) if parts else x
        return put_along(b, x, axis, positions(b, fresh.shape[axis]) * step + start, fresh)
    return expand(b, value, x.shape)


def index_along(b: Builder, x: Term, axis: Any, index: Term) -> Term:
    """Select rows along one axis."""
    return b("take", x, index, axis=axis_of(b, axis, x.ndim))


def put_along(
    b: Builder, x: Term, axis: Any, index: Term, source: Term, reduce: str = "set"
) -> Term:
    """Write rows along one axis."""
    axis = axis_of(b, axis, x.ndim)
    moved = move_axis(b, x, [axis], [0])
    source = move_axis(b, source, [axis], [0]) if source.ndim else source
    return move_axis(b, b("put", moved, source, index, reduce=reduce), [0], [axis])


def gather(b: Builder, x: Term, axis: Any, index: Term) -> Term:
    """Read one element for each index."""
    if not x.ndim:
        return expand(b, x, index.shape)
    if not index.ndim:
        return reshape(b, b("gather", x, unsqueeze(b, index, 0), axis=0), ())
    return b("gather", x, index, axis=axis_of(b, axis, x.ndim))


def one_hot(b: Builder, index: Term, count: int, kind: Kind = Kind.INT) -> Term:
    """Return a new last axis that holds one at the index and zero elsewhere."""
    places = positions(b, count, index.ndim + 1, index.ndim)
    return as_kind(b, b("equal", unsqueeze(b, index, -1), places), kind)
