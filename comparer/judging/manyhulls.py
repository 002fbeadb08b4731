"""The hulls of many small pairs at once, level by level of a quickhull.

Between two vertices of a hull, the point that lies farthest above their chord is a vertex, too. All
chords of all pairs are taken at once: what is below its chord is dropped, the rest is split at the
new vertex. Few points are left after the first level.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from .blocks import Array, Room

__all__ = ["Hulls"]

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Points:
    """Points in the plane, each with the number of what it belongs to; parallel arrays."""

    x: Array
    d: Array
    owner: Array

    def pick(self, at: Array) -> _Points:
        """Take some of them."""
        return _Points(self.x[at], self.d[at], self.owner[at])


class Hulls:
    """The hulls of the pairs of a batch."""

    def __init__(
        self, magnitude: Array, distance: Array, top_at: Array, *, has_zeros: bool, room: Room
    ) -> None:
        """Find all vertices.

        Args:
            magnitude: ``x``, a row for each pair, float64, finite.
            distance: ``d``, the same shape.
            top_at: Where the largest ``d`` of each row stands first.
            has_zeros: Whether any ``x`` is 0.
            room: Memory for what comes up on the way.
        """
        self._count = len(magnitude)
        owners = np.arange(self._count)
        top, right = distance[owners, top_at], magnitude[owners, top_at]
        mask = room.take("mask", magnitude.shape, np.bool_)
        np.equal(distance, top[:, None], out=mask)
        if np.count_nonzero(mask) > self._count:
            right = np.where(mask, magnitude, np.inf).min(axis=1)
        level = np.zeros(self._count)
        if has_zeros:
            level = np.where(magnitude == 0, distance, 0.0).max(axis=1)
        left, last = _Points(np.zeros(self._count), level, owners), _Points(right, top, owners)
        vertices = [left.pick(np.flatnonzero(level > 0)), last.pick(np.flatnonzero(right > 0))]
        chord = room.take("chord", magnitude.shape, np.float64)
        np.multiply(magnitude, ((top - level) / right)[:, None], out=chord)
        np.add(chord, level[:, None], out=chord)
        at = np.flatnonzero(np.greater(distance, chord, out=mask))
        points = _Points(
            magnitude.reshape(-1)[at], distance.reshape(-1)[at], at // magnitude.shape[1]
        )
        points = points.pick(np.flatnonzero((points.x > 0) & (points.x < right[points.owner])))
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
        """Give the vertices of each pair's hull as ``Hull.points`` does."""
        known = self._vertices
        ends = np.searchsorted(known.owner, np.arange(self._count), side="right").tolist()
        points = list(zip(known.x.tolist(), known.d.tolist(), strict=True))
        begins = [0, *ends[:-1]]
        return [tuple(points[begin:end]) for begin, end in zip(begins, ends, strict=True)]

    def largest(self, number: Callable[[Array, Array, Array], Array]) -> Array:
        """Give the largest of a number over the vertices of each pair; 0 where there is none.

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
