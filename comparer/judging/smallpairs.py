"""Measure many small pairs in one pass: what one of them costs is then hardly more than its bytes.

The arrays of a batch are the rows of a matrix in float64; every number of a pair is a reduction
over its own row. The results are those of ``measure``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.result import Metrics
from padiff.dumpfile.bulk import build_all

from .blocks import Array, is_floating
from .manyhulls import Hulls
from .tally import ROUNDING

if TYPE_CHECKING:
    from padiff.comparer.result import Tolerance

    from .blocks import Room

__all__ = ["BATCH", "SMALL", "Rows", "is_small", "measure_small"]

Rows = Sequence[Array] | Array
SMALL = 4096
"""Elements of the largest pair for which the work of Python outweighs that of numpy."""
BATCH = 1 << 16
"""Elements of a batch: some float64 arrays of that length stay in a second-level cache."""


def is_small(reference: Array, candidate: Array) -> bool:
    """Tell whether a pair can be measured in a batch: small, not empty, real floating point."""
    return (
        0 < reference.size <= SMALL
        and reference.shape == candidate.shape
        and is_floating(reference.dtype)
        and is_floating(candidate.dtype)
    )


def measure_small(
    references: Rows,
    candidates: Rows,
    tolerances: Sequence[Tolerance],
    *,
    shapes: Sequence[tuple[int, ...]],
    mean: bool,
    room: Room,
) -> list[Metrics | None]:
    """Measure pairs that are small and have equally many elements.

    Args:
        references: One side of each pair, which ``is_small``: arrays, or the rows of a matrix.
        candidates: The other; shapes may differ between pairs, sizes not.
        tolerances: One for each pair.
        shapes: Of each pair.
        mean: Whether ``reference_mean_abs`` is wanted.
        room: Memory for what comes up on the way.

    Returns:
        The metrics of each pair; None for one that holds nan or inf, which ``measure`` counts.
    """
    form = len(references), references[0].size
    matrices = [room.take(name, form, np.float64) for name in ("known", "found", "gap")]
    reference, candidate, distance = matrices
    with np.errstate(all="ignore"):
        _stack(references, reference)
        _stack(candidates, candidate)
        np.subtract(candidate, reference, out=distance)
        bad = ~np.isfinite(_dot(distance, distance))  # an overflow is left to ``measure``, too
        if bad.any():
            for matrix in matrices:
                matrix[bad] = 0.0
        found = _measure(reference, candidate, distance, tolerances, room)
        made = _metrics(found, shapes, mean=mean)
    if not bad.any():
        return list(made)
    return [None if is_bad else one for is_bad, one in zip(bad.tolist(), made, strict=True)]


def _stack(arrays: Rows, rows: Array) -> None:
    """Lay arrays of one size into the rows of a float64 matrix."""
    if isinstance(arrays, np.ndarray):
        np.copyto(rows, arrays, casting="unsafe")
        return
    if len({array.dtype for array in arrays}) == 1:
        flat = np.concatenate([array.reshape(-1) for array in arrays])
        np.copyto(rows.reshape(-1), flat, casting="unsafe")
        return
    for row, array in zip(rows, arrays, strict=True):
        np.copyto(row, array.reshape(-1), casting="unsafe")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The numbers of each pair; one-dimensional arrays."""

    most: Array
    most_at: Array
    relative: Array
    relative_at: Array
    mismatched: Array
    mean_abs: Array
    mean_size: Array
    square: Array
    """Of the difference; then of the reference, of the candidate, and their product."""
    known: Array
    found: Array
    product: Array
    needed_atol: Array
    needed_rtol: Array
    hulls: list[tuple[tuple[float, float], ...]]


def _measure(
    reference: Array, candidate: Array, distance: Array, tolerances: Sequence[Tolerance], room: Room
) -> _Found:
    """Take all numbers; ``distance`` comes with its sign and loses it."""
    form = count, size = reference.shape
    rows = np.arange(count)
    square = _dot(distance, distance)
    np.abs(distance, out=distance)
    magnitude = np.abs(reference, out=room.take("size", form, np.float64))
    relative = np.divide(distance, magnitude, out=room.take("ratio", form, np.float64))
    has_zeros = magnitude.min() == 0
    if has_zeros:
        np.copyto(relative, 0.0, where=distance == 0)
    most_at, relative_at = distance.argmax(axis=1), relative.argmax(axis=1)
    most, most_relative = distance[rows, most_at], relative[rows, relative_at]
    atol = np.array([tolerance.atol for tolerance in tolerances])
    rtol = np.array([tolerance.rtol for tolerance in tolerances])
    line = np.multiply(magnitude, rtol[:, None], out=relative)
    np.add(line, atol[:, None], out=line)
    agree = np.less_equal(distance, line, out=room.take("agree", form, np.bool_))
    agreeing = size if agree.all() else np.count_nonzero(agree, axis=1)
    hulls = Hulls(magnitude, distance, most_at, has_zeros=bool(has_zeros), room=room)
    return _Found(
        most=most,
        most_at=most_at,
        relative=most_relative,
        relative_at=relative_at,
        mismatched=np.full(count, size) - agreeing,
        mean_abs=distance.sum(axis=1) / size,
        mean_size=magnitude.sum(axis=1) / size,
        square=square,
        known=_dot(reference, reference),
        found=_dot(candidate, candidate),
        product=_dot(reference, candidate),
        needed_atol=hulls.largest(partial(_needed_atol, rtol)),
        needed_rtol=hulls.largest(partial(_needed_rtol, atol)),
        hulls=hulls.points(),
    )


def _dot(one: Array, other: Array) -> Array:
    """Give the product of each row with the other's."""
    product: Array = np.matmul(one[:, None, :], other[:, :, None])[:, 0, 0]
    return product


def _needed_atol(rtol: Array, x: Array, d: Array, owner: Array) -> Array:
    allowed = rtol[owner] * x
    return np.where(d > allowed, d - allowed + ROUNDING * d, 0.0)


def _needed_rtol(atol: Array, x: Array, d: Array, owner: Array) -> Array:
    allowed = atol[owner]
    return np.where(d > allowed, (d - allowed + ROUNDING * d) / x, 0.0)


def _metrics(found: _Found, shapes: Sequence[tuple[int, ...]], *, mean: bool) -> list[Metrics]:
    size = np.sqrt(found.known)
    relative = np.where(size == 0, np.where(found.square == 0, 0.0, np.inf), np.sqrt(found.square))
    np.divide(relative, size, out=relative, where=size != 0)
    sizes = size * np.sqrt(found.found)
    cosine = np.where(np.isfinite(sizes) & (sizes != 0), found.product / sizes, np.nan)
    needed_rtol = np.where(np.isinf(found.needed_rtol), np.nan, found.needed_rtol)
    return build_all(
        Metrics,
        len(shapes),
        size=[math.prod(shape) for shape in shapes],
        mismatched=found.mismatched.tolist(),
        max_abs=found.most.tolist(),
        max_abs_index=_indices(found.most_at, shapes),
        max_rel=found.relative.tolist(),
        max_rel_index=_indices(found.relative_at, shapes),
        mean_abs=found.mean_abs.tolist(),
        relative_l2=_known(relative),
        cosine=_known(np.clip(cosine, -1.0, 1.0)),
        needed_atol=found.needed_atol.tolist(),
        needed_rtol=_known(needed_rtol),
        reference_mean_abs=found.mean_size.tolist() if mean else [None] * len(shapes),
        hull=found.hulls,
    )


def _known(numbers: Array) -> list[float | None]:
    """Give None for nan."""
    found: list[float | None] = numbers.tolist()
    if np.isnan(numbers).any():
        return [None if number != number else number for number in found]  # noqa: PLR0124 -- nan
    return found


def _indices(places: Array, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Give the index of a place in C order in each shape."""
    found: list[tuple[int, ...]] = [()] * len(shapes)
    of_shape: dict[tuple[int, ...], list[int]] = {}
    for row, shape in enumerate(shapes):
        of_shape.setdefault(shape, []).append(row)
    for shape, rows in of_shape.items():
        axes = np.unravel_index(places[rows], shape) if shape else ()
        indices = zip(*(axis.tolist() for axis in axes), strict=True) if axes else repeat(())
        for row, index in zip(rows, indices, strict=False):
            found[row] = index
    return found
