"""Ask the three questions of one step: same function, same leaves, sound execution."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from padiff.comparer.auditing import Answers, Check, audit
from padiff.comparer.auditing.result import Soundness
from padiff.dumpfile import CompareError, DumpFormatError, Phase, ProgramError
from padiff.program import read_lowered

from .function import compare_functions
from .own_backward import without_meant
from .result import Execution

if TYPE_CHECKING:
    from collections.abc import Container

    from padiff.comparer.auditing.forward import Measured
    from padiff.comparer.auditing.result import Audit, AuditedValue
    from padiff.dumpfile import StepFile
    from padiff.pairing import Pairing
    from padiff.program import Read, RecordedProgram

    from .earlier import Earlier
    from .result import Audited, FunctionComparison


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
    answers: Answers[Measured] = Answers(is_brief=True)
    read = cache(read_lowered)
    audits = without_meant(
        [_audited(file, answers, read) for file in (known, found)],
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


def _audited(file: StepFile, answers: Answers[Measured], read: Read) -> Audit | None:
    try:
        return audit(file, answers, read)
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
