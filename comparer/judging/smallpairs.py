"""Measure many small pairs in one pass: what one of them costs is then hardly more than its bytes.

The arrays of a batch lie end to end, all in float64; every number of a pair is a reduction over its
own stretch. The results are those of ``measure``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.result import Metrics

from .blocks import is_floating
from .manyhulls import hulls
from .tally import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.result import Tolerance

    from .blocks import Array

__all__ = ["BATCH", "SMALL", "is_small", "measure_small"]

SMALL = 4096
"""Elements of the largest pair for which the work of Python outweighs that of numpy."""
BATCH = 1 << 16
"""Elements of a batch: ten float64 arrays of that length stay in a third-level cache."""


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Where the pairs of a batch lie."""

    starts: Array
    sizes: Array

    def spread(self, numbers: Array) -> Array:
        """Give each element the number of its pair."""
        spread: Array = np.repeat(numbers, self.sizes)
        return spread

    def total(self, elements: Array) -> Array:
        """Add up each pair."""
        total: Array = np.add.reduceat(elements, self.starts)
        return total

    def largest(self, elements: Array) -> Array:
        """Give the largest element of each pair."""
        largest: Array = np.maximum.reduceat(elements, self.starts)
        return largest

    def first(self, elements: Array, wanted: Array) -> Array:
        """Give the place within each pair at which its wanted number stands first."""
        hits = np.flatnonzero(elements == self.spread(wanted))
        at: Array = hits[np.searchsorted(hits, self.starts)] - self.starts
        return at


def is_small(reference: Array, candidate: Array) -> bool:
    """Tell whether a pair can be measured in a batch: small, not empty, real floating point."""
    return (
        0 < reference.size <= SMALL
        and reference.shape == candidate.shape
        and is_floating(reference.dtype)
        and is_floating(candidate.dtype)
    )


def measure_small(
    pairs: Sequence[tuple[Array, Array]], tolerances: Sequence[Tolerance], *, mean: bool
) -> list[Metrics | None]:
    """Measure pairs that are small.

    Args:
        pairs: Reference and candidate, each ``is_small``.
        tolerances: One for each pair.
        mean: Whether ``reference_mean_abs`` is wanted.

    Returns:
        The metrics of each pair; None for one that holds nan or inf, which ``measure`` counts.
    """
    sizes = np.array([candidate.size for _, candidate in pairs])
    stretches = _Stretches(np.cumsum(sizes) - sizes, sizes)
    with np.errstate(all="ignore"):
        reference = _joined([pair[0] for pair in pairs])
        candidate = _joined([pair[1] for pair in pairs])
        is_bad = ~(np.isfinite(reference) & np.isfinite(candidate))
        bad = np.zeros(len(pairs), np.bool_)
        if is_bad.any():
            bad = np.logical_or.reduceat(is_bad, stretches.starts)
            cleared = stretches.spread(bad)
            reference[cleared] = candidate[cleared] = 0.0
        return _measure(pairs, (reference, candidate), stretches, tolerances, bad.tolist(), mean)


def _joined(arrays: Sequence[Array]) -> Array:
    """Lay arrays end to end in float64."""
    by_dtype = {array.dtype for array in arrays}
    flat = [array.reshape(-1) for array in arrays]
    if len(by_dtype) > 1:
        flat = [array.astype(np.float64) for array in flat]
    return np.concatenate(flat).astype(np.float64)


def _measure(
    pairs: Sequence[tuple[Array, Array]],
    sides: tuple[Array, Array],
    stretches: _Stretches,
    tolerances: Sequence[Tolerance],
    bad: list[bool],
    mean: bool,
) -> list[Metrics | None]:
    reference, candidate = sides
    distance, magnitude = np.abs(candidate - reference), np.abs(reference)
    relative = np.where(distance == 0, 0.0, distance / magnitude)
    most, most_relative = stretches.largest(distance), stretches.largest(relative)
    atol = stretches.spread(np.array([tolerance.atol for tolerance in tolerances]))
    rtol = stretches.spread(np.array([tolerance.rtol for tolerance in tolerances]))
    total = stretches.total
    columns = (
        most,
        stretches.first(distance, most),
        most_relative,
        stretches.first(relative, most_relative),
        total(~(distance <= atol + rtol * magnitude)),
        total(distance) / stretches.sizes,
        total(magnitude) / stretches.sizes,
        total(distance * distance),
        total(magnitude * magnitude),
        total(candidate * candidate),
        total(reference * candidate),
        _needed_atol(stretches, distance, magnitude, rtol),
        _needed_rtol(stretches, distance, magnitude, atol),
    )
    vertices = hulls(magnitude, distance, stretches.starts, stretches.sizes)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        None if is_bad else _metrics(pair[1].shape, row, hull, mean=mean)
        for pair, is_bad, row, hull in zip(pairs, bad, rows, vertices, strict=True)
    ]


def _needed_atol(stretches: _Stretches, distance: Array, magnitude: Array, rtol: Array) -> Array:
    allowed = rtol * magnitude
    needed = np.where(distance > allowed, distance - allowed + ROUNDING * distance, 0.0)
    return stretches.largest(needed)


def _needed_rtol(stretches: _Stretches, distance: Array, magnitude: Array, atol: Array) -> Array:
    over = distance > atol
    needed = np.where(over, (distance - atol + ROUNDING * distance) / magnitude, 0.0)
    return stretches.largest(needed)


def _metrics(
    shape: tuple[int, ...],
    row: tuple[float, ...],
    hull: tuple[tuple[float, float], ...],
    *,
    mean: bool,
) -> Metrics:
    (most, most_at, relative, relative_at, mismatched, mean_abs, size) = row[:7]
    (square, known, found, product, needed_atol, needed_rtol) = row[7:]
    return Metrics(
        size=math.prod(shape),
        mismatched=int(mismatched),
        max_abs=most,
        max_abs_index=_index(int(most_at), shape),
        max_rel=relative,
        max_rel_index=_index(int(relative_at), shape),
        mean_abs=mean_abs,
        relative_l2=_ratio(math.sqrt(square), math.sqrt(known)),
        cosine=_cosine(product, math.sqrt(known) * math.sqrt(found)),
        needed_atol=needed_atol,
        needed_rtol=None if needed_rtol == math.inf else needed_rtol,
        reference_mean_abs=size if mean else None,
        hull=hull,
    )


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    found = []
    for length in reversed(shape):
        place, axis = divmod(place, length)
        found.append(axis)
    return tuple(reversed(found))


def _ratio(distance: float, size: float) -> float | None:
    if size == 0.0:
        return 0.0 if distance == 0.0 else math.inf
    ratio = distance / size
    return None if math.isnan(ratio) else ratio


def _cosine(product: float, sizes: float) -> float | None:
    if sizes == 0.0 or not math.isfinite(sizes):
        return None
    return max(-1.0, min(1.0, product / sizes))
