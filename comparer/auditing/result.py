"""What an audit finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.program import Site


class Check(StrEnum):
    """Which question was asked of a value."""

    FORWARD = "forward"
    """Are its elements what its operators make of recorded elements, within their rounding?"""
    GRADIENT = "gradient"
    """Is its gradient the one that the gradients of what reads it imply?"""


class Soundness(StrEnum):
    """The answer for one value, or for a whole dump."""

    SOUND = "sound"
    UNSOUND = "unsound"
    NOT_AUDITED = "not audited"
    NOT_RUN = "not run"
    """No framework executed the model: its values were computed from its program."""


class Reason(StrEnum):
    """What a wrong outcome looks like, or why there is none."""

    NONE = ""
    NONFINITE = "nan or inf where its program gives a number"
    SCALED = "it is a constant times what its program says"
    OPPOSITE = "it has the opposite sign"
    ZERO = "it is zero: cut off"
    COARSE = "every element is one of bfloat16: a cast that was lost, or one too many"
    LOW_PRECISION = "the error is that of sums in bfloat16 or TF32"
    OTHER = "its program says otherwise"
    OPAQUE = "an operator without a rule"
    NO_ELEMENTS = "no elements were recorded"
    FAILED = "its program could not be executed"
    TIED = "it rests on the order of equal elements, which sorting leaves open"
    DRAWN = "it rests on which zeros a dropout kept, which is not recorded"
    KEPT = "running statistics, which kernels sum in ways of their own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """An operator that reads a value."""

    operator: str
    module: str
    """Path of the module in whose call it ran."""
    site: Site | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedValue:
    """The answer for one value."""

    check: Check
    soundness: Soundness
    value: int
    """Id in the program."""
    operator: str
    """Name of the operator that made it; of a leaf its own name."""
    operators: int
    """How many operators lie between the recorded elements and it."""
    module: str
    """Path of the module in whose call it was made."""
    class_name: str
    site: Site | None
    dtype: str
    shape: tuple[int, ...]
    error: float | None = None
    """Root mean square over the elements of the error, each in units of what rounding does to
    that element; None where nothing was measured."""
    largest: float | None = None
    """The largest absolute error."""
    reason: Reason = Reason.NONE
    factor: float | None = None
    """Of ``Reason.SCALED``: the constant."""
    readers: tuple[Reader, ...] = ()
    """Of a gradient: the operators that read the value; the backward pass of one is at fault."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Audit:
    """The answers for a whole dump."""

    soundness: Soundness
    operators: int
    """How many operators were recorded."""
    opaque: Mapping[str, int]
    """How many of them no rule covers, by name."""
    random: int
    """How many drew random numbers: their outcomes are taken as they are."""
    holes: int
    """Floating-point values that came from nowhere."""
    values: Sequence[AuditedValue]
    """In the order in which they were made: forward values, then gradients."""
    between_ranks: tuple[str, ...] = ()
    """What the ranks of the step show together, at the first of them: a line for each fault."""
    apart: str = ""
    """Why the ranks of the step were not looked at together; empty if they were."""

    def __repr__(self) -> str:
        """Return one line: the answer, and on how much it rests."""
        text = f"{self.soundness}, {self.operators} operators, {len(self.values)} answers"
        return f"<Audit: {text}, {len(self.unsound)} unsound>"

    @property
    def unsound(self) -> tuple[AuditedValue, ...]:
        """Return the values that are not what their program says."""
        return tuple(one for one in self.values if one.soundness is Soundness.UNSOUND)

    def count(self, check: Check, soundness: Soundness) -> int:
        """Count the values with an answer."""
        return sum(one.check is check and one.soundness is soundness for one in self.values)
