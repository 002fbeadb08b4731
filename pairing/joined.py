"""Pair the outputs of fused projections with those of the split ones, as their weights are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, Role

from .result import RecordPair
from .rule import Rule
from .steps import Step, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo

    from .matching import Matching
    from .view import View

__all__ = ["pair_joined"]

_MATRIX = 2
_ROLES = (Role.OUTPUT, Role.GRAD_OUTPUT)


def pair_joined(
    reference: View, candidate: View, calls: Matching, weights: Iterable[RecordPair]
) -> list[RecordPair]:
    """Pair outputs whose modules' weights are joined or cut along the output features.

    Args:
        reference: One side.
        candidate: The other.
        calls: The paired calls; their outputs are left as they are.
        weights: The pairs of weights; the first word of their rule is the rule of the outputs.
    """
    found: list[RecordPair] = []
    for pair in weights:
        record = candidate.records[pair.candidate]
        is_weight = record.role is Role.WEIGHT and record.phase is Phase.FORWARD
        if not is_weight or not pair.rule.steps:
            continue
        first = pair.rule.steps[0]
        if first.verb not in {Verb.CONCAT, Verb.INTERLEAVE, Verb.ROWS, Verb.GROUPS} or first.axis:
            continue
        if len(record.shape) == _MATRIX:
            found += _outputs(reference, candidate, calls, pair)
    uses = Counter(one.candidate for one in found)
    return [one for one in found if uses[one.candidate] == 1]


def _outputs(
    reference: View, candidate: View, calls: Matching, pair: RecordPair
) -> Iterator[RecordPair]:
    modules = [reference.records[record].module for record in pair.reference]
    other = candidate.records[pair.candidate].module
    ran = [reference.executed[module] for module in modules]
    if {len(times) for times in ran} != {len(candidate.executed[other])}:
        return
    for number, call in enumerate(candidate.executed[other]):
        sources = [times[number] for times in ran]
        if call in calls.back or any(source in calls.ahead for source in sources):
            continue
        for role in _ROLES:
            mine = [reference.select(source, role) for source in sources]
            theirs = candidate.select(call, role)
            if len(theirs) == 1 and all(len(records) == 1 for records in mine):
                made = _pair([records[0] for records in mine], theirs[0], pair)
                yield from () if made is None else (made,)


def _pair(mine: Sequence[RecordInfo], theirs: RecordInfo, pair: RecordPair) -> RecordPair | None:
    if theirs.value is None or any(record.value is None for record in mine) or not theirs.shape:
        return None
    rule = Rule((_along(pair.rule.steps[0], len(theirs.shape) - 1),))
    if not rule.fits([record.shape for record in mine], theirs.shape):
        return None
    return RecordPair(
        reference=tuple(record.id for record in mine),
        candidate=theirs.id,
        paired_by=pair.paired_by,
        rule=rule,
        note="as the weights are fused",
    )


def _along(step: Step, axis: int) -> Step:
    """Give the step of the weights' rows for the last axis of the outputs."""
    if step.verb is Verb.CONCAT:
        return Step(Verb.CONCAT, (axis,))
    groups = 1 if step.verb is Verb.ROWS else step.numbers[0]
    if step.verb is Verb.INTERLEAVE:
        return Step(Verb.INTERLEAVE, (groups, axis))
    return Step(Verb.GROUPS, (groups, axis), step.block)
