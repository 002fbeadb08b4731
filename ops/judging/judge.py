"""Judges what both frameworks made of a case."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.ops.cases import Tensor
from padiff.program import UNIT_ROUNDOFF

from .finding import Bucket, Finding, Kind, Side, without_numbers
from .limits import DIFFERENCE, LARGEST_APART, LARGEST_ERROR, SATURATED, UNDERFLOW
from .oracle import Executed, Oracle, arriving_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.comparer.auditing import Measured
    from padiff.ops.cases import Argument, Case
    from padiff.ops.table import Row
    from padiff.ops.workers import Crash, Error, Outcome
    from padiff.program.primitives import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The word on one case."""

    finding: Finding | None
    """None: they agree."""
    worst: float = 0.0
    """The largest error of both sides where they agree, in units of rounding."""
    judged: int = 0
    """Outputs and gradients that the float64 program decided."""
    compared: int = 0
    """Those that were held against each other, since there is none."""


@np.errstate(all="ignore")  # elements may be anything: infinity is an answer
def judge(
    row: Row, case: Case, outcomes: Mapping[str, Outcome], *, reference: str, candidate: str
) -> Judgement:
    """Judge a case.

    Args:
        row: Of its operator.
        case: The case.
        outcomes: What became of it, by framework.
        reference: A framework.
        candidate: The other one.
    """
    found = _judge(row, case, outcomes, reference=reference, candidate=candidate)
    if found.finding is None:
        return found
    held = [_compared(row, name, outcomes[name]) for name in (reference, candidate)]
    shapes = tuple(one.shape for one in held[0] or held[1])
    return replace(found, finding=replace(found.finding, shapes=shapes))


def _judge(
    row: Row, case: Case, outcomes: Mapping[str, Outcome], *, reference: str, candidate: str
) -> Judgement:
    sides = {Side.REFERENCE: outcomes[reference], Side.CANDIDATE: outcomes[candidate]}
    ended = ended_by(case.operator, sides)
    if ended is not None:
        return Judgement(finding=ended)
    names = {Side.REFERENCE: reference, Side.CANDIDATE: candidate}
    outputs = {side: _compared(row, names[side], one) for side, one in sides.items()}
    first = row.first
    call = row.frameworks[first].call(case)
    oracle = Oracle(case, first, call, outcomes[first].outputs)
    unlike = _unlike(case, outputs)
    if unlike is not None:
        if unlike.bucket.kind is not Kind.DTYPE and not oracle.reason:
            other = Side.CANDIDATE if first == reference else Side.REFERENCE
            unlike = replace(unlike, bucket=replace(unlike.bucket, side=other))
        return Judgement(finding=unlike)
    misshapen = _misshapen(case, sides)
    if misshapen is not None:
        return Judgement(finding=misshapen)
    slots = row.frameworks[first].slots or range(len(outcomes[first].outputs))
    gradients = _gradients(case, sides)
    executed = {
        side: _executed(case, dict(zip(slots, outputs[side], strict=True)), one, gradients[side])
        for side, one in sides.items()
    }
    return _judged(row, case, oracle, executed)


def _misshapen(case: Case, sides: Mapping[Side, Outcome]) -> Finding | None:
    """Return that a gradient has another shape than its tensor, if one has."""
    taking = [(name, one) for name, one in case.named_tensors if one.takes_gradient]
    for side, outcome in sides.items():
        for (name, tensor), gradient in zip(taking, outcome.gradients, strict=False):
            if gradient is not None and gradient.shape != tensor.shape:
                return Finding(bucket=_bucket(case, Kind.SHAPE, side, f"gradient[{name}]"))
    return None


def _executed(
    case: Case, held: Mapping[int, Array], outcome: Outcome, gradients: Sequence[Array | None]
) -> Executed:
    """Return what is measured of one side: gradients only where all values are finite.

    A derivative at infinity is a matter of taste.
    """
    arriving = arriving_at(held, case.seed) if any(outcome.graphs) else {}
    if not all(map(is_finite, [*held.values(), *(one.array() for one in case.tensors)])):
        arriving = {}
    return Executed(
        outputs=held,
        arriving={at: one for at, one in arriving.items() if one.dtype.kind in "fV"},
        gradients=gradients,
    )


def is_finite(array: Array) -> bool:
    """Return whether no element is infinite or nan."""
    return array.dtype.kind in "biu" or bool(np.isfinite(array.astype(np.complex128)).all())


def _bucket(case: Case, kind: Kind, side: Side, place: str = "", detail: str = "") -> Bucket:
    return Bucket(operator=case.operator, kind=kind, side=side, place=place, detail=detail)


def ended_by(operator: str, sides: Mapping[Side, Outcome]) -> Finding | None:
    """Return that a side crashed or refused a call of an operator, if one did."""
    told: dict[Side, Error | Crash | None] = {
        side: one.crash or one.error for side, one in sides.items()
    }
    reference, candidate = told[Side.REFERENCE], told[Side.CANDIDATE]
    crashed = {side: one.crash for side, one in sides.items() if one.crash}
    if crashed:
        side = Side.BOTH if len(crashed) > 1 else next(iter(crashed))
        crash = next(iter(crashed.values()))
        kind = Kind.TIME_LIMIT if crash.is_late else Kind.CRASH
        bucket = Bucket(
            operator=operator,
            kind=kind,
            side=side,
            place="",
            detail="" if crash.is_late else crash.name,
        )
        return Finding(bucket=bucket, reference=reference, candidate=candidate)
    failed = {side: one.error for side, one in sides.items() if one.error}
    if not failed:
        return None
    side, error = next(iter(failed.items()))
    place, detail = error.stage, f"{error.kind}: {without_numbers(error.text)}"
    both = len(failed) > 1
    bucket = Bucket(
        operator=operator,
        kind=Kind.BOTH_REJECT if both else Kind.REJECTS,
        side=Side.BOTH if both else side,
        place="" if both else place,
        detail="" if both else detail,
    )
    return Finding(bucket=bucket, reference=reference, candidate=candidate)


def _compared(row: Row, framework: str, outcome: Outcome) -> list[Array]:
    slots = row.frameworks[framework].slots
    return [one for at, one in enumerate(outcome.outputs) if slots is None or at in slots]


def _unlike(case: Case, outputs: Mapping[Side, list[Array]]) -> Finding | None:
    """Return that outputs cannot be held against each other, if so."""
    reference, candidate = outputs[Side.REFERENCE], outputs[Side.CANDIDATE]
    if len(reference) != len(candidate):
        detail = f"{len(reference)} and {len(candidate)}"
        return Finding(bucket=_bucket(case, Kind.COUNT, Side.UNKNOWN, "", detail))
    for place, (one, other) in enumerate(zip(reference, candidate, strict=True)):
        where = f"output[{place}]"
        if one.dtype != other.dtype:
            detail = f"{one.dtype.name} and {other.dtype.name}"
            return Finding(bucket=_bucket(case, Kind.DTYPE, Side.UNKNOWN, where, detail))
        if one.shape != other.shape:
            detail = f"{one.ndim} and {other.ndim} axes" if one.ndim != other.ndim else ""
            return Finding(bucket=_bucket(case, Kind.SHAPE, Side.UNKNOWN, where, detail))
    return None


def _judged(row: Row, case: Case, oracle: Oracle, executed: Mapping[Side, Executed]) -> Judgement:
    measured = _measured(row, oracle, executed)
    if row.formula is not None:
        found = _by_formula(row, case, executed)
        if found is not None:
            return Judgement(finding=found)
    worst, judged, compared = 0.0, 0, 0
    for key, where in _places(case, executed[Side.REFERENCE]).items():
        arrays = [_array(one, key) for one in executed.values()]
        if _is_singular(key, arrays):
            continue
        pair = {side: one[key] for side, one in measured.items() if key in one}
        if len(pair) == len(executed):
            judged += 1
            wrong = {
                side: one
                for side, one in pair.items()
                if not is_right(row.least, key, one, executed[side])
            }
            if wrong and not is_kink(key, len(wrong), arrays):
                return Judgement(finding=_wrong(case, where, wrong))
            errors = [one.error for one in pair.values() if one.error <= LARGEST_ERROR]
            worst = max(worst, *errors, 0.0)
        elif oracle.reason:
            compared += 1
            distance = apart(*arrays)
            if distance > LARGEST_APART:
                bucket = _bucket(case, Kind.WRONG, Side.UNKNOWN, where)
                return Judgement(finding=Finding(bucket=bucket, roundings=distance))
    return Judgement(finding=None, worst=worst, judged=judged, compared=compared)


def _by_formula(row: Row, case: Case, executed: Mapping[Side, Executed]) -> Finding | None:
    """Hold the outputs of both sides against the user's formula; returns who is wrong."""
    assert row.formula is not None
    arguments = {name: _wide(one) for name, one in case.arguments.items()}
    result = row.formula(**arguments)
    goals = list(result) if isinstance(result, tuple | list) else [result]
    for place, slot in enumerate(executed[Side.REFERENCE].outputs):
        errors = {
            side: apart(np.asarray(goals[place]).astype(one.outputs[slot].dtype), one.outputs[slot])
            for side, one in executed.items()
        }
        wrong = [side for side, error in errors.items() if error > LARGEST_APART]
        if wrong:
            side = Side.BOTH if len(wrong) > 1 else wrong[0]
            bucket = _bucket(case, Kind.WRONG, side, f"output[{place}]")
            return Finding(bucket=bucket, roundings=max(errors.values()))
    return None


def _wide(one: Argument) -> Any:  # noqa: ANN401 -- whatever a formula takes
    if isinstance(one, Tensor):
        array = one.array()
        return array.astype(np.float64) if array.dtype.kind in "fV" else array
    return tuple(map(_wide, one)) if isinstance(one, tuple) else one


def _measured(
    row: Row, oracle: Oracle, executed: Mapping[Side, Executed]
) -> dict[Side, Mapping[tuple[str, int], Measured]]:
    """Measure both sides; once where they are equal bit by bit."""
    reference, candidate = executed[Side.REFERENCE], executed[Side.CANDIDATE]
    floors = {
        place: floor_of(row.least, one) + _resolution(oracle, one)
        for place, one in reference.outputs.items()
    }
    found = oracle.measure(reference, floors)
    is_same = reference.digest == candidate.digest
    return {
        Side.REFERENCE: found,
        Side.CANDIDATE: found if is_same else oracle.measure(candidate, floors),
    }


def floor_of(least: float, array: Array) -> float:
    """Return the absolute error of an element that counts as none: underflow, a root nearby.

    Args:
        least: As in ``Row``.
        array: The elements.
    """
    dtype = array.dtype.name
    return UNDERFLOW.get(dtype, 0.0) + LARGEST_ERROR * UNIT_ROUNDOFF.get(dtype, 0.0) * least


def _resolution(oracle: Oracle, array: Array) -> float:
    """Return what the float64 program itself may be off, where that counts: in float64."""
    if array.dtype != np.float64:
        return 0.0
    return oracle.tolerance * float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def is_right(least: float, key: tuple[str, int], measured: Measured, executed: Executed) -> bool:
    """Return whether rounding explains an error.

    Args:
        least: As in ``Row``.
        key: What was measured: ``output`` or ``gradient``, and its place.
        measured: Its error.
        executed: Of the side.
    """
    if measured.error <= LARGEST_ERROR:
        return True
    array = _array(executed, key)
    if key[0] == "output" or array is None:
        return False
    arriving = sum(
        float(np.abs(one.astype(np.float64)).sum()) for one in executed.arriving.values()
    )
    largest = max(
        float(np.abs(one.astype(np.float64)).max(initial=1.0)) for one in executed.outputs.values()
    )
    allowed = SATURATED * UNIT_ROUNDOFF[array.dtype.name] + DIFFERENCE * largest
    return measured.largest <= floor_of(least, array) + allowed * arriving


def _gradients(case: Case, sides: Mapping[Side, Outcome]) -> dict[Side, list[Array | None]]:
    """Return the gradients of each side; none is as good as zeros where the other side has one."""
    taking = [one for one in case.tensors if one.takes_gradient]
    arrived = {side: list(one.gradients) or [None] * len(taking) for side, one in sides.items()}
    found: dict[Side, list[Array | None]] = {side: [] for side in sides}
    for place, tensor in enumerate(taking):
        is_there = any(one[place] is not None for one in arrived.values())
        for side, one in arrived.items():
            gradient = one[place]
            if gradient is None and is_there:
                gradient = np.zeros(tensor.shape, tensor.array().dtype)
            found[side].append(gradient)
    return found


def _places(case: Case, executed: Executed) -> dict[tuple[str, int], str]:
    """Return the name of all that is measured."""
    found = {("output", slot): f"output[{at}]" for at, slot in enumerate(executed.outputs)}
    taking = [name for name, tensor in case.named_tensors if tensor.takes_gradient]
    if executed.arriving:
        found.update({("gradient", at): f"gradient[{name}]" for at, name in enumerate(taking)})
    return found


def _array(executed: Executed, key: tuple[str, int]) -> Array | None:
    what, place = key
    return executed.outputs[place] if what == "output" else executed.gradients[place]


def _is_singular(key: tuple[str, int], arrays: Sequence[Array | None]) -> bool:
    """Return whether a gradient is not finite in the same places on both sides.

    There is no derivative there, as that of a root at 0.
    """
    if key[0] == "output":
        return False
    if any(one is None for one in arrays):
        return True
    finite = [np.isfinite(one.astype(np.float64)) for one in arrays if one is not None]
    return not finite[0].all() and bool((finite[0] == finite[1]).all())


def is_kink(key: tuple[str, int], wrong: int, arrays: Sequence[Array | None]) -> bool:
    """Return whether two frameworks agree on a gradient, and a difference quotient does not.

    There the function has a kink or a jump, as a remainder at a multiple.
    """
    return key[0] == "gradient" and wrong == len(arrays) and apart(*arrays) <= LARGEST_APART


def _wrong(case: Case, where: str, wrong: Mapping[Side, Measured]) -> Finding:
    side = Side.BOTH if len(wrong) > 1 else next(iter(wrong))
    worst = max(wrong.values(), key=lambda one: one.error)
    return Finding(
        bucket=_bucket(case, Kind.WRONG, side, where),
        roundings=worst.error,
        largest=worst.largest,
        reason=worst.reason,
    )


def apart(one: Array | None, other: Array | None) -> float:
    """Return how far two arrays are apart, in units of what rounds the largest element."""
    assert one is not None
    assert other is not None
    if one.dtype.kind in "biu":
        return 0.0 if np.array_equal(one, other) else np.inf
    wide = [each.astype(np.complex128) for each in (one, other)]
    same = (wide[0] == wide[1]) | (np.isnan(wide[0]) & np.isnan(wide[1]))
    finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
    if not (same | finite).all():
        return np.inf
    error = np.abs(np.where(same | ~finite, 0, wide[0] - wide[1]))
    size = np.abs(wide[0][finite]).max(initial=0.0)
    unit = 2 * UNIT_ROUNDOFF[one.dtype.name] * size
    return float(error.max(initial=0.0) / max(unit, 1e-300))
