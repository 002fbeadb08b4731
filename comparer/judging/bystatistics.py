"""Judge by statistics where the elements themselves were not recorded.

If all elements agree, so do certain statistics, within bounds that follow from the tolerance. A
statistic out of bounds therefore proves a divergence; statistics within bounds prove nothing, and
a match by them is reported as that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.comparer.result import Tolerance
    from padiff.dumpfile import Statistics

__all__ = ["disagreement"]

ROUNDING = 1e-6
"""Relative slack for sums that were rounded on two machines."""


def disagreement(
    reference: Statistics, candidate: Statistics, tolerance: Tolerance, *, size: int
) -> str:
    """Say which statistic no two agreeing tensors could have; empty if there is none.

    From ``|c - r| <= atol + rtol * |r|`` for all elements follow, with ``m`` the largest ``|r|``:
    smallest, largest and mean value differ by at most ``atol + rtol * m``, and the norms by at most
    ``sqrt(size) * atol + rtol * ||r||`` (triangle inequality). nan and inf are at the same places.

    Args:
        reference: Of the tensor held to be right; the same elements in any order.
        candidate: Of the other one.
        tolerance: What decides whether elements agree.
        size: Number of elements.

    >>> from padiff.comparer import Tolerance
    >>> from padiff.dumpfile import Statistics
    >>> known = Statistics(minimum=-1.0, maximum=1.0, mean=0.0, l2=2.0)
    >>> found = Statistics(minimum=-1.0, maximum=1.5, mean=0.0, l2=2.0)
    >>> disagreement(known, found, Tolerance(atol=0.1, rtol=0.0), size=9)
    'maximum 1 on the reference, 1.5 on the candidate'
    """
    for name in ("nan", "posinf", "neginf"):
        if getattr(reference, name) != getattr(candidate, name):
            return _words(name, getattr(reference, name), getattr(candidate, name))
    largest = max(abs(reference.minimum or 0.0), abs(reference.maximum or 0.0))
    each = tolerance.atol + tolerance.rtol * largest + ROUNDING * largest
    norm = reference.l2 or 0.0
    whole = math.sqrt(size) * tolerance.atol + (tolerance.rtol + ROUNDING) * norm
    for name, allowed in (("minimum", each), ("maximum", each), ("mean", each), ("l2", whole)):
        one, other = getattr(reference, name), getattr(candidate, name)
        if (one is None) is not (other is None):
            return _words(name, one, other)
        if one is not None and other is not None and not abs(other - one) <= allowed:
            return _words(name, one, other)
    return ""


def _words(name: str, reference: float | None, candidate: float | None) -> str:
    shown = ["none" if value is None else f"{value:.6g}" for value in (reference, candidate)]
    return f"{name} {shown[0]} on the reference, {shown[1]} on the candidate"
