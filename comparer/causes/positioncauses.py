"""Whether both sides add one table of positions to the same tensor, and another one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName
from .functioncauses import rounded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.judging.blocks import Array

    from .contrast import Contrast

__all__ = ["other_positions"]

MOST_SOURCES = 4
"""Tensors that positions may be added to, the last ones."""
WORK = 4
"""Work for each element of a tensor."""
MOST_MOVED = 4
"""Positions by which a table may be off."""
SEQUENCE = 3
"""Axes: batch, token, feature."""
EXACT = 1e-4
"""Within this the multiples on both sides are the same."""
SAME_UNITS = 64.0
"""Unit roundoffs of the largest element up to which what was added is the same for a batch."""


def other_positions(sides: Contrast, sources: Sequence[tuple[str, Array]]) -> Cause | None:
    """See whether each side is a multiple of one tensor and a table that is the same for a batch.

    Tables that code makes are recorded nowhere: they are what is left.

    Args:
        sides: What diverged, shape (batch, token, feature), of at least two entries.
        sources: What was at hand, by name, the likeliest last.
    """
    shape = sides.reference.shape
    if len(shape) != SEQUENCE or shape[0] < 2 or shape[1] <= MOST_MOVED:  # noqa: PLR2004
        return None
    for name, source in reversed(sources[-MOST_SOURCES:]):
        if source.shape != shape:
            continue
        if not sides.budget.grants(WORK * sides.size):
            return None
        tables = [_table(side, source, sides.unit) for side in (sides.reference, sides.candidate)]
        if tables[0] is None or tables[1] is None or abs(tables[0][0] - tables[1][0]) > EXACT:
            continue
        times = rounded(tables[0][0], EXACT)
        what = name if times == 1 else f"{times:.6g} * {name}"
        return _cause(sides, what, tables[0][1], tables[1][1])
    return None


def _table(side: Array, source: Array, unit: float) -> tuple[float, Array] | None:
    """Give the multiple of a tensor in a sum, and the rest; None if that is not one table."""
    moved, given = side - side[:1], source - source[:1]
    square = float(np.vdot(given, given))
    if not square:
        return None
    times = float(np.vdot(given, moved)) / square
    rest = side - times * source
    noise = SAME_UNITS * unit * max(float(np.abs(side).max()), float(np.abs(source).max()))
    return (times, rest[0]) if times and np.abs(rest - rest[:1]).max() <= noise else None


def _cause(sides: Contrast, what: str, right: Array, wrong: Array) -> Cause | None:
    text = f"both are {what} and something that is the same for each entry of the batch; "
    for by in (*range(1, MOST_MOVED + 1), *range(-MOST_MOVED, 0)):
        kept, source = (
            slice(max(-by, 0), -by if by > 0 else None),
            slice(max(by, 0), by if by < 0 else None),
        )
        part = replace(sides, reference=right[kept], candidate=wrong[kept])
        if part.error and part.fits(right[source]):
            text += "the candidate's is that of the reference "
            text += (
                f"{abs(by)} {'further on' if by > 0 else 'before'}: positions are off by {abs(by)}"
            )
            return Cause(name=CauseName.SHIFTED, text=text, numbers={"by": by})
    size = float(np.linalg.norm(wrong))
    if size <= EXACT * float(np.linalg.norm(right)):
        text += "the candidate adds nothing: no positions"
        return Cause(name=CauseName.COMBINATION, text=text, numbers={"candidate": 0.0})
    return None
