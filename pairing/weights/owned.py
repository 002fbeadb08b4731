"""Pair weights, buffers and all that follows them, by the weight plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile.bulk import build_all
from padiff.pairing.calls.followers import follow, followers_of, one_sided
from padiff.pairing.result import Absence, RecordPair, SideName, UnmatchedRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing.view import View

    from .weight_plan import WeightPair, WeightPlan

__all__ = ["Owned", "pair_owned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """The pairs of records that belong to modules, and what stayed alone."""

    pairs: tuple[RecordPair, ...]
    alone: tuple[UnmatchedRecord, ...]
    notes: tuple[str, ...]


def pair_owned(reference: View, candidate: View, plan: WeightPlan) -> Owned:
    """Pair all records that belong to modules, by the plan of their weights.

    What belongs to a weight (its gradient, what is left of it after the update, what the optimizer
    keeps for it) follows it, rule included.
    """
    sides = followers_of(reference), followers_of(candidate)
    pairs: list[RecordPair] = []
    for made in _pairs(plan.pairs):
        pairs.append(made)
        pairs += follow(reference, candidate, sides, made)
    alone: list[UnmatchedRecord] = []
    for one in plan.alone:
        followers = sides[one.side is SideName.CANDIDATE].get(one.record).values()
        absence = Absence.MISSING if one.is_missing else Absence.SKIPPED
        alone.extend(
            UnmatchedRecord(side=one.side, record=record, absence=absence, reason=one.reason)
            for record in (one.record, *followers)
        )
    known = frozenset(record for pair in pairs for record in pair.reference)
    alone += one_sided(reference, sides[0], known)
    alone += one_sided(candidate, sides[1], frozenset(pair.candidate for pair in pairs))
    return Owned(pairs=tuple(pairs), alone=tuple(alone), notes=plan.notes)


def _pairs(found: Sequence[WeightPair]) -> list[RecordPair]:
    """Make the pairs of a plan pairs of records."""
    return build_all(
        RecordPair,
        len(found),
        reference=[one.reference for one in found],
        candidate=[one.candidate for one in found],
        paired_by=[one.paired_by for one in found],
        rule=[one.rule for one in found],
        note=[
            ": ".join(filter(None, ("ambiguous", one.note))) if one.is_ambiguous else one.note
            for one in found
        ],
    )
