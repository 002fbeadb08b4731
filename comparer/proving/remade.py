"""How a leaf that is no copy is made of the elements that it should hold.

Weights are loaded transposed, gates and heads in another order, scales are multiplied in: then the
elements are all there, and how they became what the candidate holds can be proved.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from .result import Made, Making

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.pairing import Rule
    from padiff.program.primitives import Array

__all__ = ["making_of"]

_MOST_AXES = 5
"""Axes of which all orders are tried: 120."""
_FEW_BLOCKS, _MOST_BLOCKS = 8, 64
"""Blocks along an axis that are told one by one, before others are looked for and behind that."""
_ROUNDINGS = 4
"""Units of rounding of each element by which a product or a sum with a number may be off: it was
rounded, the number was, and both sides may have rounded what they began with."""
_SUMMED = 1e-9
"""Relative difference of two float64 sums of the same elements, added in another order."""


def making_of(rule: Rule, parts: Sequence[Array], found: Array, unit: float) -> Made | None:
    """Return how a leaf is made of what it should hold; None if that is not known.

    Args:
        rule: Lays the reference's elements out as the candidate has them.
        parts: The elements that the reference has; real.
        found: What the candidate holds; not what the rule makes of them, but of its shape.
        unit: Unit roundoff of the coarser dtype of the two.

    >>> from padiff.pairing import IDENTITY
    >>> making_of(IDENTITY, [np.array([[1.0, 2.0], [3.0, 4.0]])], np.array([[1.0, 3.0], [2, 4]]), 0)
    Made(kind=<Making.AXES: 'axes'>, axis=None, numbers=(1, 0), rule='')
    """
    if found.size <= 1 or found.dtype.kind == "c":
        return None
    first = found.flat[0]
    if (found == first).all():
        return Made(kind=Making.CONSTANT, numbers=(float(first),))
    if rule.steps and len(parts) == 1 and np.array_equal(parts[0].astype(found.dtype), found):
        return Made(kind=Making.PLAIN, rule=str(rule))
    known = rule.apply(parts, found.shape).astype(found.dtype)
    if _may_hold_the_same(known, found):
        return next(_orders(known, found), None)
    return _scaled(known, found, unit)


def _may_hold_the_same(known: Array, found: Array) -> bool:
    """Return whether nothing that no order changes tells two arrays apart."""
    one, two = (array.astype(np.float64) for array in (known, found))
    with np.errstate(all="ignore"):
        size = float(np.abs(one).sum())
        return (
            bool(np.isfinite(size))
            and float(one.min()) == float(two.min())
            and float(one.max()) == float(two.max())
            and abs(float(one.sum() - two.sum())) <= _SUMMED * size
        )


def _orders(known: Array, found: Array) -> Iterator[Made]:
    """Yield the orders of the known elements that give those that were found, simple ones first."""
    axes = range(known.ndim)
    for order in permutations(axes) if known.ndim <= _MOST_AXES else ():
        moved = known.transpose(order)
        if moved.shape == found.shape and np.array_equal(moved, found):
            yield Made(kind=Making.AXES, numbers=order)
    for axis in axes:
        places = _places(known, found, axis)
        if places is not None:
            yield _along(axis, places)
    if np.array_equal(np.sort(known, axis=None), np.sort(found, axis=None)):
        yield Made(kind=Making.ORDER)


def _places(known: Array, found: Array, axis: int) -> Array | None:
    """Return which index of the known array each index along an axis holds; None if none does."""
    rows = [_rows(array, axis) for array in (known, found)]
    open_: dict[bytes, list[int]] = {}
    for place in range(len(rows[0]) - 1, -1, -1):
        open_.setdefault(rows[0][place], []).append(place)
    places = []
    for row in rows[1]:
        left = open_.get(row)
        if not left:
            return None
        places.append(left.pop())
    return np.array(places)


def _rows(array: Array, axis: int) -> list[bytes]:
    """Return the bytes of what stands at each index along an axis."""
    moved = np.ascontiguousarray(np.moveaxis(array, axis, 0))
    return [row.tobytes() for row in moved]


def _along(axis: int, places: Array) -> Made:
    """Return how indices along an axis were moved: in blocks, nested otherwise, or in any way."""
    count = len(places)
    if np.array_equal(places, np.arange(count)[::-1]):
        return Made(kind=Making.REVERSED, axis=axis)
    order = _blocks(places, range(2, min(_FEW_BLOCKS, count) + 1))
    if order:
        return Made(kind=Making.BLOCKS, axis=axis, numbers=order)
    form = _nesting(places)
    if form:
        return Made(kind=Making.NESTED, axis=axis, numbers=form)
    order = _blocks(places, range(_FEW_BLOCKS + 1, min(_MOST_BLOCKS, count // 2) + 1))
    kind = Making.BLOCKS if order else Making.ORDER
    return Made(kind=kind, axis=axis, numbers=order)


def _blocks(places: Array, counts: range) -> tuple[int, ...]:
    """Return the order of blocks of one size, as few as possible; empty if they are none."""
    for count in counts:
        size, rest = divmod(len(places), count)
        if not rest:
            cut = places.reshape(count, size)
            firsts = cut[:, :1]
            if not (firsts % size).any() and (cut == firsts + np.arange(size)).all():
                return tuple((firsts[:, 0] // size).tolist())
    return ()


def _nesting(places: Array) -> tuple[int, ...]:
    """Return the lengths of three axes of which the last two changed places; empty for none."""
    inner, middle = int(places[1]), int(np.flatnonzero(places == 1)[0])
    if min(inner, middle) <= 1 or len(places) % (inner * middle):
        return ()
    form = len(places) // (inner * middle), middle, inner
    nested = np.arange(len(places)).reshape(form).swapaxes(1, 2).reshape(-1)
    return form if np.array_equal(nested, places) else ()


def _scaled(known: Array, found: Array, unit: float) -> Made | None:
    """Return the number that every element was multiplied by, or that was added to it."""
    one, two = (array.astype(np.float64) for array in (known, found))
    with np.errstate(all="ignore"):
        size = float(np.vdot(one, one))
        if not np.isfinite(size) or not np.isfinite(two).all() or size == 0.0:
            return None
        scale = float(np.vdot(one, two)) / size
        if scale and bool((np.abs(two - scale * one) <= _ROUNDINGS * unit * np.abs(two)).all()):
            return Made(kind=Making.SCALED, numbers=(scale,))
        shift = float(np.mean(two - one))
        off = np.abs(two - one - shift)
        if bool((off <= _ROUNDINGS * unit * (np.abs(one) + np.abs(two))).all()):
            return Made(kind=Making.SHIFTED, numbers=(shift,))
    return None
