"""Gradients that one side does not have: where None agrees with zeros, and where it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Index, RecordInfo, Role
from padiff.pairing.rule import Rule
from padiff.pairing.steps import PICKING, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing import Side

__all__ = ["PARTLY_ABSENT", "arrays_of", "is_partly_absent", "judge_absent"]

Array = npt.NDArray[Any]
_STACK = 3
"""Axes of a parameter that stacks the matrices of many layers."""
UNUSED = (
    "None on the {lacking}, all zero in this part of the stack on the other side: they agree, "
    "though an optimizer decays a weight of zero gradient and skips one of None"
)

PARTLY_ABSENT = "layers without a gradient on the reference, taken as zeros in the stack"


def judge_absent(
    judged: JudgedPair,
    references: Sequence[RecordInfo],
    record: RecordInfo,
    rule: Rule,
    sides: tuple[Side, Side],
) -> JudgedPair:
    """Judge a pair of which at least one record holds no tensor.

    Args:
        judged: The pair as far as it is known, with the verdict match.
        references: The reference's records.
        record: The candidate's record.
        rule: From reference to candidate.
        sides: Reference and candidate.
    """
    absent = [known.value is None for known in references]
    if record.value is None and all(absent):
        return judged
    lacking = "candidate" if record.value is None else "reference"
    if record.role is Role.WEIGHT_GRAD:
        if record.value is None and not any(absent) and _is_zero_part(references, rule, sides[0]):
            return replace(judged, reason=UNUSED.format(lacking=lacking))
    elif _are_zero(sides[0].index, references) and _are_zero(sides[1].index, [record]):
        # Paddle gives zeros for an unused output of an operator with several, torch None. Of a
        # weight they are not the same: an optimizer skips None, but decays a weight of zeros.
        return replace(judged, reason=f"None on the {lacking}, all zero on the other side")
    reason = f"None on the {lacking}, a tensor on the other side"
    return replace(judged, verdict=Verdict.DIVERGED, reason=reason, fatal=True)


def is_partly_absent(references: Sequence[RecordInfo], record: RecordInfo) -> bool:
    """Tell whether the candidate stacks the gradients of layers of which some have none.

    Of experts in a list those that no token reached have no gradient; of experts in one parameter
    they have a part of zeros.
    """
    known = {reference.shape for reference in references if reference.value is not None}
    is_stack = record.role is Role.WEIGHT_GRAD and len(record.shape) == _STACK
    return is_stack and record.value is not None and len(known) == 1


def arrays_of(references: Sequence[RecordInfo], side: Side) -> list[Array]:
    """Read the reference's arrays, zeros for layers of a stack that have no gradient."""
    if len(references) == 1:
        return [side.array(references[0])]
    made = {known.id: side.array(known) for known in references if known.value is not None}
    if len(made) == len(references):
        return list(made.values())
    blank = np.zeros_like(next(iter(made.values())))
    return [made.get(known.id, blank) for known in references]


def _is_zero_part(references: Sequence[RecordInfo], rule: Rule, side: Side) -> bool:
    """Tell whether the rule takes a part of zeros out of a stack."""
    # What is absent has no shape that the part could be laid out in.
    steps = tuple(step for step in rule.steps if step.verb is not Verb.RESHAPE or step.numbers)
    is_part = any(step.verb in PICKING for step in steps)
    if not is_part or len(references) != 1 or len(references[0].shape) != _STACK:
        return False
    return not np.any(Rule(steps).apply([side.array(references[0])]))


def _are_zero(index: Index, records: Sequence[RecordInfo]) -> bool:
    """Tell whether gradients are None or nothing but zeros."""
    found = [index.values[record.value] for record in records if record.value is not None]
    return all(value.statistics.zeros == value.size for value in found)
