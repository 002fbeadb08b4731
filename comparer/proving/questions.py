"""Ask the three questions of one step: same function, same leaves, sound execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.auditing import Answers, audit
from padiff.comparer.auditing.result import Soundness
from padiff.dumpfile import CompareError, DumpFormatError, ProgramError

from .function import compare_functions
from .result import Execution

if TYPE_CHECKING:
    from padiff.comparer.auditing.forward import Measured
    from padiff.comparer.auditing.result import Audit, AuditedValue
    from padiff.dumpfile import StepFile
    from padiff.pairing import Pairing

    from .earlier import Earlier
    from .result import Audited

__all__ = ["ask_all"]


def ask_all(
    known: StepFile,
    found: StepFile,
    pairing: Pairing,
    earlier: Earlier | None = None,
    *,
    is_recomputed: bool = False,
) -> Execution:
    """Answer the three questions; what cannot be executed is an answer, too.

    Args:
        known: The reference's step.
        found: The candidate's.
        pairing: Of their records.
        earlier: What the step before left; None in the first step that both dumps have.
        is_recomputed: Whether the reference was recorded without the elements of what its operators
            make, so that it cannot be audited.
    """
    answers: Answers[Measured] = Answers(is_brief=True)
    audits = [_audited(file, answers) for file in (known, found)]
    return Execution(
        function=compare_functions(known, found, pairing, earlier),
        soundness=(_soundness(known, audits[0]), _soundness(found, audits[1])),
        unsound=(_first_unsound(audits[0]), _first_unsound(audits[1])),
        sound=(_sound(audits[0]), _sound(audits[1])),
        is_recomputed=is_recomputed,
    )


def _audited(file: StepFile, answers: Answers[Measured]) -> Audit | None:
    try:
        return audit(file, answers)
    except (CompareError, ProgramError, DumpFormatError):
        return None


def _soundness(file: StepFile, found: Audit | None) -> Soundness:
    if not file.did_run:
        return Soundness.NOT_RUN
    return Soundness.NOT_AUDITED if found is None else found.soundness


def _first_unsound(found: Audit | None) -> AuditedValue | None:
    return None if found is None else next(iter(found.unsound), None)


def _sound(found: Audit | None) -> frozenset[Audited]:
    values = () if found is None else found.values
    return frozenset((one.value, one.check) for one in values if one.soundness is Soundness.SOUND)
