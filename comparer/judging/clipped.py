"""Gradients that one side's script clips before the optimizer sees them, and the other's after.

A script that calls ``clip_grad_norm_`` leaves clipped gradients to be recorded; an optimizer that
clips (Paddle's ``grad_clip``) is recorded with both, what came and what it took. So where only one
side has clipped gradients, and the gradients themselves do not agree, the other side's gradients
are held against the clipped ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judgedpairs import remarkable, replaced
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Content, Phase, Role

from .metrics import measure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.result import Metrics
    from padiff.dumpfile import Index, RecordInfo, StepFile
    from padiff.pairing import Pairing, RecordPair

    from .blocks import Array
    from .judge import Judgement

__all__ = ["excuse_clipped"]

MATCHES = (
    "one side clips before the gradient is recorded: held against what the other took, clipped"
)
TAKEN = "held against the other side's gradient, which was clipped before it was recorded"
NORM = "of gradients before the clip on one side, after it on the other"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A gradient's pair with what it is held against."""

    place: int
    other: int
    """Place of the clipped gradient, which has no counterpart."""
    metrics: Metrics


def excuse_clipped(
    judgement: Judgement, pairing: Pairing, reference: StepFile, candidate: StepFile
) -> Judgement:
    """Hold gradients against clipped ones where that is what agrees, for all weights or none.

    Args:
        judgement: By equal phases.
        pairing: What it is about.
        reference: The reference's step.
        candidate: The candidate's.
    """
    clipped = _clipped(judgement, reference.index, candidate.index)
    if clipped is None:
        return judgement
    places, is_candidate = clipped
    found: list[_Held] = []
    for place, pair in enumerate(pairing.records):
        record = candidate.index.records[pair.candidate]
        if record.role is not Role.WEIGHT_GRAD or record.phase is not Phase.BACKWARD:
            continue
        end = record if is_candidate else reference.index.records[pair.reference[0]]
        other = places.get((end.module, end.slot))
        if other is None:
            continue
        files = reference, candidate
        held = _held(files, pair, judgement, place, other, is_candidate=is_candidate)
        if held is None:
            return judgement
        found.append(held)
    return replace(judgement, pairs=replaced(judgement.pairs, _settled(judgement.pairs, found)))


def _settled(pairs: Sequence[JudgedPair], found: Sequence[_Held]) -> dict[int, JudgedPair]:
    """Give what becomes of gradients that agree, of the clipped ones, and of their norm."""
    settled: dict[int, JudgedPair] = {}
    for one in found:
        settled[one.place] = replace(
            pairs[one.place],
            verdict=Verdict.MATCH,
            metrics=one.metrics,
            fatal=False,
            reason=MATCHES,
        )
        settled[one.other] = replace(
            pairs[one.other], verdict=Verdict.SKIPPED, fatal=False, reason=TAKEN
        )
    if found:
        norms = {place: pair for place, pair in remarkable(pairs) if _is_off_norm(pair)}
        settled |= {place: _without_norm(pair) for place, pair in norms.items()}
    return settled


def _clipped(
    judgement: Judgement, reference: Index, candidate: Index
) -> tuple[dict[tuple[int, str], int], bool] | None:
    """Find the clipped gradients that only one side has, and whether that is the candidate.

    None unless there are some, all on one side, and gradients before the clip diverge.
    """
    found: list[dict[tuple[int, str], int]] = [{}, {}]
    is_bad = False
    for place, pair in remarkable(judgement.pairs):
        known, had = judgement.records[place]
        side, record = (
            (1, candidate.records[had or 0]) if not known else (0, reference.records[known[0]])
        )
        if record.role is not Role.WEIGHT_GRAD:
            continue
        if known and had is not None:
            is_bad |= pair.verdict is Verdict.DIVERGED
        elif record.phase is Phase.UPDATE:
            found[side][record.module, record.slot] = place
    if not is_bad or bool(found[0]) == bool(found[1]):
        return None
    return (found[1], True) if found[1] else (found[0], False)


def _held(
    files: tuple[StepFile, StepFile],
    pair: RecordPair,
    judgement: Judgement,
    place: int,
    other: int,
    *,
    is_candidate: bool,
) -> _Held | None:
    """Hold one side's gradient against the other's clipped one; None if they differ."""
    reference, candidate = files
    known, had = judgement.records[other]
    records = [reference.index.records[one] for one in (known or pair.reference)]
    target = candidate.index.records[pair.candidate if had is None else had]
    tolerance = judgement.pairs[place].tolerance
    if tolerance is None or (not is_candidate and len(pair.reference) > 1):
        return None
    sides = (*((reference, record) for record in records), (candidate, target))
    if not all(_is_whole(file, record) for file, record in sides):
        return None
    arrays: list[Array] = [np.asarray(reference.array(record)) for record in records]
    wanted = pair.rule.apply(arrays, target.shape)
    metrics = measure(wanted, candidate.array(target).astype(wanted.dtype), tolerance)
    return None if metrics.mismatched else _Held(place=place, other=other, metrics=metrics)


def _is_whole(file: StepFile, record: RecordInfo) -> bool:
    value = None if record.value is None else file.index.values[record.value]
    return value is not None and value.content is Content.FULL


def _is_off_norm(pair: JudgedPair) -> bool:
    """Tell whether it is a diverged norm of all gradients."""
    end = pair.reference
    return (
        end is not None
        and pair.verdict is Verdict.DIVERGED
        and end.address.phase is Phase.UPDATE
        and (end.address.role, end.address.slot) == (Role.NAMED, "['gradient_norm']")
    )


def _without_norm(pair: JudgedPair) -> JudgedPair:
    return replace(pair, verdict=Verdict.SKIPPED, metrics=None, fatal=False, reason=NORM)
