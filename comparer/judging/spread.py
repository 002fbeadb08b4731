"""How the error of one record is spread over its elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from padiff.comparer.result import Tolerance

__all__ = ["Histogram", "Mismatch", "Profile", "Spread", "describe"]

Array = np.ndarray[Any, np.dtype[Any]]

BINS = 40
HEAT_ROWS = 48
HEAT_COLUMNS = 96
POINTS = 128
"""Points of a profile."""
AXES = 4
"""Axes that get a profile."""
SHOWN = 16
"""Mismatching elements that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How often values occur on both sides, in equal bins over one range."""

    low: float
    high: float
    reference: tuple[int, ...]
    candidate: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The largest error at each index of an axis, several indexes to a point where it is long."""

    axis: int
    size: int
    largest: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One element that does not agree."""

    index: tuple[int, ...]
    reference: str
    candidate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """All of it."""

    histogram: Histogram | None
    heat: tuple[tuple[float, ...], ...]
    heat_shape: tuple[int, int]
    profiles: tuple[Profile, ...]
    mismatches: tuple[Mismatch, ...]


def describe(reference: Array, candidate: Array, tolerance: Tolerance) -> Spread:
    """Describe the difference of two arrays of one shape.

    Args:
        reference: Any real or complex dtype; complex values count by magnitude.
        candidate: The same shape.
        tolerance: What decides which elements are listed.
    """
    kind = np.complex128 if np.iscomplexobj(reference) or np.iscomplexobj(candidate) else np.float64
    known, found = (np.asarray(side).astype(kind) for side in (reference, candidate))
    finite = np.isfinite(known) & np.isfinite(found)
    same = (np.isnan(known) & np.isnan(found)) | (known == found)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(found - known), np.where(same, 0.0, np.inf))
        bad = error > tolerance.atol + tolerance.rtol * np.where(finite, np.abs(known), 0.0)
    columns = error.shape[-1] if error.ndim and error.size else 1
    folded = error.reshape(-1, columns)
    return Spread(
        histogram=_histogram(known, found),
        heat=tuple(tuple(row) for row in _shrink(folded, HEAT_ROWS, HEAT_COLUMNS).tolist()),
        heat_shape=(folded.shape[0], folded.shape[1]),
        profiles=tuple(_profiles(error)),
        mismatches=tuple(_mismatches(known, found, bad)),
    )


def _histogram(reference: Array, candidate: Array) -> Histogram | None:
    sides = [np.abs(side) if np.iscomplexobj(side) else side for side in (reference, candidate)]
    sides = [side[np.isfinite(side)] for side in sides]
    if not any(side.size for side in sides):
        return None
    low = min(float(side.min()) for side in sides if side.size)
    high = max(float(side.max()) for side in sides if side.size)
    if not high > low or not np.isfinite(high - low):
        return None
    counts = [np.histogram(side, bins=BINS, range=(low, high))[0] for side in sides]
    return Histogram(
        low=low,
        high=high,
        reference=tuple(counts[0].tolist()),
        candidate=tuple(counts[1].tolist()),
    )


def _shrink(folded: Array, rows: int, columns: int) -> Array:
    """Keep the largest of each cell of a coarser grid."""
    if not folded.size:
        return folded
    for axis, most in ((0, rows), (1, columns)):
        size = folded.shape[axis]
        if size > most:
            starts = np.arange(most) * size // most
            folded = np.maximum.reduceat(folded, starts, axis=axis)
    return folded


def _profiles(error: Array) -> list[Profile]:
    if not error.size:
        return []
    found = []
    for axis in range(min(error.ndim, AXES)):
        others = tuple(other for other in range(error.ndim) if other != axis)
        largest = np.asarray(error.max(axis=others)).reshape(1, -1)
        points = tuple(_shrink(largest, 1, POINTS)[0].tolist())
        found.append(Profile(axis=axis, size=error.shape[axis], largest=points))
    return found


def _mismatches(reference: Array, candidate: Array, bad: Array) -> list[Mismatch]:
    places = np.flatnonzero(bad)[:SHOWN]
    return [
        Mismatch(
            index=tuple(int(axis) for axis in np.unravel_index(place, bad.shape)),
            reference=_text(reference.flat[place]),
            candidate=_text(candidate.flat[place]),
        )
        for place in places
    ]


def _text(value: Any) -> str:  # noqa: ANN401 -- float64 or complex128
    return f"{value:.9g}"
