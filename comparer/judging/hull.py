"""What of a comparison decides it at any tolerance: the upper hull of (``|r|``, ``|c - r|``).

Elements agree iff ``d <= atol + rtol * x`` with ``x = |r|`` and ``d = |c - r|``. The right side is
a straight line that does not fall, so it lies above all points iff it lies above the vertices of
their upper convex hull from the origin (where nothing is asked for) to the largest ``d``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.comparer.result import Tolerance

    from .blocks import Array, Room

Point = tuple[float, float]

ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""By how much of the difference a smallest passing tolerance is rounded up, so that evaluating
``atol + rtol * |r|`` with it, again in float64, does pass."""
MANY = 64
"""Of more points the one that lies farthest above is taken alone, as it leaves few of the others
above the hull; sorting all of them takes longer."""
SHARP = 0.75
"""Part of the height of a vertex below which a chord that passes under it cuts off much."""
ROUNDS = 16
"""So often, at most,"""
PATIENCE = 4
"""and behind so many only as long as most of them drop: on a curve they would one by one."""


def passes(hull: Iterable[Point], tolerance: Tolerance) -> bool:
    """Return whether all finite elements agree, from the hull alone.

    The same as judging every element, but for rounding: where an element lies within two units in
    the last place of the line, evaluating ``atol + rtol * x`` may round it to the other side.

    >>> from padiff.comparer import Tolerance
    >>> passes([(1.0, 0.5), (4.0, 1.0)], Tolerance(atol=0.5, rtol=0.125))
    True
    """
    return all(d <= tolerance.atol + tolerance.rtol * x for x, d in hull)


def needed_atol(hull: Iterable[Point], rtol: float) -> float:
    """Return the smallest atol at which all finite elements agree: the largest ``d - rtol * x``."""
    return max((d - rtol * x + ROUNDING * d for x, d in hull if d > rtol * x), default=0.0)


def needed_rtol(hull: Iterable[Point], atol: float) -> float | None:
    """Return the smallest rtol, the largest ``(d - atol) / x``; None where an ``x`` is 0."""
    over = [(x, d) for x, d in hull if d > atol]
    if any(x == 0 for x, _ in over):
        return None
    return max(((d - atol + ROUNDING * d) / x for x, d in over), default=0.0)


class Hull:
    """The hull of the points seen so far."""

    def __init__(self) -> None:
        """Start with nothing but the origin."""
        self._points: list[Point] = [(0.0, 0.0)]
        self._vertices = np.array(self._points)
        self._level = self._slope = self._cap = self._middle = 0.0

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the vertices (``x``, ``d``) in ascending order of both; empty if all is equal."""
        return tuple(point for point in self._points if point[1] > 0)

    def add(self, magnitude: Array, distance: Array) -> None:
        """Take in points."""
        x, d = magnitude, distance
        for turn in range(ROUNDS):
            gap = d - self.height(x)
            keep = np.flatnonzero(gap > 0)
            if not keep.size:
                return
            is_slow = keep.size > d.size // 8
            x, d = x[keep], d[keep]
            if keep.size <= MANY or (is_slow and turn >= PATIENCE):
                break
            top = int(gap[keep].argmax())
            self.add_few([(float(x[top]), float(d[top]))])
        known = self._vertices
        x, d = np.concatenate((known[:, 0], x)), np.concatenate((known[:, 1], d))
        order = np.lexsort((-d, x))
        x, d = x[order], d[order]
        rising = d > np.concatenate(([-math.inf], np.maximum.accumulate(d)[:-1]))
        self._take(_concave(list(zip(x[rising].tolist(), d[rising].tolist(), strict=True))))

    def add_few(self, points: Iterable[Point]) -> None:
        """Take in a few points (``x``, ``d``), one by one."""
        above = [(x, d) for x, d in points if d > self._height(x)]
        if not above:
            return
        self._take(_concave(sorted([*self._points, *above])))

    def _take(self, points: list[Point]) -> None:
        self._points = points
        self._vertices = np.array(points)
        self._draw()

    def _height(self, magnitude: float) -> float:
        """Return how high the hull is over one ``x``."""
        points = self._points
        after = bisect_right(points, magnitude, key=itemgetter(0))
        if after == len(points):
            return points[-1][1]
        (left, low), (right, high) = points[after - 1], points[after]
        return low + (magnitude - left) * ((high - low) / (right - left))

    def height(self, magnitude: Array) -> Array:
        """Return how high the hull is over some ``x``; level beyond its last vertex."""
        height: Array = np.interp(magnitude, self._vertices[:, 0], self._vertices[:, 1])
        return height

    def above(self, magnitude: Array, distance: Array) -> Array:
        """Return which points may be above the hull: all that are above two of its chords."""
        above: Array = distance > np.minimum(self._level + self._slope * magnitude, self._cap)
        return above

    def screen(self) -> tuple[float, float, float]:
        """Return the level at 0, the slope and the height of a line that is not above the hull.

        It is the chord to the last vertex, whose height is hardly ever exceeded, unless that cuts
        off much of the hull.
        """
        first, last = self._points[0], self._points[-1]
        chord = _slope(first, last)
        if math.isfinite(chord) and self._level + chord * self._middle >= SHARP * self._cap:
            return self._level, chord, last[1]
        return self._level, self._slope, self._cap

    def _draw(self) -> None:
        """Take the chord to the vertex that lies farthest above the chord to the last one."""
        first, *others = self._points
        last = others[-1] if others else first
        chord = _slope(first, last)
        heights = [d - chord * x for x, d in others]
        middle = others[heights.index(max(heights))] if others else first
        rise = _slope(first, middle)
        self._level, (self._middle, self._cap) = first[1], middle
        self._slope = rise if math.isfinite(rise) else 0.0


def _slope(left: Point, right: Point) -> float:
    return (right[1] - left[1]) / (right[0] - left[0]) if right[0] > left[0] else 0.0


def _concave(points: list[Point]) -> list[Point]:
    """Return the upper hull from its beginning to the largest ``d``; Andrew's monotone chain.

    Args:
        points: Sorted.
    """
    hull: list[Point] = []
    last_x = last_d = -1.0
    for x, d in points:
        if x == last_x:
            hull.pop()
        elif d <= last_d:
            continue
        while len(hull) > 1:
            (x0, d0), (x1, d1) = hull[-2:]
            if (d1 - d0) / (x1 - x0) > (d - d0) / (x - x0):
                break
            hull.pop()
        hull.append((x, d))
        last_x, last_d = x, d
    return hull


BELOW = 1 - 1e-9
"""A point below so much of a chord is below the hull, whatever rounding does: the height above a
chord is right to some units in the last place of what is on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The few points of several pairs that may be vertices of their hulls; parallel arrays."""

    count: int
    """Pairs."""
    x: Array
    d: Array
    """Above 0."""
    owner: Array
    """Whose they are, ascending."""

    @classmethod
    def of(
        cls,
        magnitude: Array,
        distance: Array,
        relative: Array,
        tops: tuple[Array, Array],
        room: Room,
    ) -> Candidates:
        """Leave out what two chords of each hull show to be below it.

        Nothing is above the line from the origin through the steepest point. Behind that, what lies
        below the chord from there to the top by more than rounding is no vertex.

        Args:
            magnitude: ``x``, a row for each pair, float64, finite.
            distance: ``d``, the same shape.
            relative: ``d / x``, 0 where ``d`` is.
            tops: Where the largest ``d`` and the largest ``d / x`` of each row stand first.
            room: Memory for what comes up on the way.
        """
        count, size = magnitude.shape
        rows = np.arange(count)
        last, first = ((magnitude[rows, at], distance[rows, at]) for at in tops)
        run = last[0] - first[0]
        slope = np.where(run > 0, (last[1] - first[1]) / np.where(run > 0, run, 1.0), 0.0)
        line = room.take("chord", magnitude.shape, np.float64)
        np.multiply(magnitude, (slope * BELOW)[:, None], out=line)
        np.add(line, ((first[1] - slope * first[0]) * BELOW)[:, None], out=line)
        mask = room.take("mask", magnitude.shape, np.bool_)
        np.greater_equal(distance, line, out=mask)
        steep = room.take("steep", magnitude.shape, np.bool_)
        np.greater_equal(relative, (relative[rows, tops[1]] * BELOW)[:, None], out=steep)
        at = np.flatnonzero(np.logical_or(mask, steep, out=mask))
        at = at[distance.reshape(-1)[at] > 0]
        x, d = magnitude.reshape(-1)[at], distance.reshape(-1)[at]
        return cls(count=count, x=x, d=d, owner=at // size)

    @classmethod
    def joined(cls, parts: Sequence[Candidates]) -> Candidates:
        """Put those of several batches one after the other."""
        starts = np.cumsum([0, *(part.count for part in parts)])
        owners = [part.owner + start for part, start in zip(parts, starts, strict=False)]
        x, d = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "d"))
        return cls(count=int(starts[-1]), x=x, d=d, owner=np.concatenate(owners))

    def hulls(self, rows: Array) -> list[tuple[Point, ...]]:
        """Return the vertices of the hulls of some pairs as ``Hull.points`` does."""
        begins, ends = (np.searchsorted(self.owner, rows, side=side) for side in ("left", "right"))
        order = np.lexsort((self.d, self.x, self.owner))
        points = list(zip(self.x[order].tolist(), self.d[order].tolist(), strict=True))
        hulls = [
            _concave([(0.0, 0.0), *points[begin:end]])
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        return [tuple(hull if hull[0][1] else hull[1:]) for hull in hulls]

    def needed_atol(self, rtol: Array) -> Array:
        """Return the smallest atol at which each pair agrees."""
        allowed = rtol[self.owner] * self.x
        return self._largest(np.where(self.d > allowed, self.d - allowed + ROUNDING * self.d, 0.0))

    def needed_rtol(self, atol: Array) -> Array:
        """Return the smallest rtol at which each pair agrees, inf where there is none."""
        over = self.d - atol[self.owner]
        with np.errstate(all="ignore"):
            return self._largest(np.where(over > 0, (over + ROUNDING * self.d) / self.x, 0.0))

    def _largest(self, numbers: Array) -> Array:
        """Return the largest of a number of the points of each pair, 0 where it has none."""
        found = np.zeros(self.count)
        np.maximum.at(found, self.owner, numbers)
        return found
