"""Where along each axis a candidate is off: the error profile of one diverged tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from padiff.comparer.judging.blocks import Array
    from padiff.comparer.result import Tolerance

__all__ = ["AxisProfile", "agreement", "axis_names", "profile"]

LONGEST = 64
"""Entries of a profile; longer axes are given in that many bins."""

_NAMES = {
    1: ("feature",),
    2: ("batch", "feature"),
    3: ("batch", "token", "feature"),
    4: ("batch", "channel", "row", "column"),
    5: ("batch", "channel", "depth", "row", "column"),
}
"""What the axes of an activation usually are, by their number."""
_STATES = {1: ("element",), 2: ("weight row", "weight column")}
"""What they are of a weight, a buffer, or what is kept for one."""
LINE = ("batch", "channel", "position")
"""What they are around a Conv1d, a pooling over one axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisProfile:
    """The error along one axis."""

    axis: int
    name: str
    """What the axis usually is: batch, token, channel, feature; a guess by number of axes."""
    size: int
    mismatched: tuple[int, ...]
    """Indices at which some element does not agree, ascending."""
    max_abs: tuple[float, ...]
    """Largest absolute difference, of each index or of each of ``LONGEST`` equal bins."""


def axis_names(ndim: int, *, is_line: bool = False, is_state: bool = False) -> tuple[str, ...]:
    """Name the axes of an activation by their number.

    Args:
        ndim: Their number.
        is_line: Whether the layer is one of those over one axis of space, channels second.
        is_state: Whether the tensor is no activation, but a weight or what is kept for one.
    """
    if is_state:
        return _STATES.get(ndim, tuple(f"axis {axis}" for axis in range(ndim)))
    if is_line and ndim == len(LINE):
        return LINE
    return _NAMES.get(ndim, tuple(f"axis {axis}" for axis in range(ndim)))


def agreement(reference: Array, candidate: Array, tolerance: Tolerance) -> Array:
    """Tell for each element whether the sides agree; equal nan and inf do.

    Args:
        reference: Shape (*S), float64.
        candidate: Shape (*S), float64.
        tolerance: Decides.
    """
    with np.errstate(all="ignore"):
        return _agreeing(np.abs(candidate - reference), reference, candidate, tolerance)


def _agreeing(distance: Array, reference: Array, candidate: Array, tolerance: Tolerance) -> Array:
    """Return ``agreement``, the distance of the sides being known."""
    with np.errstate(all="ignore"):
        agree: Array = distance <= tolerance.atol + tolerance.rtol * np.abs(reference)
    odd = ~np.isfinite(distance)
    if odd.any():  # equal finite elements agree by their distance
        known, found = reference[odd], candidate[odd]
        agree[odd] |= (known == found) | (np.isnan(known) & np.isnan(found))
    return agree


def profile(
    reference: Array,
    candidate: Array,
    tolerance: Tolerance,
    *,
    names: tuple[str, ...] | None = None,
) -> tuple[AxisProfile, ...]:
    """Measure the error along each axis.

    Args:
        reference: Shape (*S), float64.
        candidate: Shape (*S), float64.
        tolerance: Decides which elements agree.
        names: Of the axes; by default those that ``axis_names`` gives for their number.
    """
    with np.errstate(all="ignore"):
        distance = np.abs(candidate - reference)
    agree = _agreeing(distance, reference, candidate, tolerance)
    odd = ~np.isfinite(distance)
    if odd.any():
        distance[odd] = np.where(agree[odd], 0.0, np.inf)
    names = names or axis_names(reference.ndim)
    found = []
    for axis, size in enumerate(reference.shape):
        others = tuple(other for other in range(reference.ndim) if other != axis)
        bad = np.flatnonzero(~agree.all(axis=others))
        largest = distance.max(axis=others, initial=0.0)
        found.append(
            AxisProfile(
                axis=axis,
                name=names[axis],
                size=size,
                mismatched=tuple(map(int, bad)),
                max_abs=tuple(_largest_of_bins(largest).tolist()),
            )
        )
    return tuple(found)


def _largest_of_bins(values: Array) -> Array:
    """Return the largest of each of ``LONGEST`` equal bins, the first ones one longer."""
    count = min(LONGEST, values.size)
    if not count:
        return values
    length, longer = divmod(values.size, count)
    places = np.arange(count)
    starts = places * length + np.minimum(places, longer)
    largest: Array = np.maximum.reduceat(values, starts)
    return largest
