"""Whether both sides are one tensor resized, and by which rule: align_corners and the like."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.comparer.judging.blocks import Array

    from .contrast import Contrast

__all__ = ["resized"]

FIRST_AXIS = 2
"""Of space, after batch and channel."""
WORK = 4
"""Times that each element is gone through: a product for each axis."""
MOST_AXES = 5
CUBIC = -0.75
"""Free parameter of the cubic kernel in torch, paddle and OpenCV (R. Keys, Cubic convolution
interpolation for digital image processing, IEEE Trans. ASSP 29, 1981)."""


def resized(sides: Contrast, sources: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether the sides are one tensor at hand, resized by two different rules.

    Args:
        sides: What diverged, shape (batch, channel, *space).
        sources: What was at hand, by name, the likeliest last.
    """
    shape = sides.reference.shape
    for name, source in reversed(sources):
        is_like = FIRST_AXIS < source.ndim == len(shape) <= MOST_AXES and source.size
        if not is_like or source.shape[:FIRST_AXIS] != shape[:FIRST_AXIS] or source.shape == shape:
            continue
        right = _first(sides, sides.reference, source)
        wrong = None if right is None else _first(sides, sides.candidate, source)
        if right is not None and wrong is not None and right != wrong:
            return Cause(
                name=CauseName.FUNCTION,
                text=f"the reference is {name} resized by {right}, the candidate by {wrong}",
                numbers={"reference": right, "candidate": wrong, "source": name},
            )
    return None


def _first(sides: Contrast, side: Array, source: Array) -> str | None:
    ways = sides.budget.tries(_RULES.items(), WORK * (source.size + sides.size))
    shape = sides.reference.shape
    made = ((name, _apply(rule, source, shape)) for name, rule in ways)
    return next((name for name, array in made if sides.is_side(array, side)), None)


def _apply(rule: Callable[[int, int], Array], source: Array, shape: tuple[int, ...]) -> Array:
    """Resize axis by axis."""
    result = source
    for axis in range(FIRST_AXIS, source.ndim):
        weights = rule(shape[axis], source.shape[axis])
        result = np.moveaxis(np.tensordot(weights, result, axes=(1, axis)), 0, axis)
    return result


def _half_pixels(new: int, old: int) -> Array:
    return (np.arange(new) + 0.5) * old / new - 0.5


def _corners(new: int, old: int) -> Array:
    return np.arange(new) * ((old - 1) / (new - 1) if new > 1 else 0.0)


def _left_edges(new: int, old: int) -> Array:
    return np.arange(new) * old / new


def _nearest(placed: Callable[[int, int], Array], new: int, old: int) -> Array:
    """Take one element for each; shape (new, old)."""
    index = np.clip(np.floor(placed(new, old)).astype(int), 0, old - 1)
    result: Array = np.eye(old)[index]
    return result


def _linear(placed: Callable[[int, int], Array], new: int, old: int) -> Array:
    """Weigh the two neighbours; shape (new, old)."""
    where = np.clip(placed(new, old), 0, old - 1)
    result: Array = np.maximum(1 - np.abs(where[:, None] - np.arange(old)), 0)
    return result


def _cubic(placed: Callable[[int, int], Array], new: int, old: int) -> Array:
    """Weigh the four neighbours, the ends repeated; shape (new, old)."""
    where = placed(new, old)
    result = np.zeros((new, old))
    for step in range(-1, 3):
        near = np.floor(where) + step
        far = np.abs(where - near)
        inner = ((CUBIC + 2) * far - (CUBIC + 3)) * far * far + 1
        outer = ((CUBIC * far - 5 * CUBIC) * far + 8 * CUBIC) * far - 4 * CUBIC
        index = np.clip(near.astype(int), 0, old - 1)
        np.add.at(result, (np.arange(new), index), np.where(far <= 1, inner, outer))
    return result


def _area(new: int, old: int) -> Array:
    """Take the mean of what each covers; shape (new, old)."""
    starts = np.arange(new) * old // new
    ends = -(-(np.arange(new) + 1) * old // new)
    places = np.arange(old)
    inside = (places >= starts[:, None]) & (places < ends[:, None])
    result: Array = inside / inside.sum(axis=1, keepdims=True)
    return result


_RULES: Mapping[str, Callable[[int, int], Array]] = {
    "nearest": partial(_nearest, _left_edges),
    "linear": partial(_linear, _half_pixels),
    "linear with align_corners": partial(_linear, _corners),
    "linear from left edges (align_mode=1)": partial(_linear, _left_edges),
    "cubic": partial(_cubic, _half_pixels),
    "cubic with align_corners": partial(_cubic, _corners),
    "area": _area,
    "nearest-exact": partial(_nearest, lambda new, old: _half_pixels(new, old) + 0.5),
}
"""Rules of torch's and paddle's interpolate by name."""
