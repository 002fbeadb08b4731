"""What the judge finds of a case."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.comparer.auditing import Reason
    from padiff.ops.workers import Crash, Error


class Side(StrEnum):
    """Whose fault a finding is."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"
    BOTH = "both"
    UNKNOWN = "unknown"
    """They differ, and there is no float64 program to say who is right."""


class Kind(StrEnum):
    """What happened."""

    WRONG = "wrong"
    """Elements are off by more than the operator rounds."""
    REJECTS = "rejects"
    """An error where the other side has a result."""
    BOTH_REJECT = "both reject"
    DTYPE = "dtype differs"
    SHAPE = "shape differs"
    COUNT = "number of outputs differs"
    CRASH = "crash"
    TIME_LIMIT = "time limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Findings that are the same defect for all that is known."""

    operator: str
    kind: Kind
    side: Side
    place: str
    """``output[0]``, ``gradient[weight]``; of an error ``forward`` or ``backward``."""
    detail: str
    """Of an error its type and text without numbers; of a crash the signal; of a dtype both."""

    @property
    def name(self) -> str:
        """The bucket on one line."""
        told = " ".join(part for part in (str(self.side), str(self.kind), self.place) if part)
        return f"{self.operator}: {told}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A difference between the frameworks on one case."""

    bucket: Bucket
    reference: Error | Crash | None = None
    """What it said instead of a result."""
    candidate: Error | Crash | None = None
    roundings: float | None = None
    """Of wrong elements: the error, in units of what rounding does to each."""
    largest: float | None = None
    """The largest absolute error."""
    reason: Reason | None = None
    """What the error looks like."""
    shapes: tuple[tuple[int, ...], ...] = ()
    """Of the outputs that are compared, as far as either side has any."""

    @property
    def is_candidates(self) -> bool:
        """Whether the candidate is not what it should be."""
        if self.bucket.kind is Kind.BOTH_REJECT:
            return False
        return self.bucket.side is not Side.REFERENCE


def without_numbers(text: str) -> str:
    """Return the first telling line of an error without what changes from case to case.

    >>> without_numbers("shape [2, 3] at 0x7f: expected 4")
    'shape at: expected'
    """
    lines = [one.strip() for one in text.splitlines()]
    # Paddle draws a stack first, and ends with the place in its source.
    told = [one for one in lines if one and not one.startswith(("-", "C++", "Error Message"))]
    first = next((one for one in told if "Error:" in one), told[0] if told else "")
    first = re.sub(r"0x[0-9a-f]+|[-+]?\d[\d.e+-]*", "", first)
    return " ".join(re.sub(r"\[[^\]]*\]|\([^)]*\)", "", first).replace(" :", ":").split())[:120]
