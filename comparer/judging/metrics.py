"""Measure how far a candidate array is from its reference, in one blocked pass.

Large floating arrays are swept in their own precision (float32 for everything narrower), a block
at a time; the sums of the blocks are added in float64. What the sweep finds is only a screen:
whether elements agree, and every maximum, is decided in float64 on the elements in question, so
that the result is that of float64 formulas over the whole arrays. Blocks that hold nan or inf,
small arrays, integers, booleans and complex numbers take the float64 way entirely.

The sweep takes sums in work precision, and maxima only as candidates. Every maximum that is wanted
(of ``|c - r|``, of its ratio to ``|r|``, the smallest tolerances that pass) lies at a vertex of the
hull, so that only elements above it are looked at again. As long as the hull passes, so do all
elements below it, and none needs to be counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from padiff.comparer.result import Metrics, Tolerance
from padiff.dumpfile import CompareError

from .blocks import BLOCK_BYTES, Array, Room, is_floating, paired_blocks, widen
from .hull import Hull, needed_atol, needed_rtol


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
            sweep = Sweep(tally, room or Room(), mean=mean)
            sweep.take(reference, candidate, release=release)
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
    """Return |candidate - reference| of integers or booleans as float64, 0 only where equal."""
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


FEW = 32
"""Up to so many elements are followed one by one."""


class Tally:
    """Running totals of one measurement."""

    def __init__(self, tolerance: Tolerance) -> None:
        """Start with nothing seen."""
        self.tolerance = tolerance
        self.finite = 0
        self.mismatched = 0
        self.sum_abs = 0.0
        self.sum_magnitude = 0.0
        self.square_difference = 0.0
        self.square_reference = 0.0
        self.square_candidate = 0.0
        self.product = 0.0
        self.max_abs, self.max_abs_at = -1.0, -1
        self.max_rel, self.max_rel_at = -1.0, -1
        self.nonfinite_mismatched = 0
        self.hull = Hull()
        self.counts = {
            "nan_reference": 0,
            "nan_candidate": 0,
            "inf_reference": 0,
            "inf_candidate": 0,
        }

    def add(
        self, start: int, reference: Array, candidate: Array, *, distance: Array | None = None
    ) -> None:
        """Take in one block entirely, in float64 or complex128.

        Args:
            start: Place of the block's first element, in C order.
            reference: One-dimensional, float64 or complex128.
            candidate: The same.
            distance: ``|candidate - reference|`` where float64 could not tell it exactly.
        """
        at: Array | None = None
        finite = np.isfinite(reference) & np.isfinite(candidate)
        if not finite.all():
            self._nonfinite(reference, candidate, finite)
            at = np.flatnonzero(finite)
            reference, candidate = reference[at], candidate[at]
        if not reference.size:
            return
        exact = np.abs(candidate - reference) if distance is None else distance
        magnitude = np.abs(reference)
        self.finite += reference.size
        self._sums(reference, candidate, exact, magnitude)
        self.mismatched += self._disagreeing(exact, magnitude)
        place = np.arange(start, start + reference.size) if at is None else start + at
        self._update(place, exact, magnitude)

    def count(self, reference: Array, candidate: Array) -> None:
        """Count the elements of a finite block that do not agree."""
        exact, magnitude = _exact(reference, candidate)
        self.mismatched += self._disagreeing(exact, magnitude)

    def follow(
        self, start: int, reference: Array, candidate: Array, *, at: Array | None = None
    ) -> None:
        """Follow all maxima over some finite elements, in float64.

        Args:
            start: Place of the first element of their block, in C order.
            reference: One-dimensional, real, any precision.
            candidate: The same.
            at: Their places within the block, ascending; None takes them as its first ones.
        """
        exact, magnitude = _exact(reference, candidate)
        place = np.arange(start, start + exact.size) if at is None else start + at
        self._update(place, exact, magnitude)

    def metrics(self, shape: tuple[int, ...], *, mean: bool) -> Metrics:
        """Return the result.

        Args:
            shape: Shape of the arrays, for the indices.
            mean: Whether the reference's mean magnitude was added up.
        """
        has_any = self.finite > 0
        is_hopeless, hull = self.nonfinite_mismatched > 0, self.hull.points
        return Metrics(
            size=math.prod(shape),
            mismatched=self.mismatched + self.nonfinite_mismatched,
            max_abs=self.max_abs if has_any else None,
            max_abs_index=index_of(self.max_abs_at, shape) if has_any else None,
            max_rel=self.max_rel if has_any else None,
            max_rel_index=index_of(self.max_rel_at, shape) if has_any else None,
            mean_abs=self.sum_abs / self.finite if has_any else None,
            relative_l2=self._relative_l2() if has_any else None,
            cosine=self._cosine() if has_any else None,
            needed_atol=None if is_hopeless else needed_atol(hull, self.tolerance.rtol),
            needed_rtol=None if is_hopeless else needed_rtol(hull, self.tolerance.atol),
            reference_mean_abs=self.sum_magnitude / self.finite if has_any and mean else None,
            nonfinite_mismatched=self.nonfinite_mismatched,
            hull=hull,
            **self.counts,
        )

    def _nonfinite(self, reference: Array, candidate: Array, finite: Array) -> None:
        at = np.flatnonzero(~finite)
        reference, candidate = reference[at], candidate[at]
        nans = np.isnan(reference), np.isnan(candidate)
        infs = np.isinf(reference) & ~nans[0], np.isinf(candidate) & ~nans[1]
        same = (nans[0] & nans[1]) | (infs[0] & infs[1] & (reference == candidate))
        self.nonfinite_mismatched += int(np.count_nonzero(~same))
        for name, mask in zip(self.counts, (*nans, *infs), strict=True):
            self.counts[name] += int(np.count_nonzero(mask))

    def _sums(self, reference: Array, candidate: Array, exact: Array, magnitude: Array) -> None:
        self.sum_abs += float(exact.sum())
        self.sum_magnitude += float(magnitude.sum())
        self.square_difference += float(np.dot(exact, exact))
        self.square_reference += float(np.dot(magnitude, magnitude))
        self.square_candidate += float(np.vdot(candidate, candidate).real)
        self.product += float(np.vdot(reference, candidate).real)

    def _disagreeing(self, exact: Array, magnitude: Array) -> int:
        allowed = self.tolerance.atol + self.tolerance.rtol * magnitude
        return int(exact.size - np.count_nonzero(exact <= allowed))

    def _update(self, place: Array, exact: Array, magnitude: Array) -> None:
        """Follow all maxima: no element that is not above the hull's line and cap raises one."""
        if self.max_abs < 0:
            self.max_abs = self.max_rel = 0.0
            self.max_abs_at = self.max_rel_at = int(place[0])
        if place.size <= FEW:
            self._update_few(place, exact, magnitude)
            return
        above = self.hull.above(magnitude, exact)
        if np.count_nonzero(above) < above.size:
            at = np.flatnonzero(above)
            if not at.size:
                return
            place, exact, magnitude = place[at], exact[at], magnitude[at]
        self._largest_abs(place, exact)
        self._largest_rel(place, exact, magnitude)
        self.hull.add(magnitude, exact)

    def _update_few(self, place: Array, exact: Array, magnitude: Array) -> None:
        """Do the same without numpy, whose calls take longer than a few numbers do."""
        points = list(zip(magnitude.tolist(), exact.tolist(), strict=True))
        for at, (x, d) in zip(place.tolist(), points, strict=True):
            if d > self.max_abs:
                self.max_abs, self.max_abs_at = d, at
            ratio = (d / x if x else math.inf) if d else 0.0
            if ratio > self.max_rel:
                self.max_rel, self.max_rel_at = ratio, at
        self.hull.add_few(points)

    def _largest_abs(self, place: Array, exact: Array) -> None:
        top = int(exact.argmax())
        if exact[top] > self.max_abs:
            self.max_abs, self.max_abs_at = float(exact[top]), int(place[top])

    def _largest_rel(self, place: Array, exact: Array, magnitude: Array) -> None:
        ratio = np.where(exact == 0, 0.0, exact / magnitude)
        top = int(ratio.argmax())
        if ratio[top] > self.max_rel:
            self.max_rel, self.max_rel_at = float(ratio[top]), int(place[top])

    def _relative_l2(self) -> float | None:
        distance, size = math.sqrt(self.square_difference), math.sqrt(self.square_reference)
        if size == 0.0:
            return 0.0 if distance == 0.0 else math.inf
        ratio = distance / size
        return None if math.isnan(ratio) else ratio

    def _cosine(self) -> float | None:
        sizes = math.sqrt(self.square_reference) * math.sqrt(self.square_candidate)
        if sizes == 0.0 or not math.isfinite(sizes):
            return None
        return max(-1.0, min(1.0, self.product / sizes))


def _exact(reference: Array, candidate: Array) -> tuple[Array, Array]:
    """Return ``|c - r|`` and ``|r|`` in float64."""
    wide = reference.astype(np.float64)
    exact: Array = np.abs(candidate.astype(np.float64) - wide)
    return exact, np.abs(wide)


def index_of(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of a place in C order."""
    found: Any = np.unravel_index(place, shape) if shape else ()
    return tuple(int(axis) for axis in found)


FAST_FROM = 4096
"""Blocks with fewer elements go the float64 way: nothing is gained on them."""
SLACK = 1e-6
"""Relative margin of the float32 screen. Its error is below 6 units of 2**-24 of the terms
(difference, product, difference, and the rounded constants), 3.6e-7: what passes with the margin
passes in float64."""
FEW_IN = 4
"""Up to one element in so many is picked out rather than deciding the whole block in float64."""
NARROW = 32768
"""Elements that are decided in float64 at a time, where a whole block is."""
LANE = 512
"""Elements that are added in work precision before float64 takes over."""
ROW = 1 << 16
"""Products that are added in work precision before float64 takes over: BLAS keeps so many partial
sums side by side that each of them has two thousand terms at most."""
BELOW = 1 - SLACK
PART = 4096
"""Elements of which the farthest is known: finding it takes no longer than that of all."""
STEEPEST = 1e30
"""Slope of the steepest screen: it and its products stay within float32."""
MARGIN = 1e-12
"""By how much a hull must pass for all elements below it to pass, rounding in float64 included."""
CANCELLED = 0.1
"""Below this part of its terms a sum is taken anew, as their rounding would show in it."""
SMALL_SUM, LARGE_SUM = 1e-30, 1e37
"""Outside of these, a float32 sum of squares may have lost terms to under- or overflow."""
SMALLEST = 2.0**-126 / SLACK
"""Largest difference below which float32 has too few digits left for the screen's margin: its
products lie near the smallest normal number, where rounding is absolute."""
UNSEEN = 2.0**-38
"""A square of the difference below this part of the reference's: their product is then below
2**-19 of the latter (Cauchy, Schwarz), which its own rounding hides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scratch:
    """Memory for blocks of one size."""

    size: int
    distance: Array
    magnitude: Array
    mask: Array
    parts: tuple[Array, Array]
    """Distances and mask, part by part, so that what is high can be looked for in few of them."""
    rows: tuple[slice, ...]
    """What is added in work precision."""


class Sweep:
    """The fast way through two arrays of floating point."""

    def __init__(self, tally: Tally, room: Room, *, mean: bool) -> None:
        """Begin.

        Args:
            tally: Takes in what is found.
            room: Memory that may be used.
            mean: Whether the magnitudes of the reference are to be added up.
        """
        self._tally = tally
        self._room = room
        self._mean = mean

    def take(self, reference: Array, candidate: Array, *, release: Callable[[], None]) -> None:
        """Sweep over two arrays.

        Args:
            reference: Real floating point, any strides.
            candidate: The same shape.
            release: Called now and then, to give back the memory of mapped files.
        """
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
            if known.size < FAST_FROM or not self._block(start, known, found):
                self._tally.add(start, known.astype(double), found.astype(double))

    def _prepare(self, length: int, work: np.dtype[Any]) -> None:
        self._kind = work.type
        self._scratch = self._cut(length)
        self._ones = np.ones(LANE, work)
        tolerance = self._tally.tolerance
        self._rtol = work.type(tolerance.rtol * (1 - SLACK))
        self._safe = tolerance.atol * (1 - SLACK)

    def _cut(self, size: int) -> _Scratch:
        """Cut scratch memory to a block's size."""
        take = self._room.take
        distance, mask = take("distance", (size,), self._kind), take("mask", (size,), np.bool_)
        form = (-1, PART) if size % PART == 0 else (1, size)
        return _Scratch(
            size=size,
            distance=distance,
            magnitude=take("magnitude", (size,), self._kind),
            mask=mask,
            parts=(distance.reshape(form), mask.reshape(form)),
            rows=tuple(slice(start, start + ROW) for start in range(0, size, ROW)),
        )

    def _block(self, start: int, reference: Array, candidate: Array) -> bool:
        """Take in one block; False, with nothing done, if it holds nan, inf or next to nothing."""
        if reference.size != self._scratch.size:
            self._scratch = self._cut(reference.size)
        distance, magnitude = self._scratch.distance, self._scratch.magnitude
        np.subtract(candidate, reference, out=distance)
        square, known = self._dot(distance, distance), self._dot(reference, reference)
        is_near = square <= UNSEEN * known
        cross = 0.0 if is_near else self._dot(distance, reference)
        np.abs(distance, out=distance)
        tops = np.maximum.reduce(self._scratch.parts[0], axis=1)
        largest = float(tops.max())
        if not math.isfinite(largest) or 0 < largest < SMALLEST:
            return False
        self._tally.finite += reference.size
        if largest or self._mean:
            np.abs(reference, out=magnitude)
        if self._mean:
            self._tally.sum_magnitude += self._sum(magnitude)
        if largest:
            self._sums(reference, candidate, (square, known, cross))
            self._follow(start, reference, candidate, tops)
        else:
            self._equal_sums(reference, known)
            if self._tally.max_abs < 0:
                self._tally.follow(start, reference[:1], candidate[:1])
        if largest > self._safe and not self._hull_passes():
            self._count(reference, candidate, largest)
        return True

    def _hull_passes(self) -> bool:
        """Return whether all elements that are below the hull agree, whatever rounding does."""
        atol, rtol = self._tally.tolerance.atol, self._tally.tolerance.rtol
        return all(d <= (atol + rtol * x) * (1 - MARGIN) for x, d in self._tally.hull.points)

    def _count(self, reference: Array, candidate: Array, largest: float) -> None:
        """Count what disagrees; what lies near the tolerance is decided in float64."""
        tally, distance, mask = self._tally, self._scratch.distance, self._scratch.mask
        excess = self._scratch.magnitude
        np.abs(reference, out=excess)
        np.multiply(excess, self._rtol, out=excess)
        np.subtract(distance, excess, out=excess)
        np.greater(excess, self._kind(self._safe), out=mask)
        doubtful = int(np.count_nonzero(mask))
        if not doubtful:
            return
        sure = self._kind(tally.tolerance.atol + 4 * SLACK * largest)
        surely = excess > sure
        count = int(np.count_nonzero(surely))
        tally.mismatched += count
        if count < doubtful:
            np.greater(mask, surely, out=mask)
            unsure = np.flatnonzero(mask)
            tally.count(reference[unsure], candidate[unsure])

    def _follow(self, start: int, reference: Array, candidate: Array, tops: Array) -> None:
        """Hand over the elements that may lie above the hull; magnitudes are overwritten.

        Args:
            start: Place of the block.
            reference: The block.
            candidate: Its partner.
            tops: The largest distance of each part.
        """
        tally, scratch = self._tally, self._scratch
        if not tally.hull.points:
            tally.follow(start, reference[:FAST_FROM], candidate[:FAST_FROM])
        at = self._above(tops)
        if at is None:
            for first in range(0, scratch.size, NARROW):
                part = slice(first, first + NARROW)
                tally.follow(start + first, reference[part], candidate[part])
        elif at.size:
            at = at[scratch.distance[at] >= tally.hull.height(np.abs(reference[at])) * BELOW]
            if at.size:
                tally.follow(start, reference[at], candidate[at], at=at)

    def _above(self, tops: Array) -> Array | None:
        """Return the places of what is above the screen, ascending; None if that is not a few.

        Magnitudes are overwritten.
        """
        scratch, kind = self._scratch, self._kind
        level, slope, cap = (number * BELOW for number in self._tally.hull.screen())
        slope = min(slope, STEEPEST)
        line = np.multiply(scratch.magnitude, kind(slope), out=scratch.magnitude)
        if level:
            np.add(line, kind(level), out=line)
        mask = np.greater(scratch.distance, line, out=scratch.mask)
        high = np.flatnonzero(tops > cap)
        if high.size:
            distances, masks = scratch.parts
            masks[high] |= distances[high] > kind(cap)
        return np.flatnonzero(mask) if np.count_nonzero(mask) <= scratch.size // FEW_IN else None

    def _sums(self, reference: Array, candidate: Array, sums: tuple[float, float, float]) -> None:
        """Add up: ``c = r + d``, so that what is wanted of c follows, unless it cancels."""
        tally, distance = self._tally, self._scratch.distance
        square, known, cross = sums
        found, product = known + 2 * cross + square, known + cross
        if found < CANCELLED * max(known, square):
            found, product = (self._dot(candidate, one) for one in (candidate, reference))
        if not (min(square, known, found) > SMALL_SUM and max(square, known, found) < LARGE_SUM):
            wide = [array.astype(np.float64) for array in (distance, reference, candidate)]
            square, known, found = (float(np.dot(array, array)) for array in wide)
            product = float(np.dot(wide[1], wide[2]))
        tally.sum_abs += self._sum(distance)
        tally.square_difference += square
        tally.square_reference += known
        tally.square_candidate += found
        tally.product += product

    def _equal_sums(self, reference: Array, known: float) -> None:
        """Add up where there is no difference."""
        if not SMALL_SUM < known < LARGE_SUM and reference.any():
            wide = reference.astype(np.float64)
            known = float(np.dot(wide, wide))
        self._tally.square_reference += known
        self._tally.square_candidate += known
        self._tally.product += known

    def _sum(self, array: Array) -> float:
        """Add up a block; a product with ones takes half the time of ``sum``."""
        whole = array.size - array.size % LANE
        lanes = np.dot(array[:whole].reshape(-1, LANE), self._ones)
        total = float(lanes.sum(dtype=np.float64))
        return total + float(array[whole:].sum(dtype=np.float64)) if whole < array.size else total

    def _dot(self, one: Array, other: Array) -> float:
        """Add up products, row by row in work precision, the rows in float64."""
        return sum(float(np.dot(one[row], other[row])) for row in self._scratch.rows)
