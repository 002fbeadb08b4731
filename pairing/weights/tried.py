"""Which way of laying weights out makes a run agree with the reference's: proof by value.

Names and shapes do not tell which rows of a fused projection are the query. What comes out further
on does: of the ways that are tried, one makes the values behind the projection those of the
reference, and the others do not. A value that no way changes, or that several make right, tells
nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError, DumpError, Phase, Role
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.steps import COUNTING, JOINING, PICKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from padiff.dumpfile import RecordInfo, ValueInfo
    from padiff.pairing.result import Pairing, RecordPair
    from padiff.pairing.side import Side


__all__ = [
    "Meeting",
    "changed",
    "error_between",
    "errors_at",
    "is_apart",
    "limit_of",
    "meetings_of",
    "told_by",
]

_MOST = 64
"""So many values that differ between two runs are looked at, the first ones."""
_NEAR, _NEAR_HALF = 1e-3, 3e-2
"""Relative L2 errors of values that agree; in 16 bits, whose epsilons are 9.8e-4 and 7.8e-3."""
_APART = 20.0
"""How many times further away all other ways must be. Swapping query and key of a model with its
initial weights of 0.02 moves the output by 1e-4 of its size, rounding in float32 by 1e-6."""
_ROUNDING = 1e-7
"""Errors below this are rounding in float32, and as good as none."""
_HALVES = frozenset({"float16", "bfloat16"})
_DIFFERENT = frozenset({*JOINING, *PICKING, *COUNTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """A value of an activation that both runs make."""

    pair: RecordPair
    order: int
    """When the candidate makes it."""
    limit: float
    """Relative L2 error up to which it agrees."""
    is_root: bool
    """Whether it is an output of the whole model."""


def meetings_of(
    reference: Side,
    candidate: Side,
    pairing: Pairing,
    owners: tuple[Collection[int], Collection[int]] = ((), ()),
) -> list[Meeting]:
    """List the values of activations that should be equal, in the candidate's order.

    Args:
        reference: The reference's run.
        candidate: A run of the candidate.
        pairing: What belongs to what.
        owners: Modules of each side whose weights are in question. What these put out is left
            out: it is laid out as their weights are, whatever these should be.
    """
    sides = reference.index, candidate.index
    found = []
    for pair in pairing.records:
        if len(pair.reference) > 1 or any(step.verb in _DIFFERENT for step in pair.rule.steps):
            continue
        records = sides[0].records[pair.reference[0]], sides[1].records[pair.candidate]
        is_activation = records[1].role in {Role.INPUT, Role.OUTPUT}
        is_own = any(
            record.role is Role.OUTPUT and record.module in own
            for record, own in zip(records, owners, strict=True)
        )
        if is_activation and not is_own and records[1].phase is Phase.FORWARD:
            found.append(
                Meeting(
                    pair=pair,
                    order=records[1].order,
                    limit=limit_of((reference, records[0]), (candidate, records[1])),
                    is_root=records[1].role is Role.OUTPUT and records[1].module == 0,
                )
            )
    return sorted(found, key=lambda one: one.order)


def changed(one: Side, other: Side, meetings: Iterable[Meeting]) -> list[Meeting]:
    """Give the first of the meetings at which two runs of the candidate hold different values."""
    found: list[Meeting] = []
    for meeting in meetings:
        records = (side.index.records[meeting.pair.candidate] for side in (one, other))
        digests = {
            _value(side, record).digest for side, record in zip((one, other), records, strict=True)
        }
        if len(digests) > 1:
            found.append(meeting)
        if len(found) == _MOST:
            break
    return found


def errors_at(reference: Side, candidate: Side, meetings: Iterable[Meeting]) -> list[float]:
    """Measure how far a run of the candidate is from the reference: relative L2 errors."""
    sides = reference.index.records, candidate.index.records
    found = []
    for meeting in meetings:
        pair = meeting.pair
        one, two = sides[0][pair.reference[0]], sides[1][pair.candidate]
        found.append(error_between((reference, one), (candidate, two), pair.rule))
    return found


def told_by(meetings: Sequence[Meeting], tried: Sequence[Sequence[float]]) -> int | None:
    """Say which of several runs the values single out, None where none or not always the same.

    Args:
        meetings: Where the runs differ.
        tried: The errors of each run there.
    """
    found: set[int] = set()
    for place, meeting in enumerate(meetings):
        errors = [run[place] for run in tried]
        best = min(range(len(errors)), key=errors.__getitem__)
        others = [error for run, error in enumerate(errors) if run != best]
        if errors[best] <= meeting.limit and others and is_apart(errors[best], others):
            found.add(best)
    return found.pop() if len(found) == 1 else None


def limit_of(*ends: tuple[Side, RecordInfo]) -> float:
    """Give the relative L2 error up to which two values agree, by their dtypes."""
    kinds = {_value(side, record).dtype for side, record in ends}
    return _NEAR_HALF if kinds & _HALVES else _NEAR


def error_between(
    reference: tuple[Side, RecordInfo], candidate: tuple[Side, RecordInfo], rule: Rule = IDENTITY
) -> float:
    """Give ``||candidate - reference|| / ||reference||`` in float64; inf where unknown."""
    try:
        wanted = rule.apply([reference[0].array(reference[1])], candidate[1].shape)
        found = candidate[0].array(candidate[1])
    except (ConfigError, DumpError):
        return math.inf
    one, two = (np.asarray(array, np.float64).reshape(-1) for array in (wanted, found))
    size, error = float(np.linalg.norm(one)), float(np.linalg.norm(two - one))
    if not math.isfinite(error) or size == 0.0:
        return 0.0 if error == 0.0 else math.inf
    return error / size


def is_apart(best: float, others: Iterable[float]) -> bool:
    """Tell whether all other errors are so much larger that the best one is no chance."""
    return all(error > _APART * max(best, _ROUNDING) for error in others)


def _value(side: Side, record: RecordInfo) -> ValueInfo:
    return side.index.values[record.value or 0]
