"""Judges a traced program: each value and each gradient by float64, from what its side recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.auditing import (
    Answers,
    KnownProgram,
    Measured,
    Readers,
    Reason,
    measure_gradient,
)
from padiff.dumpfile import ProgramError
from padiff.ops.judging import (
    LARGEST_APART,
    LARGEST_ERROR,
    Bucket,
    CaseProgram,
    Executed,
    Finding,
    Kind,
    Side,
    arriving_at,
    floor_of,
    is_kink,
    is_right,
    measure_output,
    tolerance_of,
)
from padiff.program import TABLES, lower

from .trace import Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.ops.table import Row
    from padiff.program import Lowered, Value
    from padiff.program.primitives import Array

    from .trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The word on one run."""

    finding: Finding | None
    value: int | None = None
    """Which value is wrong, or its gradient."""
    judged: int = 0
    """Values and gradients that float64 decided."""
    compared: int = 0
    """Values of operators without a float64 program, held against each other."""


@np.errstate(all="ignore")  # elements may be anything: infinity is an answer
def judge_trace(trace: Trace) -> Judged:
    """Judge all values, then all gradients, and return the first that is wrong."""
    if not trace.operators:
        return Judged(finding=trace.finding)
    reference = trace.elements[trace.pair.reference]
    lowered = lower(trace.program, TABLES["torch"], contents=reference.get)
    sides = {Side.REFERENCE: trace.pair.reference, Side.CANDIDATE: trace.pair.candidate}
    judging = {side: _Side(trace, name, lowered) for side, name in sides.items()}
    called = [one for one in trace.steps if isinstance(one, Step)]
    steps = {one: step for step in called for one in step.outputs}
    counts = {"judged": 0, "compared": 0}
    for value in trace.values:
        if value.producer is None:
            continue
        found = _output(trace, value, steps[value.id], judging, counts)
        if found is not None:
            return Judged(finding=found, value=value.id)
    if trace.finding is not None:
        return Judged(finding=trace.finding)
    for value in trace.values:
        found = _gradient(trace, value, steps, judging, counts)
        if found is not None:
            return Judged(finding=found, value=value.id)
    return Judged(finding=None, **counts)


def _output(
    trace: Trace,
    value: Value,
    step: Step,
    judging: Mapping[Side, _Side],
    counts: dict[str, int],
) -> Finding | None:
    """Judge a value; where float64 says nothing of it, hold both sides' against each other."""
    errors = {side: one.output(value, step.row) for side, one in judging.items()}
    wrong = {side: one for side, one in errors.items() if one and one.error > LARGEST_ERROR}
    place = f"output[{value.slot}]"
    if wrong:
        return _wrong(step.name, place, wrong)
    counts["judged"] += all(errors.values())
    if value.producer in judging[Side.REFERENCE].lowered.opaque:
        counts["compared"] += 1
        if trace.distance(step, value.id) > LARGEST_APART:
            kind, side = Kind.WRONG, Side.UNKNOWN
            bucket = Bucket(operator=step.name, kind=kind, side=side, place=place, detail="")
            return Finding(bucket=bucket)
    return None


def _gradient(
    trace: Trace,
    value: Value,
    steps: Mapping[int, Step],
    judging: Mapping[Side, _Side],
    counts: dict[str, int],
) -> Finding | None:
    """Judge the gradient by a value, if there is one."""
    if _is_singular(trace, value.id):
        return None
    found = {side: one.gradient(value) for side, one in judging.items()}
    wrong = {
        side: one
        for side, one in found.items()
        if one is not None and not judging[side].is_explained(value, one)
    }
    counts["judged"] += all(found.values())
    arrays = [trace.gradients[name].get(value.id) for name in trace.gradients]
    is_known = all(one is not None for one in arrays)
    if not wrong or (is_known and is_kink(("gradient", 0), len(wrong), arrays)):
        return None
    readers = [steps[one.outputs[0]].name for one in trace.operators if value.id in one.taken]
    made_by = value.name or steps[value.id].name
    return _wrong(" + ".join(dict.fromkeys(readers)), f"gradient[{made_by}]", wrong)


def _wrong(operator: str, place: str, wrong: Mapping[Side, Measured]) -> Finding:
    side = Side.BOTH if len(wrong) > 1 else next(iter(wrong))
    worst = max(wrong.values(), key=lambda one: one.error)
    return Finding(
        bucket=Bucket(operator=operator, kind=Kind.WRONG, side=side, place=place, detail=""),
        roundings=worst.error,
        largest=worst.largest,
        reason=worst.reason,
    )


def _is_singular(trace: Trace, value: int) -> bool:
    """Return whether a gradient lacks, or is not finite in the same places on both sides."""
    arrays = [one.get(value) for one in trace.gradients.values()]
    finite = [np.isfinite(one) for one in arrays if one is not None]
    if not finite:
        return True
    is_infinite = not all(one.all() for one in finite)
    return is_infinite and len(finite) > 1 and bool((finite[0] == finite[1]).all())


class _Side:
    """What one framework made of the program."""

    def __init__(self, trace: Trace, name: str, lowered: Lowered) -> None:
        self._elements, self.lowered = trace.elements[name], lowered
        self._gradients = _gradients(trace, name)
        program = CaseProgram(trace.program, self._elements, self._gradients)
        self._known = KnownProgram(program, lowered)
        self._readers = Readers(self._known)
        self._answers: Answers[Measured] = Answers(is_brief=True)

    def output(self, value: Value, row: Row | None) -> Measured | None:
        """Measure a value; None where float64 says nothing of it."""
        terms, array = self.lowered.terms, self._elements[value.id]
        if value.id not in terms or terms[value.id] in self.lowered.leaves:
            return None
        floor = floor_of(0.0 if row is None else row.least, array)
        if array.dtype == np.float64:
            assert value.producer is not None
            name = self._known.program.operators[value.producer].name
            largest = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
            floor += tolerance_of("torch", name) * largest
        try:
            return measure_output(self._known, value, floor)
        except ProgramError:
            return None

    def gradient(self, value: Value) -> Measured | None:
        """Measure the gradient by a value; None where nothing is known of it."""
        reached = self._reached(value)
        if not reached or not all(np.isfinite(self._gradients[one]).all() for one in reached):
            return None
        try:
            found = measure_gradient(self._known, self._readers, value, self._answers)
        except ProgramError:
            return None
        return None if found is None or found.reason is Reason.TIED else found

    def is_explained(self, value: Value, measured: Measured) -> bool:
        """Return whether rounding explains the error of a gradient."""
        reached = self._reached(value) or []
        executed = Executed(
            outputs={one: self._elements[one] for one in reached},
            arriving={one: self._gradients[one] for one in reached},
            gradients=[self._gradients[value.id]],
        )
        return is_right(0.0, ("gradient", 0), measured, executed)

    def _reached(self, value: Value) -> list[int] | None:
        is_known = value.id in self._gradients and value.id in self.lowered.terms
        return self._readers.of(value.id) if is_known else None


def _gradients(trace: Trace, side: str) -> dict[int, Array]:
    """Return all gradients of a side; one that lacks there is as good as zeros.

    Where a value is not finite there is none: a derivative at infinity is a matter of taste.
    """
    elements = trace.elements[side]
    floats = [one for one in elements.values() if one.dtype.kind in "fc"]
    if not trace.ends or not all(np.isfinite(one).all() for one in floats):
        return {}
    ends = {at: elements[one] for at, one in enumerate(trace.ends)}
    arriving = {trace.ends[at]: one for at, one in arriving_at(ends, trace.seed).items()}
    both = set().union(*trace.gradients.values())
    zeros = {one: np.zeros_like(elements[one]) for one in both}
    return {**zeros, **trace.gradients[side], **arriving}
