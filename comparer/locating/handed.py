"""Excuse outputs that differ while what is handed on is the same: another border between modules.

An embedding of one author scales what it gives; another author's gives the rows, and the code
around scales them. The value is one and the same, and is judged where it is used.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import remarkable, replaced
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Role

from .between import name_of
from .rearranged import Rearranged

if TYPE_CHECKING:
    from padiff.comparer.judging.judge import Judgement
    from padiff.dumpfile import Index, RecordInfo, StepFile

__all__ = ["excuse_handed"]

REASON = "handed on as on the other side, where it is judged: {where}"
_Uses = dict[int | None, list[tuple[int, int]]]
"""By value: execution order of a use, and its place among the pairs."""
_Place = tuple[int | None, str]
"""A call of the reference, and a slot of its outputs."""


def excuse_handed(judgement: Judgement, known: StepFile, found: StepFile) -> Judgement:
    """Skip diverged outputs, and their gradients, whose value agrees at all calls that take it.

    Args:
        judgement: All verdicts.
        known: The reference.
        found: The candidate.
    """
    reference, candidate = known.index, found.index
    told = tuple(remarkable(judgement.pairs))
    open_ = [(place, pair) for place, pair in told if _is_open(pair, Role.OUTPUT, reference)]
    if not open_:
        return judgement
    taken = _uses(judgement, reference, candidate, {place for place, _ in open_})
    turned = _Turned(judgement, known, found)
    reasons: dict[_Place, str] = {}
    skipped: dict[int, JudgedPair] = {}
    for place, pair in open_:
        records, other = judgement.records[place]
        if other is None or len(records) != 1:
            continue
        own = reference.records[records[0]], candidate.records[other]
        uses = [table.get(record.value, []) for table, record in zip(taken, own, strict=True)]
        if any(order < record.order for used, record in zip(uses, own, strict=True)
               for order, _ in used):  # fmt: skip
            continue  # no value of its own: it was there before
        told_of = [one for used in uses for _, one in used
                   if judgement.pairs[one].verdict is not Verdict.SKIPPED]  # fmt: skip
        told_of = told_of or turned.uses(*own)
        if {judgement.pairs[one].verdict for one in told_of} == {Verdict.MATCH}:
            first = reference.records[judgement.records[told_of[0]][0][0]]
            reason = REASON.format(where=name_of(reference, first))
            reasons[own[0].call, own[0].slot] = reason
            skipped[place] = replace(pair, verdict=Verdict.SKIPPED, fatal=False, reason=reason)
    for place, pair in told if reasons else ():
        if _is_open(pair, Role.GRAD_OUTPUT, reference):
            record = reference.records[judgement.records[place][0][0]]
            reason = reasons.get((record.call, record.slot), "")
            if reason:
                skipped[place] = replace(pair, verdict=Verdict.SKIPPED, fatal=False, reason=reason)
    return replace(judgement, pairs=replaced(judgement.pairs, skipped))


class _Turned:
    """Where the elements of outputs are taken in another layout."""

    def __init__(self, judgement: Judgement, known: StepFile, found: StepFile) -> None:
        self._judgement = judgement
        self._sides = Rearranged(known), Rearranged(found)
        self._places: tuple[dict[int, int], dict[int, int]] | None = None

    def uses(self, one: RecordInfo, two: RecordInfo) -> list[int]:
        """Give the places of the pairs of what takes the elements of one of two outputs."""
        if self._places is None:
            self._places = {}, {}
            for place, (records, other) in enumerate(self._judgement.records):
                if other is not None:
                    self._places[0].update(dict.fromkeys(records, place))
                    self._places[1][other] = place
        return [
            places[use]
            for side, places, record in zip(self._sides, self._places, (one, two), strict=True)
            for use in side.uses(record)
            if use in places
        ]


def _is_open(pair: JudgedPair, role: Role, reference: Index) -> bool:
    """Tell whether it is what a call inside the model gave, and its elements differ."""
    end = pair.reference
    return (
        pair.verdict is Verdict.DIVERGED
        and pair.metrics is not None
        and pair.metrics.nonfinite_mismatched == 0
        and end is not None
        and end.address.role is role
        and end.call is not None
        and reference.calls[end.call].parent is not None
    )


def _uses(
    judgement: Judgement, reference: Index, candidate: Index, left_out: set[int]
) -> tuple[_Uses, _Uses]:
    """Give by value of each side when and where a call takes it, or the model returns it."""
    found: tuple[_Uses, _Uses] = (defaultdict(list), defaultdict(list))
    for place, (known, other) in enumerate(judgement.records):
        sides = ([reference.records[one] for one in known],
                 [] if other is None else [candidate.records[other]])  # fmt: skip
        for side, records in zip(found, sides, strict=True):
            for record in records:
                is_taken = record.role is Role.INPUT
                if (is_taken or record.role is Role.OUTPUT) and place not in left_out:
                    index = reference if side is found[0] else candidate
                    is_root = record.call is not None and index.calls[record.call].parent is None
                    if is_taken is not is_root:
                        side[record.value].append((record.order, place))
    return found
