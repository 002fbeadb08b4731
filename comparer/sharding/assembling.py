"""Make a whole tensor of the parts that ranks hold, by its layout and nothing else.

A mesh is walked rank by rank, so that of the parts one at a time is needed beside the whole.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from padiff.dumpfile import Layout

Array = npt.NDArray[Any]
Region = tuple[slice, ...] | tuple[npt.NDArray[np.int64], ...]

REPLICATE = "R"
PARTIAL_SUM = "P(sum)"
PARTIAL_MEAN = "P(avg)"
_SPLIT = re.compile(r"S\((?P<axis>\d+)(;(?P<runs>\d+))?\)")
_PARTIAL = re.compile(r"P\((?P<how>\w+)\)")


def split_axis(placement: str) -> int | None:
    """Return the axis along which a placement splits, None if it does not.

    >>> split_axis("S(2)"), split_axis("S(0;3)"), split_axis("R")
    (2, 0, None)
    """
    found = _SPLIT.fullmatch(placement)
    return None if found is None else int(found["axis"])


def reduction_of(placement: str) -> str | None:
    """Return how terms are reduced (``sum``, ``avg`` …), None for what is not partial."""
    found = _PARTIAL.fullmatch(placement)
    return None if found is None else found["how"]


def coordinates(layout: Layout) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (rank, its place along each dimension) of a layout's mesh."""
    for place, rank in enumerate(layout.mesh.ranks):
        yield rank, tuple(int(one) for one in np.unravel_index(place, layout.mesh.sizes))


def own_shape(layout: Layout, coordinate: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of one rank's part."""
    return tuple(taken.size for taken in _taken(layout, coordinate))


def own_region(layout: Layout, coordinate: Sequence[int]) -> Region:
    """Return where in the whole one rank's part lies."""
    taken = _taken(layout, coordinate)
    if all(one.size == 0 or one[-1] - one[0] == one.size - 1 for one in taken):
        return tuple(
            slice(int(one[0]), int(one[-1]) + 1) if one.size else slice(0) for one in taken
        )
    return np.ix_(*taken)


def assembled(
    layout: Layout, part: Callable[[int], Array], dtype: np.dtype[Any], *, divisor: int = 1
) -> Array:
    """Make the whole of the parts.

    Sums are taken in float64 and rounded once, to ``dtype``.

    Args:
        layout: Of the whole.
        part: Returns the elements of a rank; of replicas only those of the first are asked for.
        dtype: Of the parts, and of the whole.
        divisor: What the elements are divided by.
    """
    placements = layout.placements
    reductions = {how for how in map(reduction_of, placements) if how is not None}
    is_exact = not reductions and divisor == 1
    wide: npt.DTypeLike = np.complex128 if dtype.kind == "c" else np.float64
    whole = np.zeros(layout.shape, dtype if is_exact else wide)
    for rank, coordinate in coordinates(layout):
        along = dict(zip(placements, coordinate, strict=True))
        if any(
            place and placement == REPLICATE
            for placement, place in zip(placements, coordinate, strict=True)
        ):
            continue
        elements = part(rank)
        if not elements.size:
            continue
        where = own_region(layout, coordinate)
        is_first = not any(place for one, place in along.items() if reduction_of(one) is not None)
        whole[where] = elements if is_first else _reduced(whole[where], elements, min(reductions))
    terms = math.prod(
        size
        for placement, size in zip(placements, layout.mesh.sizes, strict=True)
        if reduction_of(placement) == "avg"
    )
    if terms * divisor > 1:
        whole /= terms * divisor
    return whole if is_exact else whole.astype(dtype)


def _reduced(before: Array, elements: Array, how: str) -> Array:
    if how == "max":
        return np.maximum(before, elements)
    return np.minimum(before, elements) if how == "min" else before + elements


def _taken(layout: Layout, coordinate: Sequence[int]) -> list[npt.NDArray[np.int64]]:
    """Return which indices of each axis one rank has, in its own order."""
    taken = [np.arange(length) for length in layout.shape]
    for placement, size, place in zip(
        layout.placements, layout.mesh.sizes, coordinate, strict=True
    ):
        found = _SPLIT.fullmatch(placement)
        if found is None:
            continue
        axis, runs = int(found["axis"]), int(found["runs"] or 1)
        parts = [_chunk(run, size, place) for run in _chunks(taken[axis], runs)]
        taken[axis] = np.concatenate(parts)
    return taken


def _chunks(indices: npt.NDArray[np.int64], count: int) -> list[npt.NDArray[np.int64]]:
    return [_chunk(indices, count, place) for place in range(count)]


def _chunk(indices: npt.NDArray[np.int64], count: int, place: int) -> npt.NDArray[np.int64]:
    """Return one of several parts; the last ones are shorter or empty where they are uneven."""
    size = -(-indices.size // count)
    return indices[place * size : (place + 1) * size]
