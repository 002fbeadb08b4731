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
    from .blocks import Array

__all__ = ["hulls"]

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


def hulls(
    magnitude: Array, distance: Array, starts: Array, sizes: Array
) -> list[tuple[Point, ...]]:
    """Give the vertices of each pair's hull as ``Hull.points`` does.

    Args:
        magnitude: ``x`` of all pairs end to end, float64, finite.
        distance: ``d``, the same shape.
        starts: Where each pair begins.
        sizes: How many elements each has, at least 1.
    """
    pair = np.repeat(np.arange(len(sizes)), sizes)
    top = np.maximum.reduceat(distance, starts)
    level = np.maximum.reduceat(np.where(magnitude == 0, distance, 0.0), starts)
    at_top = np.where(distance == top[pair], magnitude, np.inf)
    right = np.minimum.reduceat(at_top, starts)
    left = _Points(np.zeros(len(sizes)), level, np.arange(len(sizes)))
    last = _Points(right, top, np.arange(len(sizes)))
    vertices = [left.pick(np.flatnonzero(level > 0)), last.pick(np.flatnonzero(right > 0))]
    inside = np.flatnonzero((magnitude > 0) & (magnitude < right[pair]))
    points = _Points(magnitude[inside], distance[inside], pair[inside])
    owners = np.arange(len(sizes))
    while points.x.size:
        points, left, last, owners, found = _split(points, left, last, owners)
        vertices.append(found)
    return _sorted(vertices, len(sizes))


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


def _sorted(vertices: list[_Points], count: int) -> list[tuple[Point, ...]]:
    x, d, owner = (
        np.concatenate([getattr(part, name) for part in vertices]) for name in ("x", "d", "owner")
    )
    order = np.lexsort((x, owner))
    order = order[d[order] > 0]
    ends = np.searchsorted(owner[order], np.arange(count), side="right").tolist()
    points = list(zip(x[order].tolist(), d[order].tolist(), strict=True))
    found, begin = [], 0
    for end in ends:
        found.append(tuple(points[begin:end]))
        begin = end
    return found
