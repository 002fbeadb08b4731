"""Ask the three questions of one step: same function, same leaves, sound execution.

What a function with a backward pass of its own says of gradients is not what its operators imply,
and may be meant: a rounding that hands gradients on as they come, a layer that turns them round. It
is right where the other side has the same gradient there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.auditing import Answers, Check, Soundness, audit
from padiff.comparer.auditing.limits import LARGEST_GRADIENT_ERROR
from padiff.comparer.auditing.slices import carrying_gradients
from padiff.dumpfile import CompareError, DumpFormatError, Phase, ProgramError
from padiff.program import UNIT_ROUNDOFF, read_lowered

from .function import compare_functions
from .result import Execution

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from padiff.comparer.auditing import Audit
    from padiff.comparer.auditing.forward import Measured
    from padiff.comparer.auditing.result import AuditedValue
    from padiff.dumpfile import StepFile
    from padiff.pairing import Pairing, RecordPair
    from padiff.program import Read, RecordedProgram

    from .earlier import Earlier
    from .result import Audited, FunctionComparison

_ANSWERS: Answers[Measured] = Answers(is_brief=True)
"""They follow from what is recorded alone: a reference that is compared with one candidate after
the other is audited once."""
_KEPT_ANSWERS = 1 << 13
"""From one comparison to the next, of 2 KiB each: those about some thousand operators."""


def ask_all(
    known: StepFile,
    found: StepFile,
    pairing: Pairing,
    earlier: Earlier | None = None,
    *,
    is_recomputed: bool = False,
    last: Phase = Phase.UPDATE,
    differing: Container[int] = (),
) -> Execution:
    """Answer the three questions; what cannot be executed is an answer, too.

    Args:
        known: The reference's step.
        found: The candidate's.
        pairing: Of their records.
        earlier: What the step before left; None in the first step that both dumps have.
        is_recomputed: Whether the reference was recorded without the elements of what its operators
            make, so that it cannot be audited.
        last: The phase up to which the answers are wanted.
        differing: The candidate's records that are not what their partners hold.
    """
    _ANSWERS.forget(but=_KEPT_ANSWERS)
    read = cache(read_lowered)
    audits = without_meant(
        [_audited(file, read) for file in (known, found)],
        (_recorded(known, read), _recorded(found, read)),
        pairing,
    )
    unsound = [_first_unsound(one, last) for one in audits]
    return Execution(
        function=_up_to(
            last,
            compare_functions(known, found, pairing, earlier, read=read, differing=differing),
        ),
        soundness=(
            _soundness(known, audits[0], unsound[0]),
            _soundness(found, audits[1], unsound[1]),
        ),
        unsound=(unsound[0], unsound[1]),
        sound=(_sound(audits[0]), _sound(audits[1])),
        is_recomputed=is_recomputed,
    )


def _up_to(last: Phase, found: FunctionComparison) -> FunctionComparison:
    """Return what was found without what later phases show."""
    differences = tuple(one for one in found.differences if not one.is_behind)
    return replace(
        found,
        differences=differences if last is Phase.FORWARD else found.differences,
        update=found.update if last is Phase.UPDATE else None,
    )


def _audited(file: StepFile, read: Read) -> Audit | None:
    try:
        return audit(file, _ANSWERS, read)
    except (CompareError, ProgramError, DumpFormatError):
        return None


def _recorded(file: StepFile, read: Read) -> RecordedProgram | None:
    try:
        program = read(file)
    except (LookupError, ProgramError, DumpFormatError):
        return None
    return None if program is None else program[0]


def _soundness(file: StepFile, found: Audit | None, unsound: AuditedValue | None) -> Soundness:
    if not file.did_run:
        return Soundness.NOT_RUN
    if found is None:
        return Soundness.NOT_AUDITED
    is_later = found.soundness is Soundness.UNSOUND and unsound is None
    return Soundness.SOUND if is_later else found.soundness


def _first_unsound(found: Audit | None, last: Phase) -> AuditedValue | None:
    values = () if found is None else found.unsound
    is_forward = last is Phase.FORWARD
    asked = (one for one in values if not (is_forward and one.check is Check.GRADIENT))
    return next(asked, None)


def _sound(found: Audit | None) -> frozenset[Audited]:
    values = () if found is None else found.values
    return frozenset((one.value, one.check) for one in values if one.soundness is Soundness.SOUND)


_MUCH_NEARER = 100.0
"""How many times nearer a gradient has to be to the other side's than to what its own program says:
what a fault adds to a large gradient is off by the same from both."""


def without_meant(
    audits: Sequence[Audit | None],
    sides: tuple[RecordedProgram | None, RecordedProgram | None],
    pairing: Pairing,
) -> list[Audit | None]:
    """Return audits of both sides that do not call gradients unsound which the other side has, too.

    Those that are the same but for rounding are sound, a tolerance judges the others.
    """
    known, found = sides
    if known is None or found is None:
        return [*audits]
    return [
        audit and _answered(audit, dict(_meant(audit, which, (known, found), pairing)))
        for which, audit in enumerate(audits)
    ]


def _answered(audit: Audit, meant: Mapping[int, Soundness]) -> Audit:
    """Return an audit with other answers for the gradients of some values."""
    if not meant:
        return audit
    values = [
        replace(one, soundness=meant[one.value])
        if one.check is Check.GRADIENT and one.value in meant
        else one
        for one in audit.values
    ]
    judged = {one.soundness for one in values}
    order = (Soundness.UNSOUND, Soundness.SOUND, Soundness.NOT_AUDITED)
    return replace(audit, values=values, soundness=next(one for one in order if one in judged))


def _meant(
    audit: Audit, which: int, sides: tuple[RecordedProgram, RecordedProgram], pairing: Pairing
) -> Iterator[tuple[int, Soundness]]:
    """Yield the values whose unsound gradients go through a function that says what they are."""
    unsound = [one for one in audit.unsound if one.check is Check.GRADIENT]
    carrying = carrying_gradients(sides[which]) if unsound else set()
    partners = _partners(pairing, which, sides) if carrying else {}
    for one in unsound:
        own = sides[which].gradient(one.value) if carrying else None
        if own is None or not _goes_into(one.value, sides[which], carrying):
            continue
        off = _distance(one.value, which, sides, partners)
        size = float(np.linalg.norm(own))
        if off * _MUCH_NEARER <= min((one.largest or 0.0) / size if size else 1.0, 1.0):
            is_rounded = off <= LARGEST_GRADIENT_ERROR * UNIT_ROUNDOFF[one.dtype]
            yield one.value, Soundness.SOUND if is_rounded else Soundness.NOT_AUDITED


def _distance(
    value: int,
    which: int,
    sides: tuple[RecordedProgram, RecordedProgram],
    partners: Mapping[int | None, list[RecordPair]],
) -> float:
    """Return how far a gradient is from the other side's, relative to its size.

    Where the other side has no such value, or has several in one, the gradients of the leaves that
    it is computed from say so: what goes wrong behind a value goes wrong ahead of it, too.
    """
    side = sides[which]
    pairs = partners.get(side.gradient_row(value), ())
    own = [_relative(pair, sides) for pair in pairs if len(pair.reference) == 1]
    if np.isfinite(own).any():
        return min(own)
    rows = {side.gradient_row(one) for one in _leaves_of(value, side)}
    return max(
        (_relative(pair, sides) for row in rows for pair in partners.get(row, ())),
        default=float("inf"),
    )


def _leaves_of(value: int, side: RecordedProgram) -> set[int]:
    """Return the leaves that a value is computed from."""
    leaves, seen, open_ = set[int](), {value}, [value]
    while open_:
        one = open_.pop()
        maker = side.program.values[one].producer
        if maker is None:
            leaves.add(one)
            continue
        fresh = {*side.program.operators[maker].taken} - seen
        seen.update(fresh)
        open_.extend(fresh)
    return leaves


def _partners(
    pairing: Pairing, which: int, sides: tuple[RecordedProgram, RecordedProgram]
) -> Mapping[int | None, list[RecordPair]]:
    """Return the pairs of records by the gradient of what a side holds there.

    It is stored once where several values have the same: one that was only laid out otherwise.
    """
    found: dict[int | None, list[RecordPair]] = {}
    for pair in pairing.records:
        records = (pair.candidate,) if which else pair.reference
        for value in (sides[which].borders.get(record) for record in records):
            row = None if value is None else sides[which].gradient_row(value)
            if row is not None:
                found.setdefault(row, []).append(pair)
    return found


def _goes_into(value: int, side: RecordedProgram, carrying: set[int]) -> bool:
    """Return whether an operator without a graph takes what is made of a value."""
    made = {value}
    for operator in side.program.operators:
        if made.intersection(operator.taken):
            if operator.id in carrying:
                return True
            made.update(operator.outputs)
    return False


def _relative(pair: RecordPair, sides: tuple[RecordedProgram, RecordedProgram]) -> float:
    """Return how far the gradients of a pair are from each other, relative to their size."""
    ends = [sides[0].borders.get(record) for record in pair.reference]
    own = sides[1].borders.get(pair.candidate)
    parts = [None if end is None else sides[0].gradient(end) for end in ends]
    gradient = None if own is None or pair.candidate_rule.steps else sides[1].gradient(own)
    known = [part.astype(np.float64) for part in parts if part is not None]
    if gradient is None or len(known) < len(parts):
        return float("inf")
    if not pair.rule.fits([part.shape for part in known], gradient.shape):
        return float("inf")
    wide = pair.rule.apply(known, gradient.shape)
    off, size = np.linalg.norm(gradient - wide), np.linalg.norm(wide)
    return 0.0 if off == 0 else float(off / size) if size else float("inf")
