"""Ask the three questions of one step: same function, same leaves, sound execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.auditing import audit
from padiff.comparer.auditing.result import Soundness
from padiff.dumpfile import CompareError, DumpFormatError, ProgramError

from .function import compare_functions
from .result import Execution

if TYPE_CHECKING:
    from padiff.comparer.auditing.result import AuditedValue
    from padiff.dumpfile import StepFile
    from padiff.pairing import Pairing

    from .earlier import Earlier

__all__ = ["ask_all"]


def ask_all(
    known: StepFile, found: StepFile, pairing: Pairing, earlier: Earlier | None = None
) -> Execution:
    """Answer the three questions; what cannot be executed is an answer, too.

    Args:
        known: The reference's step.
        found: The candidate's.
        pairing: Of their records.
        earlier: What the step before left; None in the first step that both dumps have.
    """
    audits = [_audited(file) for file in (known, found)]
    return Execution(
        function=compare_functions(known, found, pairing, earlier),
        soundness=(audits[0][0], audits[1][0]),
        unsound=(audits[0][1], audits[1][1]),
    )


def _audited(file: StepFile) -> tuple[Soundness, AuditedValue | None]:
    try:
        result = audit(file)
    except (CompareError, ProgramError, DumpFormatError):
        return Soundness.NOT_AUDITED, None
    first = next((one for one in result.values if one.soundness is Soundness.UNSOUND), None)
    return result.soundness, first
