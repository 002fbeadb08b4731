"""Summary numbers of one tensor, in one blocked pass that allocates next to nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .schema import Statistics

if TYPE_CHECKING:
    from .dtypes import Array

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
    """Give mean and Euclidean norm, by a second, scaled pass where the first ran out of range."""
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
