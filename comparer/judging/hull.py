"""What of a comparison decides it at any tolerance: the upper hull of (``|r|``, ``|c - r|``).

Elements agree iff ``d <= atol + rtol * x`` with ``x = |r|`` and ``d = |c - r|``. The right side is
a straight line that does not fall, so it lies above all points iff it lies above the vertices of
their upper convex hull from the origin (where nothing is asked for) to the largest ``d``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.comparer.result import Tolerance

    from .blocks import Array

__all__ = ["Hull", "passes"]

Point = tuple[float, float]


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
        self.rise: Point = (0.0, 0.0)
        """A line (value at 0, slope) and"""
        self.cap = 0.0
        """a height: points that are below both are below the hull, which does not fall."""

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
        known = self._vertices
        keep = np.flatnonzero(distance > self.height(magnitude))
        if not keep.size:
            return
        x = np.concatenate((known[:, 0], magnitude[keep]))
        d = np.concatenate((known[:, 1], distance[keep]))
        order = np.lexsort((-d, x))
        x, d = x[order], d[order]
        before = np.concatenate(([-math.inf], np.maximum.accumulate(d)[:-1]))
        rising = d > before
        pairs = zip(x[rising].tolist(), d[rising].tolist(), strict=True)
        self._points = _concave(list(pairs))
        self._vertices = np.array(self._points)
        self._draw()

    def height(self, magnitude: Array) -> Array:
        """Give how high the hull is over some ``x``; level beyond its last vertex."""
        height: Array = np.interp(magnitude, self._vertices[:, 0], self._vertices[:, 1])
        return height

    def above(self, magnitude: Array, distance: Array) -> Array:
        """Tell which points may be above the hull: all that are above its line or its cap."""
        level, slope = self.rise
        above: Array = distance > np.minimum(level + slope * magnitude, self.cap)
        return above

    def _draw(self) -> None:
        """Take the chord to the vertex that lies farthest above the chord to the last one."""
        (left, low), (right, high) = self._points[0], self._points[-1]
        slope = (high - low) / (right - left) if right > left else 0.0
        heights = [d - slope * x for x, d in self._points]
        middle, self.cap = self._points[heights.index(max(heights[1:] or heights))]
        rise = (self.cap - low) / (middle - left) if middle > left else 0.0
        self.rise = (low, rise) if math.isfinite(rise) else (0.0, 0.0)


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
