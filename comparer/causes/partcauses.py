"""Whether the error is one part of a tensor: a term of its sum, or rows of a table of positions.

The rest of the sum need not be known: what the candidate has more than the reference is the part.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName
from .contrast import NEAR
from .functioncauses import FUNCTIONS, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.comparer.judging.blocks import Array

    from .contrast import Contrast

__all__ = ["exchanged", "halves", "other_rows", "pooled", "unscaled"]

MOST_SOURCES = 4
"""Tensors that may be in the sum, the last ones."""
WORK = 2
"""Work for each element to try one term of a sum."""
MOST_AXES = 4
MOST_FIRST = 4
"""Rows of a table that positions may begin at: 0, or 2 as in BART."""
FAINT = 1e-3
"""A smaller multiple of a tensor is no term that somebody forgot."""


def exchanged(sides: Contrast, sources: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether the candidate is the reference with one term of its sum exchanged or left out.

    Args:
        sides: What diverged.
        sources: What was at hand, by name, the likeliest last.
    """
    rest = sides.candidate - sides.reference
    for name, source in reversed(sources[-MOST_SOURCES:]):
        for array in sides.tries(_laid_as(source, rest.shape), WORK):
            found = _term(sides, name, array, rest) or _function(sides, name, array, rest)
            if found is not None:
                return found
    return None


def _laid_as(source: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """Give a tensor in the layouts that have a shape: channels last, space in one axis."""
    if source.size != np.prod(shape) or source.ndim > MOST_AXES or not source.any():
        return
    if source.ndim == len(shape) + 1 and len(shape) > 1:
        source = source.reshape(*source.shape[:2], -1)
    if source.shape == shape:
        yield source
    elif source.ndim == len(shape):
        for order in permutations(range(len(shape))):
            if tuple(source.shape[axis] for axis in order) == shape:
                yield source.transpose(order)


def _term(sides: Contrast, name: str, array: Array, rest: Array) -> Cause | None:
    number = float((rest * array).sum() / (array * array).sum())
    if abs(number) < FAINT or not sides.fits(sides.reference + number * array):
        return None
    number = rounded(number, sides.allowed)
    size = "" if abs(number) == 1 else f"{abs(number):.4g} * "
    return Cause(
        name=CauseName.COMBINATION,
        text=f"the candidate is the reference {'-' if number < 0 else '+'} {size}{name}",
        numbers={"source": name, "times": number},
    )


def _function(sides: Contrast, name: str, array: Array, rest: Array) -> Cause | None:
    some, wanted = sides.some(array), sides.some(rest)
    made = {word: apply(some) for word, apply in FUNCTIONS.items()}
    far = {
        (right, wrong): float(np.linalg.norm(two - one - wanted))
        for right, one in made.items()
        for wrong, two in made.items()
        if right != wrong
    }
    right, wrong = min(far, key=far.__getitem__)
    if far[right, wrong] > sides.limit * NEAR or not sides.budget.grants(sides.size):
        return None
    explained = sides.reference + FUNCTIONS[wrong](array) - FUNCTIONS[right](array)
    if not sides.fits(explained):
        return None
    return Cause(
        name=CauseName.FUNCTION,
        text=f"the reference has {right} of {name} in a sum, the candidate {wrong}",
        numbers={"reference": right, "candidate": wrong, "source": name},
    )


def unscaled(
    sides: Contrast,
    sources: Sequence[tuple[str, Array]],
    vectors: Sequence[tuple[str, Array]],
) -> Cause | None:
    """See whether a term of a sum is multiplied by a vector on one side only: a layer's scale.

    Args:
        sides: What diverged.
        sources: What was at hand, by name, the likeliest last.
        vectors: What the module keeps that has one number for each feature, by name.
    """
    rest = sides.candidate - sides.reference
    for name, source in reversed(sources[-MOST_SOURCES:]):
        for array in _laid_as(source, rest.shape):
            for vector, scale in vectors:
                for axis in {1, rest.ndim - 1}:
                    if rest.ndim < 2 or rest.shape[axis] != scale.size:  # noqa: PLR2004
                        continue
                    if not _may_be_scaled(sides, array, scale, axis):
                        continue
                    if not sides.budget.grants(WORK * sides.size):
                        return None
                    spread = scale.reshape([-1 if one == axis else 1 for one in range(rest.ndim)])
                    more = array - spread * array
                    for sign, ends in (
                        (1, ("reference", "candidate")),
                        (-1, ("candidate", "reference")),
                    ):
                        if sides.fits(sides.reference + sign * more):
                            return Cause(
                                name=CauseName.FEATURE_FACTOR,
                                text=f"the {ends[0]} has {vector} * {name} in a sum, the {ends[1]} "
                                f"{name} alone",
                                numbers={"weight": vector, "source": name},
                            )
    return None


def _may_be_scaled(sides: Contrast, array: Array, scale: Array, axis: int) -> bool:
    """Tell from some elements whether a tensor may be scaled along an axis on one side only."""
    some, reference = sides.some(array), sides.some(sides.reference)
    if not sides.budget.grants(some.size):
        return False
    behind = int(np.prod(array.shape[axis + 1 :]))
    factors = scale.ravel()[np.arange(0, sides.size, sides.step) // behind % scale.size]
    more = some - factors * some
    return any(sides.may_be(reference + sign * more, sides.candidate) for sign in (1, -1))


def halves(sides: Contrast, sources: Sequence[tuple[str, Array]]) -> list[tuple[str, Array]]:
    """Give both halves of the last tensor that is twice as large: a gate and what it is for.

    Args:
        sides: What diverged.
        sources: What was at hand, by name, the likeliest last.
    """
    shape = sides.reference.shape
    for name, source in reversed(sources[-MOST_SOURCES:]):
        axes = [axis for axis in range(len(shape)) if source.ndim == len(shape) and
                source.shape == (*shape[:axis], 2 * shape[axis], *shape[axis + 1:])]  # fmt: skip
        if axes:
            parts = np.split(source, 2, axis=axes[0])
            words = (f"the first half of {name}", f"the second half of {name}")
            return list(zip(words, parts, strict=True))
    return []


def pooled(sides: Contrast, sources: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether the sides pool one tensor along the same axes in two different ways.

    Args:
        sides: What diverged.
        sources: What was at hand, by name, the likeliest last.
    """
    for name, source in reversed(sources[-MOST_SOURCES:]):
        for before in ("", "relu of "):
            array = FUNCTIONS["relu"](source) if before else source
            right = _first_pool(sides, sides.reference, array)
            wrong = None if right is None else _first_pool(sides, sides.candidate, array)
            if wrong is not None and wrong != right:
                of = f"{before}{name}"
                return Cause(
                    name=CauseName.FUNCTION,
                    text=f"the reference is {right} of {of}, the candidate {wrong}",
                    numbers={"reference": right, "candidate": wrong, "source": of},
                )
    return None


def _first_pool(sides: Contrast, side: Array, array: Array) -> str | None:
    """Name the first way to pool a tensor that gives one of the sides."""
    ways = sides.budget.tries(_pools(array, sides.reference.shape), array.size)
    return next((word for word, made in ways if sides.is_side(made, side)), None)


def _pools(array: Array, shape: tuple[int, ...]) -> Iterator[tuple[str, Array]]:
    """Give what is left of a tensor when axes are pooled, in the shape that it should have."""
    if array.ndim > MOST_AXES or array.ndim < 2:  # noqa: PLR2004
        return
    pairs = [(first, first + 1) for first in range(1, array.ndim - 1)]
    for axes in (*((axis,) for axis in range(array.ndim)), *pairs):
        if int(np.prod([array.shape[axis] for axis in axes])) == 1:
            continue
        where = " and ".join(map(str, axes))
        for word, pool in (("max", np.max), ("mean", np.mean), ("sum", np.sum), ("min", np.min)):
            made = np.asarray(pool(array, axis=axes))
            if made.size == np.prod(shape):
                yield f"{word} along axis {where}", made.reshape(shape)
        if len(axes) == 1:
            for word, place in (("first", 0), ("last", -1)):
                made = array.take(place, axis=axes[0])
                if made.size == np.prod(shape):
                    yield f"the {word} along axis {where}", made.reshape(shape)


def other_rows(sides: Contrast, tables: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether the sides add other rows of one table, as of positions that are off by one.

    Args:
        sides: What diverged, shape (..., token, feature).
        tables: Matrices of the reference, by name, shape (position, feature).
    """
    shape = sides.reference.shape
    if len(shape) < 2 or not tables or not sides.budget.grants(2 * sides.size):  # noqa: PLR2004
        return None
    rest = (sides.candidate - sides.reference).reshape(-1, *shape[-2:])
    if not sides.fits(sides.reference + np.broadcast_to(rest[0], shape)):
        return None  # positions are the same for the whole batch
    length = shape[-2]
    for name, table in tables:
        starts = range(min(MOST_FIRST, len(table) - length + 1))
        for right, wrong in sides.tries(permutations(starts, 2), 2):
            more = table[wrong : wrong + length] - table[right : right + length]
            if sides.fits(sides.reference + more):
                text = f"the reference adds the rows of {name!r} from {right} on, the candidate"
                return Cause(
                    name=CauseName.SHIFTED,
                    text=f"{text} from {wrong} on: positions are off by {abs(wrong - right)}",
                    numbers={"weight": name, "reference": right, "candidate": wrong},
                )
    return None
