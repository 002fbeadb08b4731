"""Weights that need no choice: all that could be meant hold the same, or no checkpoint holds them.

The norms of a model that was just built hold ones and zeros: any way to pair them is right.

Buffers that a constructor computes stay as the model made them: frequencies of a rotary embedding,
an index of relative positions. What a port computes wrongly would be repaired if the reference's
took its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import ConfigError, DumpError, Role
from padiff.pairing.result import SideName
from padiff.pairing.side import unsaved_records

from .weight_plan import SURE
from .weight_text import kinds_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from padiff.pairing.side import Side

    from .weight_plan import WeightPair, WeightPlan

__all__ = ["settled_by_content", "without_unsaved"]


def settled_by_content(plan: WeightPlan, reference: Side, candidate: Side) -> WeightPlan:
    """Return the plan without the doubts in which every way gives the same numbers.

    A choice names some of the others that it is between, not all: so it counts only if the same
    is true of all choices that it shares a weight with.

    Args:
        plan: For these two sides, made with all that names and runs tell.
        reference: Whose values are looked at.
        candidate: What they are for.
    """
    settled = [
        pair
        for group in _connected(plan.ambiguous)
        if all(_is_same_anyway(pair, reference, candidate) for pair in group)
        for pair in group
    ]
    if not settled:
        return plan
    names = ", ".join(kind.name for kind in kinds_of(settled, candidate))
    note = f"weights that could be made of several, which hold the same: {names}"
    sure = (replace(pair, confidence=SURE, alternatives=()) for pair in settled)
    made = plan.with_pairs(sure)
    return replace(made, notes=(*made.notes, note))


def _connected(pairs: Iterable[WeightPair]) -> list[list[WeightPair]]:
    """Group the pairs that could be made of a weight in common."""
    groups: list[tuple[set[int], list[WeightPair]]] = []
    for pair in pairs:
        sources = {
            *pair.reference,
            *(one for other in pair.alternatives for one in other.reference),
        }
        members = [pair]
        apart = []
        for known, held in groups:
            if known.isdisjoint(sources):
                apart.append((known, held))
            else:
                sources |= known
                members = [*held, *members]
        groups = [*apart, (sources, members)]
    return [members for _, members in groups]


def _is_same_anyway(pair: WeightPair, reference: Side, candidate: Side) -> bool:
    """Return whether all ways of a choice give the same numbers."""
    ways = [(pair.reference, pair.rule), *((one.reference, one.rule) for one in pair.alternatives)]
    shape = candidate.index.records[pair.candidate].shape
    first: npt.NDArray[Any] | None = None
    try:
        for sources, rule in ways:
            parts = [reference.array(reference.index.records[one]) for one in sources]
            made = rule.apply(parts, shape)
            if first is None:
                first = made
            elif made.shape != first.shape or not np.array_equal(first, made):
                return False
    except (ConfigError, DumpError):  # a way that does not fit, or whose values are not there
        return False
    return len(ways) > 1


def without_unsaved(plan: WeightPlan, reference: Side, candidate: Side) -> WeightPlan:
    """Return the plan without buffers that either framework does not save with weights.

    A parameter of the candidate that is made of such a buffer stays: nothing else makes it.
    """
    unsaved = unsaved_records(reference), unsaved_records(candidate)
    if not any(unsaved):
        return plan
    records = candidate.index.records
    left = [
        pair for pair in plan.pairs
        if pair.candidate in unsaved[1]
        or (records[pair.candidate].role is Role.BUFFER and unsaved[0].issuperset(pair.reference))
    ]  # fmt: skip
    alone = tuple(
        replace(one, is_missing=False)
        if one.record in unsaved[one.side is SideName.CANDIDATE]
        else one
        for one in plan.alone
    )
    if not left:
        return replace(plan, alone=alone)
    gone = {pair.candidate for pair in left}
    names = ", ".join(kind.name for kind in kinds_of(left, candidate))
    return replace(
        plan,
        alone=alone,
        pairs=tuple(pair for pair in plan.pairs if pair.candidate not in gone),
        notes=(*plan.notes, f"left as the model made them, not saved with weights: {names}"),
    )
