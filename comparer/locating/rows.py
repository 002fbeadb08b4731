"""Whether rows that lie at other places went nearly right: then their order is right, too."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from padiff.comparer.judging.blocks import Array

__all__ = ["are_nearly", "row_order"]

Order = npt.NDArray[np.intp]

SAME = 1e-3
"""Relative distance up to which two rows are one."""
FOUND = 0.95
"""Share of the rows that must be found again."""
NEARLY = 0.2
"""Relative error of the median row of those that differ, up to which what was made of the rows is
off by something else than their order. Rows that were mixed with wrong ones differ by about their
own size: 0.7 where a quarter of a window of 16 is another."""
MOST_DIFFER = 0.5
"""Share of the rows that must differ: a wrong order may concern few."""


def row_order(known: Array, found: Array) -> Order | None:
    """Find where each row of a tensor lies in another one.

    Args:
        known: Shape (*S, width).
        found: Shape (*T, width), of as many elements.

    Returns:
        Shape (rows,): the known row that each found one is; None if too few are found again.
    """
    if not (known.ndim and found.ndim and known.shape[-1] == found.shape[-1]):
        return None
    if known.size != found.size or not known.size:
        return None
    width = known.shape[-1]
    sides = [np.asarray(one, np.float64).reshape(-1, width) for one in (known, found)]
    along = np.random.default_rng(0).standard_normal(width)
    ranks = [(side @ along).argsort(kind="stable") for side in sides]
    order = np.empty(len(ranks[0]), np.intp)
    order[ranks[1]] = ranks[0]
    sizes = np.linalg.norm(sides[1], axis=1)
    gaps = np.linalg.norm(sides[0][order] - sides[1], axis=1)
    return order if (gaps <= SAME * sizes).mean() >= FOUND else None


def are_nearly(known: Array, found: Array, order: Order) -> bool:
    """Tell whether most rows differ a little once they are put in order.

    Args:
        known: Shape (*S, width), as many rows as ``order`` has.
        found: Shape (*T, width).
        order: The known row that each found one should be.
    """
    rows = len(order)
    if any(one.ndim == 0 or prod(one.shape[:-1]) != rows for one in (known, found)):
        return False
    sides = [np.asarray(one, np.float64).reshape(rows, -1) for one in (known, found)]
    if sides[0].shape != sides[1].shape or not all(np.isfinite(side).all() for side in sides):
        return False
    wanted = sides[0][order]
    gaps = sides[1] - wanted
    differ = np.linalg.norm(gaps, axis=1) > SAME * np.linalg.norm(wanted, axis=1)
    if differ.mean() < MOST_DIFFER:
        return False
    # What all rows have in common (a bias, a mean) says nothing of their order.
    own = np.linalg.norm((wanted - wanted.mean(axis=0))[differ], axis=1)
    errors = np.linalg.norm((gaps - gaps.mean(axis=0))[differ], axis=1)
    return bool(np.median(errors / np.maximum(own, np.finfo(np.float64).tiny)) <= NEARLY)
