"""Buffers that no checkpoint holds stay as the model made them.

A constructor computes them: frequencies of a rotary embedding, an index of relative positions. What
a port computes wrongly would be repaired if the reference's took its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.result import SideName
from padiff.pairing.side import unsaved_records

from .weight_kinds import kinds_of

if TYPE_CHECKING:
    from padiff.pairing.side import Side

    from .weight_plan import WeightPlan

__all__ = ["without_unsaved"]


def without_unsaved(plan: WeightPlan, reference: Side, candidate: Side) -> WeightPlan:
    """Return the plan without buffers that either framework does not save with weights.

    A parameter of the candidate that is made of such a buffer stays: nothing else makes it.

    Args:
        plan: For these two sides.
        reference: Where the values come from.
        candidate: The model that is to hold them.
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
