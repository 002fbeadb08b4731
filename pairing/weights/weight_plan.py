"""What a weight plan says: pairs of parameters with rules, what is alone, what is unsure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.pairing.rule import IDENTITY, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.pairing.result import PairedBy, SideName

__all__ = ["FIRM", "SURE", "Alternative", "WeightAlone", "WeightPair", "WeightPlan"]

SURE = 0.5
"""A pair of less confidence is ambiguous."""
_DISPUTED = 0.3
FIRM = 0.9
"""A pair of less confidence was told by words, order or sizes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another way to fill a candidate parameter, which the plan decided against."""

    reference: tuple[int, ...]
    """Record ids of the reference."""
    rule: Rule = IDENTITY


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPair:
    """A parameter or buffer of the candidate, and the reference ones that it must equal."""

    reference: tuple[int, ...]
    """Record ids of roles ``weight`` or ``buffer``: one, or several that the rule joins."""
    candidate: int
    """Record id in the candidate's index."""
    rule: Rule = IDENTITY
    paired_by: PairedBy
    confidence: float = 1.0
    """In (0, 1]; below ``SURE`` the pair is ambiguous."""
    alternatives: tuple[Alternative, ...] = ()
    """What else it could be, best first."""
    note: str = ""

    @property
    def is_ambiguous(self) -> bool:
        """Tell whether the evidence does not single this pair out."""
        return self.confidence < SURE


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightAlone:
    """A parameter or buffer without partner."""

    side: SideName
    record: int
    is_missing: bool
    """Whether it should have a partner; False for what is known to be one-sided."""
    reason: str
    """One clause: ``counter that only torch keeps``."""
    closest: tuple[int, ...] = ()
    """Records of the other side that come nearest in shape and name, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlan:
    """Every parameter and buffer of both sides, once each on the candidate's side."""

    pairs: tuple[WeightPair, ...]
    """Ascending by candidate record."""
    alone: tuple[WeightAlone, ...]
    """Reference first, then candidate; each ascending by record."""
    notes: tuple[str, ...] = ()
    """Remarks about the plan as a whole: tied on one side only, unused entries of the map."""

    @property
    def ambiguous(self) -> tuple[WeightPair, ...]:
        """Give the pairs that should not be trusted without a look."""
        return tuple(pair for pair in self.pairs if pair.is_ambiguous)

    @property
    def is_firm(self) -> bool:
        """Tell whether each pair rests on more than words, order or sizes."""
        return not self.missing and all(pair.confidence >= FIRM for pair in self.pairs)

    @property
    def missing(self) -> tuple[WeightAlone, ...]:
        """Give what has no partner but should have one."""
        return tuple(alone for alone in self.alone if alone.is_missing)

    def doubted_by(self, other: WeightPlan, tensors: Mapping[int, int | None]) -> WeightPlan:
        """Give this plan with doubt about the pairs that other evidence makes otherwise.

        Args:
            other: A plan for the same two sides, made without what this one rests on.
            tensors: Number of the tensor that each record of the reference is a name of.
        """
        known = {pair.candidate: pair for pair in other.pairs if not pair.is_ambiguous}
        pairs = (
            pair if (rival := known.get(pair.candidate)) is None else _doubted(pair, rival, tensors)
            for pair in self.pairs
        )
        return replace(self, pairs=tuple(pairs))


def _doubted(pair: WeightPair, other: WeightPair, tensors: Mapping[int, int | None]) -> WeightPair:
    sources = [
        [-record - 1 if (tensor := tensors.get(record)) is None else tensor for record in made]
        for made in (pair.reference, other.reference)
    ]
    is_same = sources[0] == sources[1] and pair.rule == other.rule
    if is_same or pair.is_ambiguous:
        return pair
    rival = Alternative(reference=other.reference, rule=other.rule)
    return replace(
        pair,
        confidence=_DISPUTED,
        alternatives=(rival, *pair.alternatives),
        note="names and the order of the runs say otherwise",
    )
