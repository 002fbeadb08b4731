"""How a record lies over ranks, how that is known, or why nothing can be said of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.dumpfile import Layout


class LayoutEvidence(StrEnum):
    """How it is known how a record lies."""

    MAP = "by the map"
    RECORDED = "recorded"
    CLASS = "by class"
    WEIGHT = "as their weight"
    EQUAL = "equal on all ranks"
    LONE = "on one rank"
    SHAPE = "by shape"
    ROWS = "means over the ranks' rows"
    """A loss of each rank's rows, or the gradient of what all ranks share."""
    ALIKE = "as in other layers"
    BOTH = "unknown, cut alike on both sides"
    MADE = "made of what is whole"
    """What a module without split weights makes of whole inputs; and what took the same value."""
    RESULT = "the model's result"


class Turn(Enum):
    """Which records are looked at together."""

    WEIGHTS = 0
    INPUTS = 1
    """What the model takes."""
    REST = 2


class Unknown(StrEnum):
    """Why it is not known how a record lies."""

    MASKED = "a masked term on each rank: what takes their sum is judged"
    TERMS = (
        "the ranks differ, and nothing tells whether these are terms of a sum or should be equal"
    )
    SHAPE = "the shapes of the parts do not tell how they make one tensor"
    OWN = "each rank has its own"
    CONSUMER = "what one of several calls adds to a gradient: it is judged where the tensor is made"
    ABSENT = "None on some ranks"
    ELEMENTS = "the elements of its parts are not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLayout:
    """How one record lies over the ranks that hold it."""

    layout: Layout
    told: LayoutEvidence
    divisor: int = 1
    """What the whole's elements are divided by: gradients of a mean of several ranks' losses."""
    differing: tuple[str, ...] = ()
    """Dimensions along which replicas are not bit-equal."""
