"""What a comparison looked at: whether the model's result was judged, and what stood beside it.

The result is what the calls give that no other call is around, and the loss. Where the line runs
between a match of what was asked for and no verdict: docs/decisions/0014-scope.md.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Phase, Role

from .judgedpairs import remarkable
from .result import Coverage, Evidence, Looked, Scope, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumpfile import JSON, Index, RecordInfo
    from padiff.pairing import SideName

    from .judging.judge import Judgement
    from .result import JudgedPair, LogicalSide
    from .settings import CompareSettings


class _Result(StrEnum):
    """What became of a record of the model's result."""

    JUDGED = "judged"
    UNJUDGED = "unjudged"
    LEFT_OUT = "left out"
    """By the options that select modules and phases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepScope:
    """What was looked at in one step and rank."""

    calls: int
    """Of the reference."""
    results: Mapping[str, _Result]
    """By role and slot, what became of the reference's results."""
    reasons: tuple[str, ...]
    """Why results were not judged."""
    evidence: frozenset[Evidence]
    """What the verdicts on results rest on, those apart that simply match."""
    judged: Mapping[Role, int]
    """How many tensors got a verdict, by role, those after an update not counted again."""
    records: int
    """How many records got a verdict."""
    logical: tuple[LogicalSide, ...] = ()
    """The sides of which ranks were taken together."""


def scope_of_step(judgement: Judgement, reference: Index) -> StepScope:
    """Find out what was looked at in a step."""
    results = {one.id: one for one in reference.records if _is_result(one, reference)}
    told = dict(remarkable(judgement.pairs))
    unjudged = {at for at, pair in told.items() if pair.verdict not in JUDGED and not pair.covered}
    fates = dict.fromkeys(results, _Result.LEFT_OUT)
    judged: dict[Role, set[int]] = defaultdict(set)
    pairs: list[JudgedPair] = []
    for place, (known, found) in enumerate(judgement.records):
        if results.keys() & known:
            fate = _Result.UNJUDGED if place in unjudged else _Result.JUDGED
            fates |= dict.fromkeys(results.keys() & known, fate)
            pairs += [told[place]] if place in told else []
        if known and found is not None and place not in unjudged:
            record = reference.records[known[0]]
            judged[record.role].update(() if record.phase is Phase.UPDATE else known)
    return StepScope(
        calls=len(reference.calls),
        results={f"{one.role}{one.slot}": fates[number] for number, one in results.items()},
        reasons=tuple(dict.fromkeys(pair.reason for pair in pairs if pair.verdict not in JUDGED)),
        evidence=frozenset(pair.rests_on for pair in pairs if pair.verdict in JUDGED),
        judged={role: len(records) for role, records in judged.items()},
        records=len({both for at, both in enumerate(judgement.records) if at not in unjudged}),
    )


def _is_result(record: RecordInfo, index: Index) -> bool:
    if record.role in {Role.LOSS, Role.RESULT}:
        return True
    return record.role is Role.OUTPUT and index.is_root(record)


def scope_of_run(
    steps: Sequence[StepScope], settings: CompareSettings, recorded: Mapping[str, JSON]
) -> Scope:
    """Put together what was looked at in all steps."""
    fates = [fate for step in steps for fate in step.results.values()]
    evidence = frozenset[Evidence]().union(*(step.evidence for step in steps))
    looked_at = _looked_at(steps, fates, settings, recorded)
    judged = {
        name for step in steps for name, fate in step.results.items() if fate is _Result.JUDGED
    }
    losses = {name for name in judged if name.startswith(Role.LOSS)}
    return Scope(
        looked_at=looked_at,
        selected=settings.selection(),
        unjudged=tuple(dict.fromkeys(one for step in steps for one in step.reasons)),
        by_statistics=Evidence.STATISTICS in evidence,
        is_sampled=Evidence.SAMPLE in evidence,
        outputs=len(judged) - len(losses),
        losses=len(losses),
        weights=_most(steps, Role.WEIGHT),
        buffers=_most(steps, Role.BUFFER),
        gradients=_most(steps, Role.WEIGHT_GRAD),
        records=sum(step.records for step in steps),
        logical=_most_logical(steps),
    )


def _most_logical(steps: Sequence[StepScope]) -> tuple[LogicalSide, ...]:
    """Return the sides of which ranks were taken together, with the largest counts of all steps."""
    found: dict[SideName, LogicalSide] = {}
    for one in (side for step in steps for side in step.logical):
        known = found.get(one.side, one)
        found[one.side] = replace(
            known,
            layouts=_larger(known.layouts, one.layouts),
            unknown=_larger(known.unknown, one.unknown),
        )
    return tuple(found.values())


def _larger(known: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {word: max(known.get(word, 0), other.get(word, 0)) for word in {**known, **other}}


def _most(steps: Sequence[StepScope], role: Role) -> int:
    """Return how many tensors of a role were judged in a step: that with most of them."""
    return max((step.judged.get(role, 0) for step in steps), default=0)


def _looked_at(
    steps: Sequence[StepScope],
    fates: Sequence[_Result],
    settings: CompareSettings,
    recorded: Mapping[str, JSON],
) -> Looked:
    if _Result.JUDGED in fates:
        return Looked.RESULT
    if not any(step.calls for step in steps):
        named = any(role is Role.NAMED for step in steps for role in step.judged)
        return Looked.ARRAYS if named else Looked.WEIGHTS
    narrowed = settings.include or settings.exclude or settings.phases is not None
    if narrowed and _Result.UNJUDGED not in fates:
        return Looked.SELECTED
    if not fates and any(recorded.get(name) for name in ("include", "exclude")):
        return Looked.RECORDED
    return Looked.NOTHING


JUDGED = frozenset({Verdict.MATCH, Verdict.DIVERGED, Verdict.INCOMPARABLE})


def count_coverage(
    judgement: Judgement, reference: Index, candidate: Index
) -> tuple[Coverage, Coverage]:
    """Count the distinct values with a verdict, of the reference and of the candidate.

    A value recorded at several addresses is judged if one of them is. Values that appear only in
    skipped records (known to be one-sided, excluded, allowed to be missing) are left out.
    """
    told = list(remarkable(judgement.pairs))
    unjudged = {place for place, pair in told if pair.verdict not in JUDGED}
    lacking = Verdict.MISSING
    missing = [judgement.records[at] for at, pair in told if pair.verdict is lacking]
    judged = [both for place, both in enumerate(judgement.records) if place not in unjudged]
    return (
        _coverage(
            reference, *([one for known, _ in side for one in known] for side in (judged, missing))
        ),
        _coverage(
            candidate, *([one for _, one in side if one is not None] for side in (judged, missing))
        ),
    )


def _coverage(index: Index, judged: Sequence[int], missing: Sequence[int]) -> Coverage:
    """Count the values of records with and without a verdict."""
    values = np.array([-1 if one.value is None else one.value for one in index.records], np.int64)
    is_judged = np.zeros(len(index.values) + 1, np.bool_)  # the last one of records without value
    is_judged[values[np.array(judged, np.int64)]] = True
    is_any = is_judged.copy()
    is_any[values[np.array(missing, np.int64)]] = True
    return Coverage(
        judged=int(np.count_nonzero(is_judged[:-1])), total=int(np.count_nonzero(is_any[:-1]))
    )
