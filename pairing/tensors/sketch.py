"""Sketches of values: statistics that no change of layout moves, in arrays for quick scoring."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import RecordInfo, Role, Statistics
    from padiff.pairing.view import View

Floats = npt.NDArray[np.float64]
_SCALE = 20.0
"""A mean relative distance of 1/20 between the statistics counts as nothing in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketches:
    """Size and statistics of one record for each of many calls; nan where unknown."""

    size: npt.NDArray[np.int64]
    numbers: Floats
    """Shape (calls, 3): minimum, maximum, l2."""


def sketches_of(view: View, calls: Sequence[int], role: Role) -> Sketches:
    """Sketch the largest record of a role of each call; -1 is a call of which nothing is known."""
    if role not in view.sketches:
        view.sketches[role] = _all_sketches(view, role)
    known, places = view.sketches[role], np.asarray(calls, np.int64)
    return Sketches(size=known.size[places], numbers=known.numbers[places])


def _all_sketches(view: View, role: Role) -> Sketches:
    """Sketch all calls of a side, and at the end one of which nothing is known."""
    size = np.full(len(view.calls) + 1, -1, np.int64)
    numbers = np.full((len(view.calls) + 1, 3), np.nan)
    mains = view.largest.get(role, ())
    held = [(call, main) for call, main in enumerate(mains) if main is not None]
    size[[call for call, _ in held]] = [prod(main.shape) for _, main in held]
    told = [
        (call, statistics)
        for call, main in held
        if (statistics := _statistics(view, main)) is not None and statistics.l2 is not None
    ]
    at = [call for call, _ in told]
    for column, name in enumerate(("minimum", "maximum", "l2")):
        numbers[at, column] = [getattr(statistics, name) for _, statistics in told]
    return Sketches(size=size, numbers=numbers)


def closeness(
    reference: Sketches,
    rows: npt.NDArray[np.int64],
    candidate: Sketches,
    columns: npt.NDArray[np.int64],
) -> Floats:
    """Return how near sketches are, element by element, in [0, 1]; 0 where unknown or constant."""
    mine, theirs = reference.numbers[rows], candidate.numbers[columns]
    span = np.maximum(np.abs(mine), np.abs(theirs))
    extreme = np.maximum(span[:, 0], span[:, 1])
    span[:, 0] = span[:, 1] = extreme
    gap = np.abs(theirs - mine) / np.where(span > 0, span, 1.0)
    near = np.clip(1.0 - _SCALE * (gap[:, 0] + gap[:, 1] + gap[:, 2]) / 3, 0.0, 1.0)
    is_known = (mine[:, 0] != mine[:, 1]) & (theirs[:, 0] != theirs[:, 1])
    return np.where(is_known & ~np.isnan(near), near, 0.0)


def alikeness(
    reference: View, first: RecordInfo, candidate: View, second: RecordInfo
) -> float | None:
    """Return how near the statistics of two records are, in [0, 1]; None where unknown."""
    one, two = _statistics(reference, first), _statistics(candidate, second)
    if one is None or two is None or one.l2 is None or two.l2 is None:
        return None
    if not (is_telling(one) and is_telling(two)):
        return None
    extremes = (one.minimum, one.maximum, two.minimum, two.maximum)
    low, high, other_low, other_high = (number or 0.0 for number in extremes)
    span = max(abs(low), abs(high), abs(other_low), abs(other_high)) or 1.0
    length = max(one.l2, two.l2) or 1.0
    gap = (abs(low - other_low) + abs(high - other_high)) / span + abs(one.l2 - two.l2) / length
    return min(max(1.0 - _SCALE * gap / 3, 0.0), 1.0)


def is_telling(statistics: Statistics) -> bool:
    """Return whether a value is no constant, which would agree with any order of itself."""
    return statistics.minimum is not None and statistics.minimum != statistics.maximum


def _statistics(view: View, record: RecordInfo) -> Statistics | None:
    return None if record.value is None else view.values[record.value].statistics
