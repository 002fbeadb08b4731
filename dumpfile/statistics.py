"""Summary numbers of one tensor, in one blocked pass that allocates next to nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .bulk import build_all
from .schema import Statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .dtypes import Array

SMALL_BYTES = 64 << 10
"""Arrays below this are summed at once, larger ones block by block."""

_BLOCK = 1 << 16
# Elements per block: few calls, so that the thread that runs the model rarely waits for this one,
# and two copies of it still lie in a second- or third-level cache.

_DOT = 1 << 13
# Elements per dot product: so few are not worth a second thread to any BLAS.

_SMALLEST_SQUARE = 1e-280
# A sum of squares below this may have lost terms to underflow.


@dataclass(slots=True)
class _Sums:
    """Running totals over the finite elements."""

    minimum: float = math.inf
    maximum: float = -math.inf
    total: float = 0.0
    squares: float = 0.0
    count: int = 0
    nan: int = 0
    posinf: int = 0
    neginf: int = 0
    zeros: int = 0


def statistics_of(array: Array) -> Statistics:
    """Summarise the elements of an array.

    All sums are taken in float64. Complex elements count by magnitude; one with a nan in either
    part is a nan, any other with an infinite part counts as positive infinity.

    Args:
        array: Any shape and dtype that a dump can hold; empty is fine.

    Returns:
        Statistics of the finite elements, and counts of the others and of zeros (of either sign).

    >>> statistics_of(np.array([3.0, -4.0, np.nan]))
    Statistics(minimum=-4.0, maximum=3.0, mean=-0.5, l2=5.0, nan=1, posinf=0, neginf=0, zeros=0)
    """
    flat = array.reshape(-1)
    if 0 < flat.nbytes < SMALL_BYTES:  # the same sums, whichever way a value takes to the file
        return statistics_of_parts(flat, [0])[0]
    return _in_blocks(flat)


def _in_blocks(flat: Array) -> Statistics:
    """Summarise a one-dimensional array of any size."""
    if flat.dtype.kind == "b":
        return _of_booleans(flat)
    sums = _Sums()
    room = np.empty(min(flat.size, _BLOCK)), np.empty(min(flat.size, _BLOCK), np.bool_)
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, _BLOCK):
            _add_block(sums, flat[start : start + _BLOCK], *room)
        is_finite = sums.count > 0
        mean, l2 = _mean_and_norm(sums, flat) if is_finite else (None, None)
    return Statistics(
        minimum=sums.minimum if is_finite else None,
        maximum=sums.maximum if is_finite else None,
        mean=mean,
        l2=l2,
        nan=sums.nan,
        posinf=sums.posinf,
        neginf=sums.neginf,
        zeros=sums.zeros,
    )


def statistics_of_parts(array: Array, starts: Sequence[int]) -> list[Statistics]:
    """Summarise the parts of an array, many small ones in a few calls.

    Args:
        array: One-dimensional, of a dtype that a dump can hold.
        starts: Index of each part's first element, ascending; a part ends where the next begins.

    Returns:
        What ``statistics_of`` finds in each part, if it is smaller than ``SMALL_BYTES``. Else mean
        and norm may have another last bit: the sums are taken in another order.

    >>> [one.l2 for one in statistics_of_parts(np.array([3.0, 4.0, 7.0]), [0, 2])]
    [5.0, 7.0]
    """
    sizes = np.diff(starts, append=array.size)
    if array.dtype.kind == "c" or not (sizes > 0).all():
        return [
            _in_blocks(array[start : start + size])
            for start, size in zip(starts, sizes.tolist(), strict=True)
        ]
    made: list[Statistics] = []
    ends = np.cumsum(sizes)
    first = 0
    while first < len(starts):  # as many as a cache holds: each is passed over ten times
        last = max(int(np.searchsorted(ends, starts[first] + _BLOCK, side="right")), first + 1)
        begin, end = starts[first], ends[last - 1]
        made += _of_group(array[begin:end], np.subtract(starts[first:last], begin))
        first = last
    return made


def _of_group(array: Array, starts: Array) -> list[Statistics]:
    """Summarise parts, none of them empty nor complex, that are passed over together."""
    bounds = np.append(starts, array.size)
    sizes = np.diff(bounds)
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        native = array if array.dtype.char in "fd" else wide
        minima, maxima = np.minimum.reduceat(native, starts), np.maximum.reduceat(native, starts)
        zeros = np.diff(np.searchsorted(np.flatnonzero(native == 0), bounds))
        means = np.add.reduceat(wide, starts) / sizes
        squares = np.add.reduceat(np.multiply(wide, wide, out=wide), starts)
        is_in_range = (squares > _SMALLEST_SQUARE) & (squares < np.inf) & np.isfinite(means)
        made = build_all(
            Statistics,
            len(starts),
            minimum=minima.tolist(),
            maximum=maxima.tolist(),
            mean=means.tolist(),
            l2=np.sqrt(squares).tolist(),
            zeros=zeros.tolist(),
        )
    for index in np.flatnonzero(~is_in_range & (zeros < sizes)).tolist():
        made[index] = _in_blocks(array[bounds[index] : bounds[index + 1]])
    return made


def _of_booleans(flat: Array) -> Statistics:
    if not flat.size:
        return Statistics(minimum=None, maximum=None, mean=None, l2=None)
    true = int(np.count_nonzero(flat))
    return Statistics(
        minimum=float(true == flat.size),
        maximum=float(true > 0),
        mean=true / flat.size,
        l2=math.sqrt(true),
        zeros=flat.size - true,
    )


def _as_float64(block: Array) -> Array:
    """Convert one block to float64, complex numbers to their magnitude."""
    if block.dtype.kind == "c":
        wide = np.abs(block.astype(np.complex128, copy=False))
        wide[np.isnan(block)] = np.nan  # the magnitude of (nan, inf) is inf
        return wide
    return block.astype(np.float64, copy=False)


def _add_block(sums: _Sums, block: Array, room: Array, is_zero: Array) -> None:
    """Add one block's elements.

    Args:
        sums: The totals so far.
        block: Not more than ``_BLOCK`` elements, of any dtype but bool.
        room: Holds as many in float64.
        is_zero: Holds as many truth values.
    """
    if block.dtype.kind == "c" or block.dtype == np.float64:
        wide = _as_float64(block)
    else:
        wide = room[: block.size]
        np.copyto(wide, block, casting="unsafe")
    native = block if block.dtype.char in "fd" else wide
    minimum = float(np.minimum.reduce(native))
    maximum = float(np.maximum.reduce(native))
    if not (minimum > 0.0 or maximum < 0.0):
        sums.zeros += int(np.count_nonzero(np.equal(native, 0, out=is_zero[: block.size])))
    if not (math.isfinite(minimum) and math.isfinite(maximum)):
        sums.nan += int(np.count_nonzero(np.isnan(wide)))
        sums.posinf += int(np.count_nonzero(wide == np.inf))
        sums.neginf += int(np.count_nonzero(wide == -np.inf))
        wide = wide[np.isfinite(wide)]
        if not wide.size:
            return
        minimum = float(wide.min())
        maximum = float(wide.max())
    sums.minimum = min(sums.minimum, minimum)
    sums.maximum = max(sums.maximum, maximum)
    sums.total += float(np.add.reduce(wide))
    sums.squares += _sum_of_squares(wide)
    sums.count += wide.size


def _sum_of_squares(wide: Array) -> float:
    parts = (wide[start : start + _DOT] for start in range(0, wide.size, _DOT))
    return math.fsum(float(part.dot(part)) for part in parts)


def _mean_and_norm(sums: _Sums, flat: Array) -> tuple[float, float]:
    """Return mean and Euclidean norm, by a second, scaled pass where the first ran out of range."""
    scale = max(abs(sums.minimum), abs(sums.maximum))
    in_range = math.isfinite(sums.total) and _SMALLEST_SQUARE < sums.squares < math.inf
    if in_range or scale == 0.0:
        return sums.total / sums.count, math.sqrt(sums.squares)
    total = squares = 0.0
    for start in range(0, flat.size, _BLOCK):
        wide = _as_float64(flat[start : start + _BLOCK])
        wide = wide[np.isfinite(wide)] / scale
        total += float(np.add.reduce(wide))
        squares += _sum_of_squares(wide)
    return scale * (total / sums.count), scale * math.sqrt(squares)
