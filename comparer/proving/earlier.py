"""What the update of the step before left: weights of this step are its results, and no copies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.comparer.auditing.result import Soundness
from padiff.dumpfile import Phase, Role

from .result import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumpfile import StepReader

    from .result import Execution
    from .side import Side

_LEFT = frozenset({Role.WEIGHT, Role.BUFFER, Role.OPTIMIZER_STATE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What is known of the step before."""

    answers: Mapping[str, Answer] = field(default_factory=dict)
    """Whether both sides leave a weight, buffer or moment alike, by the candidate's name."""
    left: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
    """Digests of what the reference and the candidate left, by name."""

    def answer(self, sides: tuple[Side, Side], known: Sequence[int], found: int) -> Answer | None:
        """Return whether leaves of this step are results of updates that do the same.

        Returns:
            None where one side's leaf is what its update left and the other's is not.
        """
        name = sides[1].program.values[found].name
        goes_on = {
            *(_goes_on(sides[0], one, self.left[0]) for one in known),
            _goes_on(sides[1], found, self.left[1]),
        }
        if len(goes_on) > 1:
            return None
        return self.answers.get(name, Answer.UNKNOWN) if goes_on == {True} else Answer.UNKNOWN


def _goes_on(side: Side, value: int, left: Mapping[str, str]) -> bool:
    """Return whether a leaf holds what the step before left."""
    info = side.recorded.info(value)
    return info is not None and left.get(side.program.values[value].name) == info.digest


def read_earlier(
    files: tuple[StepReader, StepReader] | None, execution: Execution | None
) -> Earlier:
    """Read what the step before left.

    Args:
        files: Its steps of both dumps; None where they were not recorded.
        execution: What was said of it.
    """
    if files is None or execution is None:
        return Earlier()
    update = execution.function.update
    answers: dict[str, Answer] = {}
    if update is not None and Soundness.UNSOUND not in execution.soundness:
        answers.update(dict.fromkeys(update.proven, Answer.SAME))
        answers.update({one.candidate: Answer.DIFFERENT for one in update.differences})
    return Earlier(answers=answers, left=(_left(files[0]), _left(files[1])))


def _left(file: StepReader) -> dict[str, str]:
    index = file.index
    return {
        f"{index.modules[record.module].path}{record.slot}".lstrip("."): index.values[
            record.value
        ].digest
        for record in index.records
        if record.phase is Phase.UPDATE and record.role in _LEFT and record.value is not None
    }
