"""The fast sweep over large floating arrays: sums in work precision, maxima only as candidates.

Every maximum that is wanted (of ``|c - r|``, of its ratio to ``|r|``, the smallest tolerances that
pass) lies at a vertex of the hull, so that only elements above it are looked at again. As long as
the hull passes, so do all elements below it, and none needs to be counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .blocks import BLOCK_BYTES, Array, Room, paired_blocks, widen

if TYPE_CHECKING:
    from collections.abc import Callable

    from .metrics import Tally


FAST_FROM = 4096
"""Blocks with fewer elements go the float64 way: nothing is gained on them."""
SLACK = 1e-6
"""Relative margin of the float32 screen. Its error is below 6 units of 2**-24 of the terms
(difference, product, difference, and the rounded constants), 3.6e-7: what passes with the margin
passes in float64."""
FEW = 4
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
        return np.flatnonzero(mask) if np.count_nonzero(mask) <= scratch.size // FEW else None

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
        """Add up where there is no difference.

        Args:
            reference: The block.
            known: Its sum of squares in work precision.
        """
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
