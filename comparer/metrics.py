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

from .blocks import BLOCK_BYTES, Array, is_floating, paired_blocks, widen
from .tally import Tally

if TYPE_CHECKING:
    from .result import Metrics, Tolerance

__all__ = ["kind_of_dtype", "measure"]

FAST_FROM = 4096
"""Blocks with fewer elements go the float64 way: nothing is gained on them."""
SLACK = 1e-6
"""Relative margin of the float32 screen. Its error is below 6 units of 2**-24 of the terms
(difference, product, difference, and the rounded constants), 3.6e-7: what passes with the margin
passes in float64."""
FEW = 16
"""Up to one element in so many is decided in float64 rather than by sweeping the whole block."""
LANE = 512
"""Elements that are added in work precision before float64 takes over."""
SMALL_SUM, LARGE_SUM = 1e-30, 1e37
"""Outside of these, a float32 sum of squares may have lost terms to under- or overflow."""


def kind_of_dtype(dtype: np.dtype[Any]) -> str:
    """Name the kind within which arrays can be compared: bool, integer, float or complex."""
    if is_floating(dtype):
        return "float"
    return {"b": "bool", "i": "integer", "u": "integer", "c": "complex"}.get(dtype.kind, dtype.name)


def measure(
    reference: Array, candidate: Array, tolerance: Tolerance, *, mean: bool = False
) -> Metrics:
    """Measure the candidate against the reference.

    Args:
        reference: Shape (*S), any dtype that a dump can hold; any strides, never copied whole.
        candidate: Shape (*S), of the same kind (bool, integer, float, complex).
        tolerance: Decides which elements agree, and the one of (atol, rtol) that is held fixed
            when the smallest passing other one is sought.
        mean: Whether ``reference_mean_abs`` is wanted of floating arrays too.

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
    kinds = kind_of_dtype(reference.dtype), kind_of_dtype(candidate.dtype)
    if reference.shape != candidate.shape or kinds[0] != kinds[1]:
        raise CompareError(
            f"cannot measure {candidate.dtype} {candidate.shape} against"
            f" {reference.dtype} {reference.shape}: expected equal shapes and kinds"
        )
    tally = Tally(tolerance)
    with np.errstate(all="ignore"):
        if kinds[0] == "float":
            _sweep_floats(reference, candidate, tally, mean=mean)
        elif kinds[0] == "complex":
            _sweep_complex(reference, candidate, tally)
        else:
            _sweep_integers(reference, candidate, tally)
    return tally.metrics(candidate.shape, mean=mean)


def _sweep_floats(reference: Array, candidate: Array, tally: Tally, *, mean: bool) -> None:
    double = np.dtype(np.float64)
    is_double = double in {reference.dtype, candidate.dtype}
    work = double if is_double else np.dtype(np.float32)
    length = BLOCK_BYTES // work.itemsize
    screen = _Screen(work, min(length, reference.size), tally, mean=mean)
    for start, block_reference, block_candidate in paired_blocks(
        reference, candidate, length=length
    ):
        wide_reference = widen(block_reference, work)
        wide_candidate = widen(block_candidate, work)
        if wide_reference.size < FAST_FROM or not screen.sweep(
            start, wide_reference, wide_candidate
        ):
            tally.add(start, wide_reference.astype(double), wide_candidate.astype(double))


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


class _Screen:
    """The fast sweep over one block: sums in work precision, maxima only as candidates.

    What cannot change the result is not computed: a block whose largest difference is below atol
    holds no disagreement, and once a large relative difference is known, only elements that are
    small beside the block's largest difference can beat it.
    """

    def __init__(self, work: np.dtype[Any], length: int, tally: Tally, *, mean: bool) -> None:
        self._tally = tally
        self._mean = mean
        self._scratch = [np.empty(length, work) for _ in range(3)]
        self._mask = np.empty(length, np.bool_)
        self._ones = np.ones(LANE, work)
        self._tiny = work.type(np.finfo(work).tiny)
        self._rtol = work.type(tally.tolerance.rtol * (1 - SLACK))
        self._atol = work.type(tally.tolerance.atol)
        self._safe = tally.tolerance.atol * (1 - SLACK)

    def sweep(self, start: int, reference: Array, candidate: Array) -> bool:
        """Take in one block; False, with nothing done, if it holds nan or inf."""
        size, tally = reference.size, self._tally
        distance, magnitude, work = (array[:size] for array in self._scratch)
        np.subtract(candidate, reference, out=distance)
        square = float(np.dot(distance, distance))
        np.abs(distance, out=distance)
        largest = float(np.maximum.reduce(distance))
        if not math.isfinite(largest):
            return False
        np.abs(reference, out=magnitude)
        self._sums(reference, candidate, distance, square)
        if self._mean:
            tally.sum_magnitude += self._sum(magnitude)
        self._hull(reference, candidate, (distance, magnitude, work), largest)
        block = start, reference, candidate
        if largest * (1 + SLACK) > tally.max_abs:
            tally.refine_abs(*block, np.flatnonzero(distance >= largest))
        if largest > self._safe or largest * (1 + SLACK) > tally.needed_atol:
            np.multiply(magnitude, self._rtol, out=work)
            np.subtract(distance, work, out=work)
            self._excess(*block, work, largest)
        if not self._few_below(*block, magnitude, largest):
            np.add(magnitude, self._tiny, out=magnitude)  # no division by 0; lost elsewhere
            np.divide(distance, magnitude, out=work)
            self._ratio(*block, work, distance)
        if largest > self._safe and tally.needed_rtol < math.inf:
            np.add(magnitude, self._tiny, out=magnitude)
            np.subtract(distance, self._atol, out=work)
            np.divide(work, magnitude, out=work)
            self._ratio_above(*block, work, distance)
        return True

    def _hull(
        self,
        reference: Array,
        candidate: Array,
        scratch: tuple[Array, Array, Array],
        largest: float,
    ) -> None:
        """Hand over the elements that may be vertices of the hull: above its line or its cap.

        The first few elements are taken in before the others are held against it.
        """
        distance, magnitude, work = scratch
        hull, kind = self._tally.hull, work.dtype.type
        if not hull.cap:
            self._tally.refine_hull(reference, candidate, np.arange(min(FAST_FROM, reference.size)))
        (level, slope), below, mask = hull.rise, 1 - SLACK, self._mask[: work.size]
        np.multiply(magnitude, kind(slope * below), out=work)
        if level:
            np.add(work, kind(level * below), out=work)
        np.greater(distance, work, out=mask)
        if np.count_nonzero(mask):
            self._tally.refine_hull(reference, candidate, np.flatnonzero(mask))
        if largest > hull.cap * below:
            over = np.flatnonzero(distance > kind(hull.cap * below))
            self._tally.refine_hull(reference, candidate, over)

    def _sums(self, reference: Array, candidate: Array, distance: Array, square: float) -> None:
        tally = self._tally
        sums = [
            square,
            float(np.dot(reference, reference)),
            float(np.dot(candidate, candidate)),
        ]
        product = float(np.dot(candidate, reference))
        if not (min(sums) > SMALL_SUM and max(sums) < LARGE_SUM):
            wide = [array.astype(np.float64) for array in (distance, reference, candidate)]
            sums = [float(np.dot(array, array)) for array in wide]
            product = float(np.dot(wide[1], wide[2]))
        tally.finite += reference.size
        tally.sum_abs += self._sum(distance)
        tally.square_difference += sums[0]
        tally.square_reference += sums[1]
        tally.square_candidate += sums[2]
        tally.product += product

    def _sum(self, array: Array) -> float:
        """Add up a block; a product with ones takes half the time of ``sum``."""
        whole = array.size - array.size % LANE
        lanes = np.dot(array[:whole].reshape(-1, LANE), self._ones)
        total = float(lanes.sum(dtype=np.float64))
        return total + float(array[whole:].sum(dtype=np.float64)) if whole < array.size else total

    def _few_below(
        self, start: int, reference: Array, candidate: Array, magnitude: Array, largest: float
    ) -> bool:
        """Follow the largest relative difference where only few elements can raise it."""
        tally = self._tally
        if tally.max_rel == math.inf:
            return True
        if tally.max_rel <= 0:
            return False
        small = magnitude <= largest / tally.max_rel * (1 + SLACK)
        count = int(np.count_nonzero(small))
        if 0 < count <= magnitude.size // FEW:
            tally.refine_rel(start, reference, candidate, np.flatnonzero(small))
        return count <= magnitude.size // FEW

    def _excess(
        self, start: int, reference: Array, candidate: Array, excess: Array, largest: float
    ) -> None:
        """Count what disagrees and follow the largest ``|c - r| - rtol |r|``."""
        tally, place = self._tally, int(excess.argmax())
        top, margin = float(excess[place]), 4 * SLACK * largest
        if not top <= self._safe:
            surely = excess > tally.tolerance.atol + margin
            unsure = np.flatnonzero(~(excess <= self._safe) & ~surely)
            tally.mismatched += int(np.count_nonzero(surely))
            tally.count(reference[unsure], candidate[unsure])
        if not top + margin <= tally.needed_atol:
            rivals = ~(excess < top - margin)
            is_alone = np.count_nonzero(rivals) == 1
            at = np.array([place]) if is_alone else np.flatnonzero(rivals)
            tally.refine_atol(start, reference, candidate, at)

    def _ratio(
        self, start: int, reference: Array, candidate: Array, ratio: Array, distance: Array
    ) -> None:
        """Follow the largest ``|c - r| / |r|``; inf where r is 0 and c is not."""
        tally, top = self._tally, float(ratio.max())
        if top >= 1.0:  # what is divided by `tiny` instead of 0 comes out here
            lost = np.flatnonzero((reference == 0) & (distance > 0))
            if lost.size:
                tally.refine_rel(start, reference, candidate, lost[:1])
                return
        if top * (1 + SLACK) > tally.max_rel:
            at = np.flatnonzero(ratio >= top * (1 - SLACK))
            tally.refine_rel(start, reference, candidate, at)

    def _ratio_above(
        self, start: int, reference: Array, candidate: Array, ratio: Array, distance: Array
    ) -> None:
        """Follow the largest ``(|c - r| - atol) / |r|``; inf where r is 0 and c is too far."""
        tally, top = self._tally, float(ratio.max())
        if top >= 1.0:
            lost = np.flatnonzero((reference == 0) & (distance >= self._safe))
            tally.refine_rtol(start, reference, candidate, lost)
        # The subtraction of atol may cancel: the error is relative to |c - r| / |r|.
        margin = SLACK * max(tally.max_rel, abs(top))
        if math.isinf(margin):
            tally.refine_rtol(start, reference, candidate, np.arange(reference.size))
        elif top + margin > tally.needed_rtol:
            at = np.flatnonzero(ratio >= top - margin)
            tally.refine_rtol(start, reference, candidate, at)
