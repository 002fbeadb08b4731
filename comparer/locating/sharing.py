"""Excuse gradients that differ because the two sides share a tensor differently, not wrongly.

A recorded gradient is the total gradient of a tensor over all its consumers (decision 0003). Of
a tensor that glue code makes, outside any module, each side may have another one at the same
place: DenseNet's blocks concatenate all earlier features anew for each layer in one library and
grow one tensor in another. Both are right, their totals differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import remarkable, replaced
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Index, Role

from .calltree import is_bad

if TYPE_CHECKING:
    from padiff.comparer.judging.judge import Judgement

__all__ = ["excuse_shared", "is_soft", "relative_error"]

ARRIVING = 0.1
"""Share of a gradient's relative error that must show where the gradient goes next; below it, the
error did not arrive there."""

REASON = (
    "total gradient of a tensor made between modules, which the sides share differently; the "
    "gradients it flows into agree"
)


@dataclass(frozen=True, slots=True)
class _Receiver:
    """A call of the reference with what came of the gradient of its outputs."""

    start: int
    end: int
    call: int
    is_bad: bool
    error: float


def excuse_shared(judgement: Judgement, reference: Index, candidate: Index) -> Judgement:
    """Skip diverged input gradients of tensors that glue code makes, if nothing comes of them.

    Where no gradient of an output, of a weight or of the root's inputs diverged, nothing has: all
    such gradients are excused. Otherwise only those whose error does not arrive at the call that
    returned last before the tensor was used.
    """
    if not any(is_soft(pair) for _, pair in remarkable(judgement.pairs)):
        return judgement
    told = remarkable(judgement.pairs)
    hard = [pair for _, pair in told if is_bad(pair) and _is_hard(pair, reference)]
    made = _made_by_calls(reference), _made_by_calls(candidate)
    receivers = _receivers(judgement, reference) if hard else []
    skipped: dict[int, JudgedPair] = {}
    for place, pair in remarkable(judgement.pairs):
        known, found = judgement.records[place]
        if not is_soft(pair) or found is None or len(known) != 1:
            continue
        values = reference.records[known[0]].value, candidate.records[found].value
        if None in values or (values[0] in made[0] and values[1] in made[1]):
            continue
        if not hard or not _arrives(pair, reference, receivers):
            skipped[place] = replace(pair, verdict=Verdict.SKIPPED, fatal=False, reason=REASON)
    return replace(judgement, pairs=replaced(judgement.pairs, skipped))


def is_soft(pair: JudgedPair) -> bool:
    """Tell whether it is an input gradient whose elements differ; a shape or None is no total."""
    return (
        pair.verdict is Verdict.DIVERGED
        and pair.metrics is not None
        and pair.metrics.nonfinite_mismatched == 0
        and pair.reference is not None
        and pair.reference.address.role is Role.GRAD_INPUT
    )


def _is_hard(pair: JudgedPair, reference: Index) -> bool:
    """Tell whether a pair is the gradient of something that both sides are sure to have."""
    known = pair.reference or pair.candidate
    role = None if known is None else known.address.role
    if role in {Role.GRAD_OUTPUT, Role.WEIGHT_GRAD}:
        return True
    if role is not Role.GRAD_INPUT or pair.reference is None or pair.reference.call is None:
        return False
    return reference.calls[pair.reference.call].parent is None


def _made_by_calls(index: Index) -> set[int | None]:
    """Give the gradients of tensors that calls returned or that the root was given."""
    return {
        record.value
        for record in index.records
        if record.role is Role.GRAD_OUTPUT
        or (
            record.role is Role.GRAD_INPUT
            and record.call is not None
            and index.calls[record.call].parent is None
        )
    }


def _receivers(judgement: Judgement, reference: Index) -> list[_Receiver]:
    """Give what every call received, in the order in which they returned."""
    by_call: dict[int, list[JudgedPair]] = {}
    by_value: dict[int, JudgedPair] = {}
    alone: list[tuple[int, int]] = []
    for pair, (known, _) in zip(judgement.pairs, judgement.records, strict=True):
        side = pair.reference
        if side is None or side.call is None or side.address.role is not Role.GRAD_OUTPUT:
            continue
        value = reference.records[known[0]].value
        if pair.verdict in {Verdict.MATCH, Verdict.DIVERGED}:
            by_call.setdefault(side.call, []).append(pair)
            by_value.setdefault(-1 if value is None else value, pair)
        elif value is not None:
            alone.append((side.call, value))
    for call, value in alone:
        if value in by_value:
            by_call.setdefault(call, []).append(by_value[value])
    found = [
        _Receiver(
            reference.calls[call].start,
            end,
            call,
            any(map(is_bad, pairs)),
            max(map(relative_error, pairs)),
        )
        for call, pairs in by_call.items()
        if (end := reference.calls[call].end) is not None
    ]
    return sorted(found, key=lambda receiver: receiver.end)


def _arrives(pair: JudgedPair, reference: Index, receivers: list[_Receiver]) -> bool:
    """Tell whether the error of a gradient shows at the call that returned before the tensor."""
    call = None if pair.reference is None else pair.reference.call
    if call is None:
        return True
    start = reference.calls[call].start
    before = [receiver for receiver in receivers if receiver.end < start]
    if not before:
        return True
    last = before[-1]
    return last.is_bad and last.error >= ARRIVING * relative_error(pair)


def relative_error(pair: JudgedPair) -> float:
    """Give how far a pair is off, relative to its size; inf where it is absent or nan."""
    if pair.equal_digest:
        return 0.0
    if pair.metrics is None or pair.metrics.relative_l2 is None:
        return math.inf if is_bad(pair) else 0.0
    return math.inf if pair.metrics.nonfinite_mismatched else pair.metrics.relative_l2
