"""What the question "same function?" is answered with."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.comparer.auditing.result import Check, Soundness
from padiff.comparer.codec import UNWRITTEN, derived

if TYPE_CHECKING:
    from padiff.comparer.auditing.result import AuditedValue
    from padiff.program import Argument, Site


Audited = tuple[int, Check]
"""Id of a value, and whether its elements or its gradient are meant."""


class Answer(StrEnum):
    """Whether both programs compute the same function."""

    SAME = "same"
    HIDDEN = "hidden"
    """They compute two functions, but these weights and inputs do not show it: rounding does more
    to them than the difference, or it shows with others alone."""
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
    slice: tuple[int, ...] = ()
    """The ids of these operators; of those that read and make what differs where there are none."""


class EditKind(StrEnum):
    """What has to be changed in the candidate."""

    ARGUMENT = "argument"
    """An argument of an operator."""
    CONSTANT = "constant"
    """A number."""
    OPERAND = "operand"
    """An operator reads another value."""
    EXCHANGED = "exchanged"
    """An operator reads the same values in another order, or one line two values, each where the
    other one should be: a change then names both."""
    MISSING = "missing"
    """Operators that only the reference has."""
    EXTRA = "extra"
    """Operators that only the candidate has."""
    OTHER = "other"
    """Operators in the place of other operators."""


RATE = "learning rate"
"""The name of a change of what an optimizer multiplies by, in whatever arguments it stands."""


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
    module: str = ""
    """Path of the module in whose call it ran, empty outside modules."""
    parts: tuple[str, ...] = ()
    """The primitives of it that are meant; empty where the whole operator is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """How far a fault alone moves the model's results; of several the one that moves most."""

    relative_l2: float | None
    """Of the reference's result; None where it was not measured: the execution would be too large,
    results have another shape, or rest on recorded outcomes of what the fault goes into."""
    max_abs: float | None
    """The largest difference of an element."""


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
    influence: Influence | None = None
    """Of these places together; None where no result was asked for: of an update, and where only
    other weights and inputs show the fault."""


class Making(StrEnum):
    """How a leaf is made of the elements that it should hold."""

    PLAIN = "plain"
    """As they lie in the reference, without the rule for the candidate's layout."""
    AXES = "axes"
    """With the axes in another order."""
    REVERSED = "reversed"
    """Backwards along an axis."""
    BLOCKS = "blocks"
    """In blocks along an axis, all of one size, in another order."""
    NESTED = "nested"
    """Along an axis split into three, of which the last two changed places."""
    ORDER = "order"
    """In another order: along an axis, or of single elements."""
    SCALED = "scaled"
    """Each times a number."""
    SHIFTED = "shifted"
    """Each plus a number."""
    CONSTANT = "constant"
    """Not at all: all elements are one number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How a leaf is made of the elements that it should hold."""

    kind: Making
    axis: int | None = None
    """Along which they were moved, None where none is meant."""
    numbers: tuple[float, ...] = ()
    """The order of axes or blocks, the lengths that an axis was split into, or the number."""
    rule: str = ""
    """That was left out, of the kind plain."""


TIED = "tied gradient"
"""The kind of a gradient that goes another way where elements are equal."""
_BEHIND = frozenset({"gradient", "tie", "state", TIED})
"""Kinds of leaf differences that no forward pass depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafDifference:
    """A leaf of the candidate that is no copy of the reference's."""

    reference: str
    """Its path there; of several that a rule joins the first."""
    candidate: str
    kind: str
    """``parameter``, ``buffer``, ``input``, or ``state`` of an optimizer; ``gradient`` of a
    parameter that none reached on one side, or that the update of one side took otherwise;
    ``tied gradient`` of one that goes to others of equal elements;
    ``tie`` of several parameters that are one in the reference; or ``result``: a number, an array
    or text that the model gives, and that is no value of its program."""
    elements: int
    """How many are off."""
    of: int
    largest: float | None
    """The largest error over the root mean square of the reference's elements; None of a gradient
    that is not there, and where the reference keeps digests alone."""
    place: Place | None = None
    """The operator that cuts a gradient off, on the side that has it."""
    is_without_gradients: bool = False
    """Whether it does so because it ran where none are computed, as under ``no_grad``."""
    holds: str = ""
    """The reference's leaf that it is a copy of instead; empty where it is none."""
    made: Made | None = None
    """How it is made of the elements that it should hold; None where that is not known."""
    influence: Influence | None = None
    """None of what no forward pass takes."""

    @property
    def is_behind(self) -> bool:
        """Whether no forward pass depends on it."""
        return self.kind in _BEHIND


@dataclass(frozen=True, slots=True, kw_only=True)
class CoarserValue:
    """A value that the candidate computes in a coarser dtype than the reference."""

    place: Place
    """What makes it in the candidate."""
    reference: str
    """Its dtype there."""
    candidate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A difference of function beside what rounding does to the same elements."""

    difference: float
    """The largest, over the root mean square of the reference's elements; of what an update left,
    over that of how far the update moved it."""
    rounding: float
    """What rounding moves that element by, both sides together, in the same unit. Dtypes coarser
    than float32 count as float32."""
    share: float
    """The largest difference of an element, in units of what rounding moves that element by."""

    @property
    @derived
    def is_hidden(self) -> bool:
        """Whether rounding does more to each element than the difference."""
        return self.share <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateDifference:
    """A weight, or what an optimizer keeps of it, that the updates change in different ways."""

    reference: str
    candidate: str
    error: float
    """The largest error over the root mean square of the reference's elements."""
    effect: Effect | None = None
    """None where rounding could not be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Where two programs part, if no edit was found that proves why."""

    reference: Place | None
    candidate: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsoundValue:
    """A value that its own program contradicts."""

    is_candidate: bool
    """Whose value it is."""
    value: AuditedValue


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
    reference: Place | None = None
    """Where the updates of the first that differs part, on each side."""
    candidate: Place | None = None
    edits: tuple[Edit, ...] = ()
    """A proof of its cause: with these it is left as the reference leaves it."""
    effect: Effect | None = None
    """Of the answers hidden and different: the one that rounding hides least, None where rounding
    could not be measured."""
    proven: frozenset[str] = field(default=frozenset(), metadata=UNWRITTEN)
    """Names of the candidate's weights, buffers and moments that both sides leave alike."""
    gradients: frozenset[str] = field(default=frozenset(), metadata=UNWRITTEN)
    """Names of the candidate's weights whose recorded gradient is on either side what the update
    left, as clipping does, and not what arrived."""
    is_of_rule: bool = field(default=False, metadata=UNWRITTEN)
    """Whether the proof begins with something else than what changed these gradients."""


Fault = Edit | Parting | LeafDifference | CoarserValue | UnsoundValue | UpdateDifference
"""Something that execution found to be wrong."""


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
    is_coincidence: bool = False
    """Whether what was executed agrees, and differs with other weights and inputs."""
    are_losses_other: bool = field(default=False, metadata=UNWRITTEN)
    """Whether backward passes are known to begin with two functions."""
    tolerated: int = 0
    """Those behind recorded values, which agree within the rounding of their dtype, and rounded
    numbers that are no values of the programs."""
    facts: int = 0
    """Flags, whole numbers and text among the results: equal unless they are a difference."""
    largest: float | None = None
    """The largest error of what was executed, over the root mean square of the reference's."""
    effect: Effect | None = None
    """Of the answers hidden and different: the one that rounding hides least, None where rounding
    could not be measured."""
    opaque: tuple[int, int] = (0, 0)
    """Operators without a rule, of the reference and of the candidate."""
    reference: Place | None = None
    """Where the functions part first, on each side; None unless they differ."""
    candidate: Place | None = None
    edits: tuple[Edit, ...] = ()
    """A proof of the cause: with these, executed, the candidate's results are the reference's.
    Empty where none was found."""
    alike: frozenset[tuple[int, int]] = field(default=frozenset(), metadata=UNWRITTEN)
    """Pairs of records that are the same expression of the same leaves, or were proved to be,
    whatever differs behind them: ids of the reference's and the candidate's. None where a leaf
    is no copy."""
    other: frozenset[tuple[int, int]] = field(default=frozenset(), metadata=UNWRITTEN)
    """Rows of stored values of both sides that are other functions, on the way to the results."""
    remade: tuple[frozenset[str], frozenset[str]] = field(
        default=(frozenset(), frozenset()), metadata=UNWRITTEN
    )
    """Names of weights that one side computes of others and the other side holds, and of those."""
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
    is_followed: bool = False
    """Whether gradients of weights that differ are those of both programs, but for rounding."""
    unjudged: tuple[str, ...] = ()
    """Leaves that differ, and of which it is not known whether they may: they rest on an earlier
    update that was not proven, or the reference keeps no elements of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What executing both programs of a step says: the three questions of one step and rank."""

    function: FunctionComparison
    """Same function, same leaves?"""
    soundness: tuple[Soundness, Soundness]
    """Sound execution, of the reference and of the candidate?"""
    unsound: tuple[AuditedValue | None, AuditedValue | None] = (None, None)
    """The first value of each side that its own program contradicts."""
    sound: tuple[frozenset[Audited], frozenset[Audited]] = field(
        default=(frozenset(), frozenset()), metadata=UNWRITTEN
    )
    """What was audited on each side and is what its own program says."""
    is_recomputed: bool = False
    """Whether the reference keeps no elements of what its operators made: it is taken at its
    program's word, and only the candidate is audited."""

    @property
    @derived
    def answer(self) -> Answer:
        """Whether all three questions are answered with yes, one with no, or neither.

        A difference that rounding hides leaves it at yes; ``is_hidden`` says that there is one.
        """
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
        audited = self.soundness[1:] if self.is_recomputed else self.soundness
        is_known = Soundness.NOT_AUDITED not in audited and not function.unjudged
        is_same = answers <= {Answer.SAME, Answer.HIDDEN}
        return Answer.SAME if is_known and is_same else Answer.UNKNOWN

    def is_trusted(self, which: int) -> bool:
        """Return whether a side is taken at its program's word.

        It keeps no elements of what its operators made, or no framework ran it.
        """
        is_run = self.soundness[which] is not Soundness.NOT_RUN
        return not is_run or (self.is_recomputed and not which)

    @property
    def is_forward_same(self) -> bool:
        """Return whether the forward passes are the same, whatever differs in what comes after."""
        function = self.function
        found = [one for one in self.unsound if one is not None]
        audited = self.soundness[1:] if self.is_recomputed else self.soundness
        return (
            function.answer is Answer.SAME
            and function.coarser is None
            and not function.unjudged
            and all(one.is_behind for one in function.differences)
            and Soundness.NOT_AUDITED not in audited
            and all(one.check is Check.GRADIENT for one in found)
        )

    @property
    def is_backward_same(self) -> bool:
        """Return whether the forward and backward passes are, whatever the update does."""
        is_sound = all(one is None for one in self.unsound)
        return self.is_forward_same and is_sound and not self.function.differences

    @property
    @derived
    def is_hidden(self) -> bool:
        """Whether a function or an update differs in what the inputs do not show.

        It differs by less than rounding, or with other weights and inputs alone: a finding.
        """
        update = self.function.update
        effects = (self.function.effect, None if update is None else update.effect)
        is_small = any(one is not None and one.is_hidden for one in effects)
        return is_small or self.function.is_coincidence

    def answer_with(self, *, strict: bool) -> Answer:
        """Return the answer, where ``strict`` takes what rounding hides as a difference, too."""
        return Answer.DIFFERENT if strict and self.is_hidden else self.answer
