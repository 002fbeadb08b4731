"""Whether tensors hold the elements of others in another order, known from statistics."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Index, RecordInfo

__all__ = ["is_moved", "only_moves"]

_CLOSE = 1e-6
"""Relative difference of two sums of the same elements, added in another order."""
_FEW = 2
"""Elements from which statistics say anything."""


def is_moved(index: Index, source: RecordInfo, target: RecordInfo) -> bool:
    """Tell whether two records hold the same elements: see ``only_moves``.

    Args:
        index: The index of both.
        source: What was there before.
        target: What may be it in another order.
    """
    return only_moves(index, [source], [target])


def only_moves(index: Index, given: Sequence[RecordInfo], back: Sequence[RecordInfo]) -> bool:
    """Tell whether records hold the elements of others: reordered, joined or split.

    Each that came back is one that was given, or all that came back together are all that was
    given together: the same number of elements, extremes, zeros, sum and norm. Constant tensors
    say too little: those count only where they are equal bit by bit.

    Args:
        index: The index of all.
        given: What was there before.
        back: What may be it in another order.
    """
    before = [_contents(index, record) for record in given if record.value is not None]
    after = [_contents(index, record) for record in back if record.value is not None]
    if not before or not after:
        return False
    if all(any(_same(one, other) for one in before) for other in after):
        return True
    return len(before) != len(after) and _same(_joined(before), _joined(after))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """What is known of the elements of a tensor, or of several."""

    dtype: str
    digest: str
    size: int
    lowest: float
    highest: float
    zeros: int
    nonfinite: int
    total: float
    norm: float


def _contents(index: Index, record: RecordInfo) -> _Contents:
    value = index.values[record.value or 0]
    known = value.statistics
    finite = value.size - known.nonfinite
    return _Contents(
        dtype=value.dtype,
        digest=value.digest,
        size=value.size,
        lowest=math.inf if known.minimum is None else known.minimum,
        highest=-math.inf if known.maximum is None else known.maximum,
        zeros=known.zeros,
        nonfinite=known.nonfinite,
        total=(known.mean or 0.0) * finite,
        norm=known.l2 or 0.0,
    )


def _joined(parts: Sequence[_Contents]) -> _Contents:
    return _Contents(
        dtype=parts[0].dtype if len({part.dtype for part in parts}) == 1 else "",
        digest="",
        size=sum(part.size for part in parts),
        lowest=min(part.lowest for part in parts),
        highest=max(part.highest for part in parts),
        zeros=sum(part.zeros for part in parts),
        nonfinite=sum(part.nonfinite for part in parts),
        total=sum(part.total for part in parts),
        norm=math.hypot(*(part.norm for part in parts)),
    )


def _same(one: _Contents, other: _Contents) -> bool:
    if one.digest and one.digest == other.digest:
        return True
    if not one.dtype or one.size < _FEW or one.lowest >= one.highest:
        return False
    exact = [(x.dtype, x.size, x.lowest, x.highest, x.zeros, x.nonfinite) for x in (one, other)]
    if exact[0] != exact[1]:
        return False
    norm = max(one.norm, other.norm)
    size = math.sqrt(one.size) * norm  # bounds the sum (Cauchy-Schwarz)
    return (
        abs(one.norm - other.norm) <= _CLOSE * norm
        and abs(one.total - other.total) <= _CLOSE * size
    )
