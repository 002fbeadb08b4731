"""Measure how far a candidate array is from its reference, in one blocked pass.

Large floating arrays are swept in their own precision (float32 for everything narrower), a block
at a time; the sums of the blocks are added in float64. What the sweep finds is only a screen:
whether elements agree, and every maximum, is decided in float64 on the elements in question, so
that the result is that of float64 formulas over the whole arrays. Blocks that hold nan or inf,
small arrays, integers, booleans and complex numbers take the float64 way entirely.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumpfile import CompareError

from .blocks import BLOCK_BYTES, Array, Room, is_floating, paired_blocks, widen
from .tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.comparer.result import Metrics, Tolerance

__all__ = ["kind_of_dtype", "measure"]

FAST_FROM = 4096
"""Blocks with fewer elements go the float64 way: nothing is gained on them."""
SLACK = 1e-6
"""Relative margin of the float32 screen. Its error is below 6 units of 2**-24 of the terms
(difference, product, difference, and the rounded constants), 3.6e-7: what passes with the margin
passes in float64."""
FEW = 16
"""Up to one element in so many is picked out rather than deciding the whole block in float64."""
NARROW = 32768
"""Elements that are decided in float64 at a time, where a whole block is."""
LANE = 512
"""Elements that are added in work precision before float64 takes over."""
ROW = 1 << 16
"""Products that are added in work precision before float64 takes over: BLAS keeps so many partial
sums side by side that each of them has two thousand terms at most."""
SEED = 4096
"""Elements that the hull of a large block begins with;"""
SEED_SHARE = 64
"""of a small one, one in so many."""
MARGIN = 1e-12
"""By how much a hull must pass for all elements below it to pass, rounding in float64 included."""
CANCELLED = 0.1
"""Below this part of its terms a sum is taken anew, as their rounding would show in it."""
SMALL_SUM, LARGE_SUM = 1e-30, 1e37
"""Outside of these, a float32 sum of squares may have lost terms to under- or overflow."""


def kind_of_dtype(dtype: np.dtype[Any]) -> str:
    """Name the kind within which arrays can be compared: bool, integer, float or complex."""
    if is_floating(dtype):
        return "float"
    return {"b": "bool", "i": "integer", "u": "integer", "c": "complex"}.get(dtype.kind, dtype.name)


def measure(
    reference: Array,
    candidate: Array,
    tolerance: Tolerance,
    *,
    mean: bool = False,
    release: Callable[[], None] = lambda: None,
    room: Room | None = None,
) -> Metrics:
    """Measure the candidate against the reference.

    Args:
        reference: Shape (*S), any dtype that a dump can hold; any strides, never copied whole.
        candidate: Shape (*S), of the same kind (bool, integer, float, complex).
        tolerance: Decides which elements agree, and the one of (atol, rtol) that is held fixed
            when the smallest passing other one is sought.
        mean: Whether ``reference_mean_abs`` is wanted of floating arrays too.
        release: Called now and then on the way through large arrays, to give back the memory of
            mapped files.
        room: Memory that earlier calls of the same thread have used; None takes fresh one.

    Returns:
        All metrics. Empty arrays have size 0 and None for all maxima and means.

    Raises:
        CompareError: The shapes differ (nothing is broadcast), or the kinds do.

    Source:
        The rule is that of ``numpy.isclose`` and ``torch.testing.assert_close``; relative_l2 is
        the normwise relative error of Higham, Accuracy and Stability of Numerical Algorithms,
        2nd ed., section 1.2.

    >>> from padiff.comparer import Tolerance
    >>> found = measure(np.array([1.0, 2.0]), np.array([1.0, 2.5]), Tolerance(atol=0.1, rtol=0.0))
    >>> found.mismatched, found.max_abs, found.max_abs_index, found.max_rel
    (1, 0.5, (1,), 0.25)
    """
    kind = _common_kind(reference, candidate)
    tally = Tally(tolerance)
    with np.errstate(all="ignore"):
        if kind == "float":
            sweep = _Sweep(tally, room or Room(), mean=mean)
            sweep.floats(reference, candidate, release=release)
        elif kind == "complex":
            _sweep_complex(reference, candidate, tally)
        else:
            _sweep_integers(reference, candidate, tally)
    return tally.metrics(candidate.shape, mean=mean)


def _common_kind(reference: Array, candidate: Array) -> str:
    """Name the kind of two arrays; those of other shapes or kinds are refused."""
    kinds = kind_of_dtype(reference.dtype), kind_of_dtype(candidate.dtype)
    if reference.shape != candidate.shape or kinds[0] != kinds[1]:
        raise CompareError(
            f"cannot measure {candidate.dtype} {candidate.shape} against"
            f" {reference.dtype} {reference.shape}: expected equal shapes and kinds"
        )
    return kinds[0]


def _sweep_complex(reference: Array, candidate: Array, tally: Tally) -> None:
    length = BLOCK_BYTES // np.dtype(np.complex128).itemsize
    for start, block_reference, block_candidate in paired_blocks(
        reference, candidate, length=length
    ):
        tally.add(
            start, block_reference.astype(np.complex128), block_candidate.astype(np.complex128)
        )


def _sweep_integers(reference: Array, candidate: Array, tally: Tally) -> None:
    length = BLOCK_BYTES // np.dtype(np.float64).itemsize
    for start, block_reference, block_candidate in paired_blocks(
        reference, candidate, length=length
    ):
        tally.add(
            start,
            block_reference.astype(np.float64),
            block_candidate.astype(np.float64),
            distance=_distance(block_reference, block_candidate),
        )


def _distance(reference: Array, candidate: Array) -> Array:
    """Give |candidate - reference| of integers or booleans as float64, 0 only where equal."""
    if reference.dtype.kind == "b":
        return np.not_equal(reference, candidate).astype(np.float64)
    if reference.dtype != candidate.dtype:
        same = np.equal(reference, candidate)
        wide = np.abs(candidate.astype(np.float64) - reference.astype(np.float64))
        # Neighbours above 2**53 may round to one float64; they are at least 1 apart.
        return np.where(same, 0.0, np.maximum(wide, 1.0))
    high = np.maximum(reference, candidate).astype(np.uint64)
    low = np.minimum(reference, candidate).astype(np.uint64)
    # Two's complement wraps, so that the difference is right for int64's extremes too.
    distance: Array = np.subtract(high, low).astype(np.float64)
    return distance


class _Sweep:
    """The fast sweep over blocks: sums in work precision, maxima only as candidates.

    Every maximum that is wanted (of ``|c - r|``, of its ratio to ``|r|``, the smallest tolerances
    that pass) lies at a vertex of the hull, so that only elements above it are looked at again. As
    long as the hull passes, so do all elements below it, and none needs to be counted.
    """

    def __init__(self, tally: Tally, room: Room, *, mean: bool) -> None:
        self._tally = tally
        self._room = room
        self._mean = mean

    def floats(self, reference: Array, candidate: Array, *, release: Callable[[], None]) -> None:
        """Sweep over arrays of floating point."""
        double = np.dtype(np.float64)
        is_double = double in {reference.dtype, candidate.dtype}
        work = double if is_double else np.dtype(np.float32)
        length = min(BLOCK_BYTES // work.itemsize, max(reference.size, 1))
        self._prepare(length, work)
        wide = [self._room.take(name, (length,), work.type) for name in ("known", "found")]
        for start, *blocks in paired_blocks(reference, candidate, length=length, release=release):
            known, found = (
                widen(block, work, out=out) for block, out in zip(blocks, wide, strict=True)
            )
            if known.size < FAST_FROM or not self._take(start, known, found):
                self._tally.add(start, known.astype(double), found.astype(double))

    def _prepare(self, length: int, work: np.dtype[Any]) -> None:
        names = ("distance", "magnitude", "excess")
        self._scratch = [self._room.take(name, (length,), work.type) for name in names]
        self._mask = self._room.take("mask", (length,), np.bool_)
        self._ones = np.ones(LANE, work)
        self._kind = work.type
        tolerance = self._tally.tolerance
        self._rtol = work.type(tolerance.rtol * (1 - SLACK))
        self._safe = tolerance.atol * (1 - SLACK)

    def _take(self, start: int, reference: Array, candidate: Array) -> bool:
        """Take in one block; False, with nothing done, if it holds nan or inf."""
        size = reference.size
        distance, magnitude = (array[:size] for array in self._scratch[:2])
        np.subtract(candidate, reference, out=distance)
        square, cross = _dot(distance, distance), _dot(distance, reference)
        np.abs(distance, out=distance)
        largest = float(np.maximum.reduce(distance))
        if not math.isfinite(largest):
            return False
        self._sums(reference, candidate, distance, (square, cross))
        np.abs(reference, out=magnitude)
        if self._mean:
            self._tally.sum_magnitude += self._sum(magnitude)
        self._follow(start, reference, candidate, distance, magnitude, largest)
        if largest > self._safe and not self._hull_passes():
            self._count(reference, candidate, distance, largest)
        return True

    def _hull_passes(self) -> bool:
        """Tell whether all elements that are below the hull agree, whatever rounding does."""
        atol, rtol = self._tally.tolerance.atol, self._tally.tolerance.rtol
        return all(d <= (atol + rtol * x) * (1 - MARGIN) for x, d in self._tally.hull.points)

    def _count(
        self,
        reference: Array,
        candidate: Array,
        distance: Array,
        largest: float,
    ) -> None:
        """Count what disagrees; what lies near the tolerance is decided in float64."""
        tally, size = self._tally, reference.size
        excess, mask = self._scratch[2][:size], self._mask[:size]
        np.abs(reference, out=excess)
        np.multiply(excess, self._rtol, out=excess)
        np.subtract(distance, excess, out=excess)
        np.greater(excess, self._kind(self._safe), out=mask)
        doubtful = int(np.count_nonzero(mask))
        if not doubtful:
            return
        surely = excess > self._kind(tally.tolerance.atol + 4 * SLACK * largest)
        sure = int(np.count_nonzero(surely))
        tally.mismatched += sure
        if sure < doubtful:
            np.greater(mask, surely, out=mask)
            unsure = np.flatnonzero(mask)
            tally.count(reference[unsure], candidate[unsure])

    def _follow(
        self,
        start: int,
        reference: Array,
        candidate: Array,
        distance: Array,
        magnitude: Array,
        largest: float,
    ) -> None:
        """Hand over the elements that may lie above the hull: above its line or its cap.

        The first few elements are taken in before the others are held against it. ``magnitude`` is
        overwritten.
        """
        tally, mask, below = self._tally, self._mask[: reference.size], 1 - SLACK
        hull = tally.hull
        if not hull.cap:
            seed = min(SEED, mask.size // SEED_SHARE)
            tally.follow(start, reference[:seed], candidate[:seed])
        (level, slope), kind = hull.rise, self._kind
        line = np.multiply(magnitude, kind(slope * below), out=magnitude)
        if level:
            np.add(line, kind(level * below), out=line)
        np.greater(distance, line, out=mask)
        if largest > hull.cap * below:
            np.logical_or(mask, distance > kind(hull.cap * below), out=mask)
        count = int(np.count_nonzero(mask))
        if count > mask.size // FEW:
            for first in range(0, mask.size, NARROW):
                part = slice(first, first + NARROW)
                tally.follow(start + first, reference[part], candidate[part])
        elif count:
            at = np.flatnonzero(mask)
            at = at[distance[at] > hull.height(np.abs(reference[at])) * below]
            if at.size:
                tally.follow(start, reference[at], candidate[at], at=at)

    def _sums(
        self, reference: Array, candidate: Array, distance: Array, sums: tuple[float, float]
    ) -> None:
        """Add up: ``c = r + d``, so that what is wanted of c follows, unless it cancels."""
        tally, (square, cross) = self._tally, sums
        known = _dot(reference, reference)
        found, product = known + 2 * cross + square, known + cross
        if found < CANCELLED * max(known, square):
            found, product = (_dot(candidate, one) for one in (candidate, reference))
        if not (min(square, known, found) > SMALL_SUM and max(square, known, found) < LARGE_SUM):
            wide = [array.astype(np.float64) for array in (distance, reference, candidate)]
            square, known, found = (float(np.dot(array, array)) for array in wide)
            product = float(np.dot(wide[1], wide[2]))
        tally.finite += reference.size
        tally.sum_abs += self._sum(distance)
        tally.square_difference += square
        tally.square_reference += known
        tally.square_candidate += found
        tally.product += product

    def _sum(self, array: Array) -> float:
        """Add up a block; a product with ones takes half the time of ``sum``."""
        whole = array.size - array.size % LANE
        lanes = np.dot(array[:whole].reshape(-1, LANE), self._ones)
        total = float(lanes.sum(dtype=np.float64))
        return total + float(array[whole:].sum(dtype=np.float64)) if whole < array.size else total


def _dot(one: Array, other: Array) -> float:
    """Add up products, row by row in work precision, the rows in float64."""
    return sum(
        float(np.dot(one[start : start + ROW], other[start : start + ROW]))
        for start in range(0, one.size, ROW)
    )
