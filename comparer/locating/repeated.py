"""Excuse the gradient of a value that one side makes once and the other again and again.

An author projects the memory of an attention before the loop over the steps, another in each step.
Each of the equal values has a gradient of its own there; their sum is the gradient of the one.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judgedpairs import remarkable, replaced
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Role
from padiff.pairing import Rule

if TYPE_CHECKING:
    from padiff.comparer.judging.blocks import Array
    from padiff.comparer.judging.judge import Judgement
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Side

__all__ = ["excuse_repeated"]

REASON = (
    "gradient of a value that the {side} makes {count} times; those of all calls add up to the "
    "other side's"
)
MOST_ELEMENTS = 1 << 24
"""Larger gradients are not added up."""


class _Repeats:
    """The gradients of one side's outputs, by the module and the value that they are of."""

    def __init__(self, side: Side) -> None:
        """Sort them."""
        self._side = side
        records = side.index.records
        made = {
            (record.call, record.slot): record.value
            for record in records
            if record.role is Role.OUTPUT
        }
        self._of: dict[tuple[int, str, int], list[RecordInfo]] = defaultdict(list)
        self._keys: dict[int, tuple[int, str, int]] = {}
        for record in records:
            value = made.get((record.call, record.slot))
            if record.role is Role.GRAD_OUTPUT and record.value is not None and value is not None:
                self._keys[record.id] = key = record.module, record.slot, value
                self._of[key].append(record)

    def like(self, record: int) -> list[RecordInfo]:
        """Give the gradients of all outputs that are the same value of the same module."""
        key = self._keys.get(record)
        return [] if key is None else self._of[key]

    def total(self, records: list[RecordInfo]) -> Array:
        """Add gradients up."""
        whole = np.zeros(records[0].shape)
        for record in records:
            whole += self._side.array(record)
        return whole


def excuse_repeated(judgement: Judgement, reference: Side, candidate: Side) -> Judgement:
    """Skip diverged gradients of outputs that add up to the other side's.

    Args:
        judgement: All verdicts.
        reference: The side held to be right.
        candidate: The other.
    """
    open_ = [(place, pair) for place, pair in remarkable(judgement.pairs) if _is_open(pair)]
    if not open_:
        return judgement
    sides = _Repeats(reference), _Repeats(candidate)
    skipped: dict[int, JudgedPair] = {}
    for place, pair in open_:
        known, found = judgement.records[place]
        if found is None or len(known) != 1:
            continue
        groups = sides[0].like(known[0]), sides[1].like(found)
        counts = len(groups[0]), len(groups[1])
        if counts[0] == counts[1] or 0 in counts:
            continue
        if _adds_up(pair, sides[0].total(groups[0]), sides[1].total(groups[1])):
            side = "candidate" if counts[1] > counts[0] else "reference"
            reason = REASON.format(side=side, count=max(counts))
            skipped[place] = replace(pair, verdict=Verdict.SKIPPED, fatal=False, reason=reason)
    return replace(judgement, pairs=replaced(judgement.pairs, skipped))


def _is_open(pair: JudgedPair) -> bool:
    """Tell whether it is a gradient of an output whose elements differ."""
    end = pair.reference
    return (
        pair.verdict is Verdict.DIVERGED
        and pair.metrics is not None
        and pair.metrics.nonfinite_mismatched == 0
        and pair.metrics.size <= MOST_ELEMENTS
        and not (pair.is_partial or pair.candidate_layout)
        and end is not None
        and end.address.role is Role.GRAD_OUTPUT
    )


def _adds_up(pair: JudgedPair, known: Array, found: Array) -> bool:
    rule, allowed = Rule.parse(pair.layout), pair.tolerance
    if allowed is None or not rule.fits([known.shape], found.shape):
        return False
    wanted = rule.apply([known], found.shape)
    return bool((np.abs(found - wanted) <= allowed.atol + allowed.rtol * np.abs(wanted)).all())
