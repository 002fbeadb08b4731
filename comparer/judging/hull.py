"""What of a comparison decides it at any tolerance: the upper hull of (``|r|``, ``|c - r|``).

Elements agree iff ``d <= atol + rtol * x`` with ``x = |r|`` and ``d = |c - r|``. The right side is
a straight line that does not fall, so it lies above all points iff it lies above the vertices of
their upper convex hull from the origin (where nothing is asked for) to the largest ``d``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.comparer.result import Tolerance

    from .blocks import Array

__all__ = ["Hull", "passes"]

Point = tuple[float, float]

MANY = 64
"""Of more points the one that lies farthest above is taken alone, as it leaves few of the others
above the hull; sorting all of them takes longer."""
SHARP = 0.75
"""Part of the height of a vertex below which a chord that passes under it cuts off much."""
ROUNDS = 16
"""So often, at most, and as long as most of them drop: on a curve they would one by one."""


def passes(hull: Iterable[Point], tolerance: Tolerance) -> bool:
    """Tell whether all finite elements agree, from the hull alone.

    The same as judging every element, but for rounding: where an element lies within two units in
    the last place of the line, evaluating ``atol + rtol * x`` may round it to the other side.

    >>> from padiff.comparer import Tolerance
    >>> passes([(1.0, 0.5), (4.0, 1.0)], Tolerance(atol=0.5, rtol=0.125))
    True
    """
    return all(d <= tolerance.atol + tolerance.rtol * x for x, d in hull)


class Hull:
    """The hull of the points seen so far."""

    def __init__(self) -> None:
        """Start with nothing but the origin."""
        self._points: list[Point] = [(0.0, 0.0)]
        self._vertices = np.array(self._points)
        self._level = self._slope = self._cap = self._middle = 0.0

    @property
    def points(self) -> tuple[Point, ...]:
        """Give the vertices (``x``, ``d``) in ascending order of both; empty if all is equal."""
        return tuple(point for point in self._points if point[1] > 0)

    def add(self, magnitude: Array, distance: Array) -> None:
        """Take in points.

        Args:
            magnitude: ``x``, float64, finite.
            distance: ``d``, the same shape.
        """
        x, d = magnitude, distance
        for turn in range(ROUNDS):
            gap = d - self.height(x)
            keep = np.flatnonzero(gap > 0)
            if not keep.size:
                return
            is_slow = keep.size > d.size // 8
            x, d = x[keep], d[keep]
            if keep.size <= MANY or (is_slow and turn):
                break
            top = int(gap[keep].argmax())
            self.add_few([(float(x[top]), float(d[top]))])
        known = self._vertices
        x, d = np.concatenate((known[:, 0], x)), np.concatenate((known[:, 1], d))
        order = np.lexsort((-d, x))
        x, d = x[order], d[order]
        before = np.concatenate(([-math.inf], np.maximum.accumulate(d)[:-1]))
        rising = d > before
        pairs = zip(x[rising].tolist(), d[rising].tolist(), strict=True)
        self._take(_concave(list(pairs)))

    def add_few(self, points: Iterable[Point]) -> None:
        """Take in a few points (``x``, ``d``), one by one."""
        above = [(x, d) for x, d in points if d > self._height(x)]
        if not above:
            return
        rising: list[Point] = []
        for x, d in sorted([*self._points, *above], key=lambda point: (point[0], -point[1])):
            if not rising or d > rising[-1][1]:
                rising.append((x, d))
        self._take(_concave(rising))

    def _take(self, points: list[Point]) -> None:
        self._points = points
        self._vertices = np.array(points)
        self._draw()

    def _height(self, magnitude: float) -> float:
        """Give how high the hull is over one ``x``."""
        points = self._points
        after = bisect_right(points, magnitude, key=itemgetter(0))
        if after == len(points):
            return points[-1][1]
        (left, low), (right, high) = points[after - 1], points[after]
        return low + (magnitude - left) * ((high - low) / (right - left))

    def height(self, magnitude: Array) -> Array:
        """Give how high the hull is over some ``x``; level beyond its last vertex."""
        height: Array = np.interp(magnitude, self._vertices[:, 0], self._vertices[:, 1])
        return height

    def above(self, magnitude: Array, distance: Array) -> Array:
        """Tell which points may be above the hull: all that are above two of its chords."""
        above: Array = distance > np.minimum(self._level + self._slope * magnitude, self._cap)
        return above

    def screen(self) -> tuple[float, float, float]:
        """Give the level at 0, the slope and the height of one of the screens.

        It is the chord to the last vertex, whose height is hardly ever exceeded, unless that cuts
        off much of the hull.
        """
        first, last = self._points[0], self._points[-1]
        chord = _slope(first, last)
        if math.isfinite(chord) and self._level + chord * self._middle >= SHARP * self._cap:
            return self._level, chord, last[1]
        return self._level, self._slope, self._cap

    def screens(self) -> tuple[float, Array, Array]:
        """Give lines that are not above the hull until they reach a height that is not, either.

        Returns:
            What all have at 0, and for each line its slope and its height; both float64, the
            heights ascend. No line if all is equal.
        """
        level = self._points[0][1]
        x, d = self._vertices[1:].T
        if not x.size:
            return level, np.zeros(int(level > 0)), np.full(int(level > 0), level)
        slopes = (d - level) / x
        return level, np.where(np.isfinite(slopes), slopes, 0.0), d

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
    """Leave out what lies below a chord; Andrew's monotone chain over ascending points."""
    hull: list[Point] = []
    for x, d in points:
        while len(hull) > 1:
            (x0, d0), (x1, d1) = hull[-2:]
            if (d1 - d0) / (x1 - x0) > (d - d0) / (x - x0):
                break
            hull.pop()
        hull.append((x, d))
    return hull
