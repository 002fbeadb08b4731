"""What the question "same function?" is answered with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.comparer.auditing.result import Soundness

if TYPE_CHECKING:
    from padiff.comparer.auditing.result import AuditedValue
    from padiff.program import Argument, Site

__all__ = [
    "Answer",
    "ArgumentDifference",
    "Change",
    "CoarserValue",
    "Edit",
    "EditKind",
    "Execution",
    "FunctionComparison",
    "LeafDifference",
    "Place",
    "Unknown",
    "UpdateComparison",
    "UpdateDifference",
    "UsedOperator",
]


class Answer(StrEnum):
    """Whether both programs compute the same function."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


class Unknown(StrEnum):
    """Why there is no answer."""

    NONE = ""
    NO_PROGRAM = "no program was recorded"
    NO_TABLE = "no table lowers the framework's operators"
    NO_RESULT = "no result of the model has a partner"
    BEHIND = "the result rests on recorded values that have no partner"
    FAILED = "a program could not be executed"
    UNSEEN = "weights changed without an operator that was recorded"
    EARLIER = "weights rest on an earlier update that was not proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one program leaves the other's values."""

    operator: str
    """The framework's name; empty where the side has no operator of its own there."""
    module: str
    class_name: str
    site: Site | None
    operators: int
    """How many operators lie between the last values that agree and the first that do not."""


class EditKind(StrEnum):
    """What has to be changed in the candidate."""

    ARGUMENT = "argument"
    """An argument of an operator."""
    CONSTANT = "constant"
    """A number."""
    OPERAND = "operand"
    """An operator reads another value."""
    EXCHANGED = "exchanged"
    """An operator reads the same values in another order."""
    MISSING = "missing"
    """Operators that only the reference has."""
    EXTRA = "extra"
    """Operators that only the candidate has."""
    OTHER = "other"
    """Operators in the place of other operators."""


@dataclass(frozen=True, slots=True)
class Change:
    """An argument, a number or an operand that is not the reference's."""

    name: str
    """Of an argument; empty for others, and where it has none."""
    known: Argument
    """What the reference has: an argument, a number, the name of a value."""
    found: Argument
    """What the candidate has."""


@dataclass(frozen=True, slots=True)
class UsedOperator:
    """An operator with its arguments that are no values and no defaults."""

    name: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change after which the candidate computes what the reference computes.

    If there are several, all of them have to be made.
    """

    kind: EditKind
    reference: Place | None
    candidate: Place | None
    changes: tuple[Change, ...] = ()
    """Of the kinds argument, constant and operand."""
    operators: tuple[tuple[UsedOperator, ...], tuple[UsedOperator, ...]] = ((), ())
    """The operators that are exchanged, of the reference and of the candidate."""
    times: int = 1
    """In how many places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafDifference:
    """A leaf of the candidate that is no copy of the reference's."""

    reference: str
    """Its path there; of several that a rule joins the first."""
    candidate: str
    kind: str
    """``parameter``, ``buffer``, ``input``, or ``state`` of an optimizer; ``gradient`` of a
    parameter that none reached on one side, or that the update of one side took otherwise."""
    elements: int
    """How many are off."""
    of: int
    largest: float | None
    """The largest error over the root mean square of the reference's elements; None of a gradient
    that is not there."""
    place: Place | None = None
    """The operator that cuts a gradient off, on the side that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoarserValue:
    """A value that the candidate computes in a coarser dtype than the reference."""

    place: Place
    """What makes it in the candidate."""
    reference: str
    """Its dtype there."""
    candidate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentDifference:
    """A number of an update that is another one on the other side."""

    operator: str
    """Without module, and the same for one tensor and for a list of them: ``lerp``."""
    reference: float
    candidate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDifference:
    """A weight, or what an optimizer keeps of it, that the updates change in different ways."""

    reference: str
    candidate: str
    error: float
    """The largest error over the root mean square of the reference's elements."""
    places: tuple[Place | None, Place | None]
    """Where the updates part, on each side."""
    arguments: tuple[ArgumentDifference, ...] = ()
    """Where both run the same operators with other numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateComparison:
    """Whether the updates of one step are the same function of weights, gradients and moments."""

    answer: Answer
    unknown: Unknown = Unknown.NONE
    detail: str = ""
    """What an execution failed with, or the first weight that cannot be judged."""
    constructed: int = 0
    executed: int = 0
    largest: float | None = None
    differences: tuple[UpdateDifference, ...] = ()
    proven: frozenset[str] = frozenset()
    """Names of the candidate's weights, buffers and moments that both sides leave alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionComparison:
    """The answer for one step and rank."""

    answer: Answer
    unknown: Unknown = Unknown.NONE
    detail: str = ""
    """What an execution failed with."""
    constructed: int = 0
    """Results, and inputs of operators without a rule, that are the same expression."""
    executed: int = 0
    """Those that were executed and agree at 1e-9 of their size."""
    tolerated: int = 0
    """Those behind recorded values, which agree within the rounding of their dtype."""
    largest: float | None = None
    """The largest error of what was executed, over the root mean square of the reference's."""
    opaque: tuple[int, int] = (0, 0)
    """Operators without a rule, of the reference and of the candidate."""
    reference: Place | None = None
    """Where the functions part first, on each side; None unless they differ."""
    candidate: Place | None = None
    edits: tuple[Edit, ...] = ()
    """A proof of the cause: with these, executed, the candidate's results are the reference's.
    Empty where none was found."""
    leaves: int = 0
    """Parameters, buffers, inputs, constants and recorded outcomes of the candidate's program that
    have a partner."""
    lone: tuple[int, int] = (0, 0)
    """Floating-point leaves without one, of the reference and of the candidate."""
    differences: tuple[LeafDifference, ...] = ()
    """The leaves that are no copies."""
    coarser: CoarserValue | None = None
    """The first value that lost precision."""
    update: UpdateComparison | None = None
    """None where no update was recorded."""
    unjudged: tuple[str, ...] = ()
    """Leaves that differ and rest on an earlier update that was not proven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What executing both programs of a step says: the three questions of one step and rank."""

    function: FunctionComparison
    """Same function, same leaves?"""
    soundness: tuple[Soundness, Soundness]
    """Sound execution, of the reference and of the candidate?"""
    unsound: tuple[AuditedValue | None, AuditedValue | None] = (None, None)
    """The first value of each side that its own program contradicts."""

    @property
    def answer(self) -> Answer:
        """Return whether all three questions are answered with yes, one with no, or neither."""
        function = self.function
        answers = {function.answer}
        if function.update is not None:
            answers.add(function.update.answer)
        if (
            Answer.DIFFERENT in answers
            or function.differences
            or function.coarser is not None
            or Soundness.UNSOUND in self.soundness
        ):
            return Answer.DIFFERENT
        is_known = Soundness.NOT_AUDITED not in self.soundness and not function.unjudged
        return Answer.SAME if is_known and answers == {Answer.SAME} else Answer.UNKNOWN
