"""One case of the corpus, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.comparer import CompareSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.dumpfile import Phase, Role

__all__ = [
    "DIFFERENT",
    "SAME",
    "Case",
    "CauseRank",
    "Expected",
    "Family",
    "Group",
    "OriginRank",
    "Outcome",
    "VerdictRank",
]


class Group(StrEnum):
    """What a case is there for: one line of the table."""

    FAULTS = "planted faults"
    TOGETHER = "several faults at once"
    REWRITES = "correct rewrites"
    REWRITTEN = "rewritten models"
    TRAINING = "training"
    ATTACKS = "directed attacks"
    FLOAT32 = "localisation, float32"
    BFLOAT16 = "localisation, bfloat16"
    PAIRS = "foreign pairs"


class Family(StrEnum):
    """What kind of model a case is about: one more line of the table."""

    CNN = "CNNs"
    ENCODER = "encoders"
    DECODER = "decoders"
    VISION = "vision transformers"
    RECURRENT = "recurrent"


class VerdictRank(StrEnum):
    """How the verdict is to be read."""

    RIGHT = "right"
    FALSE_MATCH = "false match"
    FALSE_ALARM = "false alarm"
    INCONCLUSIVE = "inconclusive"
    CRASHED = "crashed"
    """Refused, or an exception."""


class OriginRank(StrEnum):
    """What the first origin names."""

    EXACT = "exact"
    CONTAINER = "container"
    """A module around the expected one, or one of several that cannot be told apart."""
    WRONG = "wrong"


class CauseRank(StrEnum):
    """What is said of the cause."""

    RIGHT = "right"
    VAGUE = "vague"
    """Something is proved, in other words than those that name the cause."""
    NONE = "none"


SAME = frozenset({"match"})
DIFFERENT = frozenset({"diverged"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What must be said of a case."""

    verdicts: frozenset[str]
    """Those that are right."""
    note: str = ""
    """Regular expression: a match whose notes say this is right, too."""
    origins: tuple[str, ...] = ()
    """Module paths of which each is exact, on either side; empty where none is asked for."""
    place: tuple[int, Phase, Role] | None = None
    """Step, phase and role of the only origin; None where they are not asked for."""
    words: str = ""
    """Regular expression over the evidence that names the cause; empty where none is asked for."""
    each: tuple[Expected, ...] = ()
    """What an origin must say of each of several faults, whichever origin that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Two dumps to be made and compared, and what must be said of them."""

    group: Group
    name: str
    """Unique within the corpus."""
    family: Family | None = None
    chunk: str
    """Cases of one chunk run in one process, one after the other."""
    reference: Callable[[Path], Path]
    """Records the reference into a folder, returns the dump."""
    reference_key: str
    """Cases of one chunk with equal keys share one reference dump."""
    candidate: Callable[[Path, Path], Path]
    """Records the candidate into a folder, given the reference's dump; returns the dump."""
    expected: Expected
    settings: CompareSettings = field(default_factory=CompareSettings)
    golden: Callable[[Path], Path] | None = None
    """Records a more precise run of the reference into a folder, returns the dump."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one case."""

    case: str
    group: str
    family: str = ""
    verdict: VerdictRank
    origin: OriginRank | None = None
    """None where no origin is asked for or the verdict is not right."""
    cause: CauseRank | None = None
    detail: str = ""
    """What was said, for people."""
    cpu_s: float = 0.0
    """Processor time of recording and comparing."""

    @property
    def ranks(self) -> str:
        """Return all ranks as one word, as the baseline keeps them."""
        parts = (self.verdict, self.origin, self.cause)
        return " / ".join(str(part) for part in parts if part is not None)
