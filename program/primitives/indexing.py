"""Primitives that read or write elements at places that other values name, and sort.

Indices may be negative down to minus the size; others raise ``ProgramError`` when executed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from padiff.dumpfile import ProgramError

from .spec import Array, Kind, Primitive, Spec, axis_of, broadcast, check


def _inside(index: Array, size: int) -> Array:
    """Return indices counted from the front."""
    if index.size and (index.min() < -size or index.max() >= size):
        found = int(index.min()) if index.min() < -size else int(index.max())
        raise ProgramError(f"cannot execute: expected an index below {size}, found {found}")
    return np.where(index < 0, index + size, index)


def _check_indices(*indices: Spec) -> None:
    for index in indices:
        check(index.kind is Kind.INT, "integers as indices", index.kind)


def _take_spec(x: Spec, index: Spec, *, axis: object, held: object = None) -> Spec:
    """Whole rows: the axes of the index stand in place of the axis.

    The row that is held gets no gradient, however often it is read.
    """
    check(held is None or axis == 0, "a held row along the first axis", axis)
    _check_indices(index)
    axis = axis_of(axis, x.ndim)
    check(x.ndim > 0, "an axis", x.shape)
    return Spec(x.kind, x.shape[:axis] + index.shape + x.shape[axis + 1 :])


def _take(x: Array, index: Array, *, axis: int, held: int | None = None) -> Array:
    return np.take(x, _inside(index, x.shape[axis]), axis)


def _gather_spec(x: Spec, index: Spec, *, axis: object) -> Spec:
    """One element for each index, the other coordinates being those of the index."""
    _check_indices(index)
    axis = axis_of(axis, x.ndim)
    check(x.ndim == index.ndim > 0, "as many axes", x.shape, index.shape)
    for place, (size, inner) in enumerate(zip(x.shape, index.shape, strict=True)):
        check(place == axis or inner <= size, "an index no larger", x.shape, index.shape)
    return Spec(x.kind, index.shape)


def _coordinates(shape: tuple[int, ...], index: Array, axis: int) -> tuple[Array, ...]:
    grid = list(np.ogrid[tuple(slice(size) for size in index.shape)])
    grid[axis] = _inside(index, shape[axis])
    return tuple(grid)


def _gather(x: Array, index: Array, *, axis: int) -> Array:
    return np.asarray(x[_coordinates(x.shape, index, axis)])


_REDUCTIONS: dict[str, np.ufunc | None] = {
    "set": None,
    "add": np.add,
    "mul": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
}


def _scatter_spec(x: Spec, index: Spec, source: Spec, *, axis: object, reduce: object) -> Spec:
    """``gather`` the other way: the source is written, or combined with what is there."""
    spec = _gather_spec(x, index, axis=axis)
    check(source.shape == spec.shape, "a source of the index's shape", source.shape, spec.shape)
    check(reduce in _REDUCTIONS, "a known reduction", reduce)
    check(source.kind.rank <= x.kind.rank, "a source that fits", x.kind, source.kind)
    return x


def _write(x: Array, place: tuple[Array, ...], source: Array, reduce: str) -> Array:
    result = np.array(x)
    function = _REDUCTIONS[reduce]
    if function is None:
        result[place] = source
    else:
        function.at(result, place, source.astype(x.dtype, copy=False))
    return result


def _scatter(x: Array, index: Array, source: Array, *, axis: int, reduce: str) -> Array:
    return _write(x, _coordinates(x.shape, index, axis), source, reduce)


def _pick_spec(x: Spec, *indices: Spec) -> Spec:
    """Elements (or rest axes) at coordinates along the leading axes, indices broadcast."""
    _check_indices(*indices)
    check(0 < len(indices) <= x.ndim, "an axis for each index", x.shape, len(indices))
    places = broadcast(*(index.shape for index in indices))
    return Spec(x.kind, places + x.shape[len(indices) :])


def _leading(x: Array, indices: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(_inside(index, size) for index, size in zip(indices, x.shape, strict=False))


def _pick(x: Array, *indices: Array) -> Array:
    return np.asarray(x[_leading(x, indices)])


def _put_spec(x: Spec, source: Spec, *indices: Spec, reduce: object) -> Spec:
    """``pick`` the other way; the source broadcasts to what would be picked."""
    picked = _pick_spec(x, *indices)
    whole = broadcast(source.shape, picked.shape) == picked.shape
    check(whole, "a source that broadcasts", source.shape, picked.shape)
    check(reduce in _REDUCTIONS, "a known reduction", reduce)
    check(source.kind.rank <= x.kind.rank, "a source that fits", x.kind, source.kind)
    return x


def _put(x: Array, source: Array, *indices: Array, reduce: str) -> Array:
    return _write(x, _leading(x, indices), source, reduce)


def _masked_put_spec(x: Spec, mask: Spec, source: Spec) -> Spec:
    """The elements where the mask holds are replaced by the source's, one after the other."""
    check(mask.kind is Kind.BOOL and mask.shape == x.shape, "a mask of the shape", mask, x.shape)
    check(source.kind.rank <= x.kind.rank, "a source that fits", x.kind, source.kind)
    return x


def _masked_put(x: Array, mask: Array, source: Array) -> Array:
    count = int(np.count_nonzero(mask))
    if count > source.size:
        raise ProgramError(f"cannot execute: expected {count} elements to put, found {source.size}")
    result = np.array(x)
    result[mask] = source.reshape(-1)[:count]
    return result


def _nonzero_spec(x: Spec, *, count: object) -> Spec:
    """Coordinates of all elements that are not zero: as many as the dump says."""
    check(type(count) is int and 0 <= count <= x.count, "a possible count", count, x.count)
    assert isinstance(count, int)
    return Spec(Kind.INT, (count, x.ndim))


def _nonzero(x: Array, *, count: int) -> Array:
    found = np.argwhere(x)
    if len(found) != count:
        raise ProgramError(
            f"cannot execute: expected {count} elements that are not zero, found {len(found)}"
        )
    return found


def _sort_spec(x: Spec, *, axis: object, descending: object) -> tuple[Spec, ...]:
    """A stable sort, nan as the largest: values and where they stood."""
    check(x.kind is not Kind.COMPLEX and x.ndim > 0, "real numbers with an axis", x)
    check(type(descending) is bool, "a bool", descending)
    axis_of(axis, x.ndim)
    return x, Spec(Kind.INT, x.shape)


def _sort(x: Array, *, axis: int, descending: bool) -> tuple[Array, ...]:
    if descending:
        backward = np.flip(x, axis)
        places = np.flip(np.argsort(backward, axis=axis, kind="stable"), axis)
        places = x.shape[axis] - 1 - places
    else:
        places = np.argsort(x, axis=axis, kind="stable")
    return np.take_along_axis(x, places, axis), places


def _search_spec(sorted_: Spec, x: Spec, *, right: object) -> Spec:
    """Where elements belong in sorted rows: rows of both sides pair up, or one row serves all."""
    check(sorted_.ndim > 0 and type(right) is bool, "sorted rows", sorted_.shape, right)
    fits = sorted_.ndim == 1 or sorted_.shape[:-1] == x.shape[:-1]
    check(fits, "rows that pair up", sorted_.shape, x.shape)
    return Spec(Kind.INT, x.shape)


def _search(sorted_: Array, x: Array, *, right: bool) -> Array:
    side = "right" if right else "left"
    if sorted_.ndim == 1:
        return np.asarray(np.searchsorted(sorted_, x, side))  # type: ignore[call-overload]
    result = np.empty(x.shape, np.int64)
    for row in np.ndindex(x.shape[:-1]):
        result[row] = np.searchsorted(sorted_[row], x[row], side)  # type: ignore[call-overload]
    return result


def _bincount_spec(x: Spec, weights: Spec, *, size: object) -> Spec:
    """Weights added up by their number; numbers stay below the size."""
    _check_indices(x)
    check(x.shape == weights.shape and x.ndim == 1, "rows of one length", x.shape, weights.shape)
    check(type(size) is int and weights.kind is not Kind.COMPLEX, "a size", size)
    assert isinstance(size, int)
    return Spec(weights.kind, (size,))


def _bincount(x: Array, weights: Array, *, size: int) -> Array:
    result = np.zeros(size, weights.dtype)
    np.add.at(result, _inside(x, size), weights)
    return result


def _unique_spec(x: Spec, *, count: object) -> tuple[Spec, ...]:
    """Sorted different elements, which of them each element is, and how often each occurs."""
    check(type(count) is int and 0 <= count <= x.count, "a possible count", count, x.count)
    check(x.kind is not Kind.COMPLEX, "real numbers", x.kind)
    assert isinstance(count, int)
    return (
        Spec(x.kind, (count,)),
        Spec(Kind.INT, x.shape),
        Spec(Kind.INT, (count,)),
    )


def _unique(x: Array, *, count: int) -> tuple[Array, ...]:
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    if len(values) != count:
        raise ProgramError(
            f"cannot execute: expected {count} different elements, found {len(values)}"
        )
    return values, inverse.reshape(x.shape), counts


def _sort_work(*specs: Spec, **_: object) -> int:
    count = max(spec.count for spec in specs)
    return 8 * count * max(1, math.ceil(math.log2(count + 1)))


def _write_work(*specs: Spec, **_: object) -> int:
    return 16 * max(spec.count for spec in specs)


def _index_bytes(*specs: Spec, **_: object) -> int:
    return 24 * max(spec.count for spec in specs) + 16 * specs[0].count


def _row(
    name: str,
    arity: tuple[int, int],
    infer: Callable[..., Spec | tuple[Spec, ...]],
    run: Callable[..., object],
    work: Callable[..., int] = _write_work,
) -> Primitive:
    return Primitive(
        name=name, arity=arity, infer=infer, run=run, work=work, workspace=_index_bytes
    )


_MOST = 33

PRIMITIVES: tuple[Primitive, ...] = (
    _row("take", (2, 2), _take_spec, _take),
    _row("gather", (2, 2), _gather_spec, _gather),
    _row("scatter", (3, 3), _scatter_spec, _scatter),
    _row("pick", (2, _MOST), _pick_spec, _pick),
    _row("put", (3, _MOST + 1), _put_spec, _put),
    _row("masked_put", (3, 3), _masked_put_spec, _masked_put),
    _row("nonzero", (1, 1), _nonzero_spec, _nonzero),
    _row("sort", (1, 1), _sort_spec, _sort, _sort_work),
    _row("search", (2, 2), _search_spec, _search, _sort_work),
    _row("bincount", (2, 2), _bincount_spec, _bincount),
    _row("unique", (1, 1), _unique_spec, _unique, _sort_work),
)
