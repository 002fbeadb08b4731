"""What pairing finds: pairs of modules, calls and records, and what stayed alone and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from .rule import IDENTITY, Rule


class PairedBy(StrEnum):
    """The evidence that made a pair."""

    MAP = "map"
    """The user's map file."""
    NAME = "name"
    """Equal or similar names at the same place."""
    STRUCTURE = "structure"
    """Kind, shapes and place in the aligned trees."""
    FLOW = "flow"
    """Paired producers or consumers of the same value."""
    VALUE = "value"
    """Equal values up to layout."""
    POSITION = "position"
    """Only the order; the weakest."""


class SideName(StrEnum):
    """Which of the two dumps."""

    REFERENCE = "reference"
    CANDIDATE = "candidate"


class Absence(StrEnum):
    """Why a record has no pair."""

    MISSING = "missing"
    """It should have one: counts against coverage; fatal for outputs, losses and weights."""
    COVERED = "covered"
    """Its value is judged at another address."""
    SKIPPED = "skipped"
    """Known to be one-sided, or excluded by the user: does not count."""


IN_ORDER = 0.8
"""Confidence of layers that nothing but the order of execution makes partners."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModulePair:
    """Two modules that do the same job."""

    reference: int
    """Module id in the reference's index."""
    candidate: int
    """Module id in the candidate's index."""
    paired_by: PairedBy
    confidence: float = 1.0
    """In (0, 1]; 1 only where something proves the pair.

    Of a leaf that is the user's map, a name or weights that no other module shares, an input that
    no other of its kind takes, or data flow that leaves no other partner. Else it is 1 / n of n
    that do one job and take the same; of one that stands alone 0.8 where the order of execution
    agrees on both sides, and where not 1 / n of all that do its job, at most 0.5.
    Of a container it is the share of the layers inside that are paired inside, no more than the
    confidence of the surest of them, and never less than 0.05: of a pair made by place alone.
    """
    alternatives: tuple[int, ...] = ()
    """Candidate module ids that a tie-break decided against."""

    @property
    def is_ambiguous(self) -> bool:
        """Return whether another partner is as good and not even the order of execution decides."""
        return bool(self.alternatives) and self.confidence < IN_ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPair:
    """Two executions that do the same job."""

    reference: int
    """Call id in the reference's index."""
    candidate: int
    """Call id in the candidate's index."""
    paired_by: PairedBy
    confidence: float = 1.0
    """In (0, 1]: 1 where the call itself is proven, else that of the two modules.

    0.5 where the modules are no pair: one instance against several.
    """
    alternatives: tuple[int, ...] = ()
    """Candidate call ids that could be the partner instead; some of them, none where certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPair:
    """A record of the candidate and what it must equal: a rule applied to reference records."""

    reference: tuple[int, ...]
    """Record ids in the reference's index: one, or several that ``rule`` joins (fused weights)."""
    candidate: int
    """Record id in the candidate's index."""
    paired_by: PairedBy
    rule: Rule = IDENTITY
    """``rule.apply([reference arrays], candidate shape)`` is what the candidate should hold."""
    candidate_rule: Rule = IDENTITY
    """What is done to the candidate before: the gradient of what only it repeats is summed."""
    note: str = ""
    """What a reader should know: a tie that was broken, a layout that was verified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedRecord:
    """A record without partner, on a named side."""

    side: SideName
    record: int
    """Record id in that side's index."""
    absence: Absence
    reason: str
    """One clause: ``no call of 'encoder.3' on the candidate``."""
    elsewhere: str = ""
    """Where else its elements are judged, of an output of the whole model; empty if nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """The complete pairing of one step and rank; every record of both sides is in it."""

    modules: tuple[ModulePair, ...]
    """Ascending by reference id."""
    calls: tuple[CallPair, ...]
    """Ascending by reference id."""
    records: tuple[RecordPair, ...]
    """In the reference's execution order."""
    unmatched: tuple[UnmatchedRecord, ...]
    """Reference first, then candidate; each ascending by record id. Empty where not asked for."""
    same_structure: bool
    """Whether the two trees and their calls are equal up to names and classes of equal kind."""
    notes: tuple[str, ...] = ()
    """Unused map entries, ambiguities and other remarks about the pairing as a whole."""


class Matching:
    """Pairs of ids, each id in at most one of them."""

    def __init__(self) -> None:
        self.ahead: dict[int, int] = {}
        """Candidate id by reference id."""
        self.back: dict[int, int] = {}
        """Reference id by candidate id."""
        self.by: dict[int, PairedBy] = {}
        """Evidence by reference id."""

    def add(self, reference: int, candidate: int, by: PairedBy) -> bool:
        """Add a pair unless one of the two has a partner already; say whether it was added."""
        if reference in self.ahead or candidate in self.back:
            return False
        self.ahead[reference] = candidate
        self.back[candidate] = reference
        self.by[reference] = by
        return True

    def drop(self, reference: int) -> None:
        """Take a pair out."""
        del self.back[self.ahead.pop(reference)], self.by[reference]

    def has(self, reference: int, candidate: int) -> bool:
        """Return whether the two are partners."""
        return self.ahead.get(reference) == candidate

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Return the pairs, ascending by reference."""
        return iter(sorted(self.ahead.items()))

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.ahead)

    def reversed(self) -> Matching:
        """Return the same pairs with the sides exchanged."""
        found = Matching()
        for reference, candidate in self:
            found.add(candidate, reference, self.by[reference])
        return found
