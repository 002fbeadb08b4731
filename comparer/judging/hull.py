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
    from collections.abc import Callable, Iterable, Sequence

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
"""So often, at most, and as long as most of them drop: on a curve they would one by one."""


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
        """Return the level at 0, the slope and the height of one of the screens.

        It is the chord to the last vertex, whose height is hardly ever exceeded, unless that cuts
        off much of the hull.
        """
        first, last = self._points[0], self._points[-1]
        chord = _slope(first, last)
        if math.isfinite(chord) and self._level + chord * self._middle >= SHARP * self._cap:
            return self._level, chord, last[1]
        return self._level, self._slope, self._cap

    def screens(self) -> tuple[float, Array, Array]:
        """Return lines that are not above the hull until they reach a height that is not, either.

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


BELOW = 1 - 1e-9
"""A point below so much of a chord is below the hull, whatever rounding does: the height above a
chord is right to some units in the last place of what is on it."""


@dataclass(frozen=True, slots=True)
class _Points:
    """Points in the plane, each with the number of what it belongs to; parallel arrays."""

    x: Array
    d: Array
    owner: Array

    def pick(self, at: Array) -> _Points:
        """Take some of them."""
        return _Points(self.x[at], self.d[at], self.owner[at])


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """What the hulls of some pairs begin with, and the few points that may be vertices of them.

    A hull begins at the largest ``d`` of ``x = 0`` (at the origin where that is 0) and ends at the
    largest ``d`` of all, the first one.
    """

    level: Array
    """``d`` at the beginning; a row for each pair, as in the next two."""
    right: Array
    """``x`` at the end;"""
    top: Array
    """``d`` there."""
    x: Array
    """Of points above the chord between the two;"""
    d: Array
    owner: Array
    """whose they are, ascending."""

    @classmethod
    def of(
        cls,
        magnitude: Array,
        distance: Array,
        relative: Array,
        *,
        tops: tuple[Array, Array],
        has_zeros: bool,
        room: Room,
    ) -> Slopes:
        """Look through all points.

        Args:
            magnitude: ``x``, a row for each pair, float64, finite.
            distance: ``d``, the same shape.
            relative: ``d / x``, 0 where ``d`` is.
            tops: Where the largest ``d`` and the largest ``d / x`` of each row stand first.
            has_zeros: Whether any ``x`` is 0.
            room: Memory for what comes up on the way.
        """
        count, size = magnitude.shape
        rows = np.arange(count)
        top, right = distance[rows, tops[0]], magnitude[rows, tops[0]]
        mask = room.take("mask", magnitude.shape, np.bool_)
        np.equal(distance, top[:, None], out=mask)
        if np.count_nonzero(mask) > count:
            right = np.where(mask, magnitude, np.inf).min(axis=1)
        level = np.zeros(count)
        if has_zeros:
            level = np.where(magnitude == 0, distance, 0.0).max(axis=1)
        peak = relative[rows, tops[1]]
        at = _near(
            (magnitude, distance, relative),
            (np.where(level > 0, 0.0, magnitude[rows, tops[1]]), right),
            (np.where(level > 0, level, distance[rows, tops[1]]), top),
            np.where(level > 0, np.inf, peak),
            room,
        )
        owner = at // size
        x, d = magnitude.reshape(-1)[at], distance.reshape(-1)[at]
        chord = x * ((top - level) / right)[owner] + level[owner]
        keep = np.flatnonzero((d > chord) & (x > 0) & (x < right[owner]))
        return cls(level=level, right=right, top=top, x=x[keep], d=d[keep], owner=owner[keep])

    @classmethod
    def joined(cls, parts: Sequence[Slopes]) -> Slopes:
        """Put those of several batches one after the other."""
        starts = np.cumsum([0, *(len(part.top) for part in parts)])
        owners = [part.owner + start for part, start in zip(parts, starts, strict=False)]
        return cls(
            owner=np.concatenate(owners),
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name in ("level", "right", "top", "x", "d")
            },
        )

    def picked(self, rows: Array) -> Slopes:
        """Take those of some pairs, in the order given."""
        begins = np.searchsorted(self.owner, rows)
        counts = np.searchsorted(self.owner, rows, side="right") - begins
        owner = np.repeat(np.arange(rows.size), counts)
        at = np.arange(owner.size) + np.repeat(begins - np.cumsum(counts) + counts, counts)
        return Slopes(
            level=self.level[rows],
            right=self.right[rows],
            top=self.top[rows],
            x=self.x[at],
            d=self.d[at],
            owner=owner,
        )


def _near(
    points: tuple[Array, Array, Array],
    x: tuple[Array, Array],
    d: tuple[Array, Array],
    peak: Array,
    room: Room,
) -> Array:
    """Find the points that are not surely below the hull, by two of its chords.

    Nothing is above the line from the origin through the steepest point. Behind that, what lies
    below the chord from there to the top by more than rounding is no vertex.

    Args:
        points: ``x``, ``d`` and ``d / x``, a row for each pair.
        x: Of the steepest point and of the top.
        d: The same.
        peak: The largest ``d / x``.
        room: Memory for what comes up on the way.

    Returns:
        Places in the flattened matrices, ascending.
    """
    magnitude, distance, relative = points
    run = x[1] - x[0]
    slope = np.where(run > 0, (d[1] - d[0]) / np.where(run > 0, run, 1.0), 0.0)
    line = room.take("chord", magnitude.shape, np.float64)
    np.multiply(magnitude, (slope * BELOW)[:, None], out=line)
    np.add(line, ((d[0] - slope * x[0]) * BELOW)[:, None], out=line)
    mask = room.take("mask", magnitude.shape, np.bool_)
    np.greater_equal(distance, line, out=mask)
    steep = room.take("steep", magnitude.shape, np.bool_)
    np.greater_equal(relative, (peak * BELOW)[:, None], out=steep)
    return np.flatnonzero(np.logical_or(mask, steep, out=mask))


class Hulls:
    """The hulls of the pairs of a batch."""

    def __init__(self, slopes: Slopes) -> None:
        """Find all vertices."""
        self._count = len(slopes.top)
        level, right, top = slopes.level, slopes.right, slopes.top
        owners = np.arange(self._count)
        left, last = _Points(np.zeros(self._count), level, owners), _Points(right, top, owners)
        vertices = [left.pick(np.flatnonzero(level > 0)), last.pick(np.flatnonzero(right > 0))]
        points = _Points(slopes.x, slopes.d, slopes.owner)
        while points.x.size:
            points, left, last, owners, found = _split(points, left, last, owners)
            vertices.append(found)
        x, d, owner = (
            np.concatenate([getattr(part, name) for part in vertices])
            for name in ("x", "d", "owner")
        )
        order = np.lexsort((x, owner))
        self._vertices = _Points(x, d, owner).pick(order[d[order] > 0])

    def points(self) -> list[tuple[Point, ...]]:
        """Return the vertices of each pair's hull as ``Hull.points`` does."""
        known = self._vertices
        ends = np.searchsorted(known.owner, np.arange(self._count), side="right").tolist()
        points = list(zip(known.x.tolist(), known.d.tolist(), strict=True))
        begins = [0, *ends][: self._count]
        return [tuple(points[begin:end]) for begin, end in zip(begins, ends, strict=True)]

    def largest(self, number: Callable[[Array, Array, Array], Array]) -> Array:
        """Return the largest of a number over the vertices of each pair; 0 where there is none.

        Args:
            number: Of ``x``, ``d`` and the pair's place in the batch, >= 0.
        """
        most = np.zeros(self._count)
        known = self._vertices
        if known.x.size:
            owners, starts = np.unique(known.owner, return_index=True)
            numbers = number(known.x, known.d, known.owner)
            most[owners] = np.maximum.reduceat(numbers, starts)
        return most


def _split(
    points: _Points, left: _Points, last: _Points, owners: Array
) -> tuple[_Points, _Points, _Points, Array, _Points]:
    """Take one level: drop what is below its chord, and split the chords that have points left.

    Args:
        points: By number of their chord, ascending.
        left: Where each chord begins.
        last: Where it ends.
        owners: The pair of each chord.

    Returns:
        The points, chords and pairs of the next level, and the vertices that were found.
    """
    chord = points.owner
    slope = (last.d - left.d) / (last.x - left.x)
    height = points.d - (left.d[chord] + (points.x - left.x[chord]) * slope[chord])
    keep = np.flatnonzero(height > 0)
    points, height = points.pick(keep), height[keep]
    if not keep.size:
        return points, left, last, owners, points
    chords, starts = np.unique(points.owner, return_index=True)
    number = np.repeat(np.arange(chords.size), np.diff([*starts.tolist(), keep.size]))
    highest = np.maximum.reduceat(height, starts)
    hits = np.flatnonzero(height == highest[number])
    at = hits[np.searchsorted(hits, starts)]
    peak = _Points(points.x[at], points.d[at], owners[chords])
    is_right = points.x > peak.x[number]
    rest = np.flatnonzero(points.x != peak.x[number])
    parts = 2 * number + is_right
    rest = rest[np.argsort(parts[rest], kind="stable")]
    remaining = _Points(points.x[rest], points.d[rest], parts[rest])
    begin = _pairwise(left.pick(chords), peak)
    end = _pairwise(peak, last.pick(chords))
    return remaining, begin, end, np.repeat(owners[chords], 2), peak


def _pairwise(one: _Points, other: _Points) -> _Points:
    """Take turns: the first of the one, the first of the other, the second of the one."""
    x, d = (np.stack(both, axis=1).reshape(-1) for both in ((one.x, other.x), (one.d, other.d)))
    return _Points(x, d, np.arange(x.size))
