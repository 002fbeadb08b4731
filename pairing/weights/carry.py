"""Carry whatever belongs to weights along a plan: values, gradients, optimizer moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import ConfigError

from .weight_text import WeightError, weight_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.pairing.side import Side
    from padiff.pairing.steps import Array

    from .weight_plan import WeightPlan


def carry(
    plan: WeightPlan, reference: Side, candidate: Side, arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """Turn arrays of the reference's weights into those of the candidate's.

    A rule only moves elements, so what holds for a weight holds for its gradient and for the
    moments that an optimizer keeps of it (``exp_avg`` and ``moment1``, ``exp_avg_sq`` and
    ``moment2``): pass one kind at a time.

    Args:
        plan: Which weight is made of which.
        reference: The side that the arrays belong to.
        candidate: The side to make arrays for.
        arrays: By the reference's parameter names, each of its parameter's shape.

    Returns:
        By the candidate's parameter names. Parameters whose sources are not all in ``arrays``
        are left out.

    Raises:
        ConfigError: Arrays do not have their parameter's shape; all of them are listed.
    """
    made: dict[str, Array] = {}
    problems: list[str] = []
    for pair in plan.pairs:
        target = candidate.index.records[pair.candidate]
        names = [weight_name(reference, reference.index.records[one]) for one in pair.reference]
        known = [arrays[name] for name in names if name in arrays]
        if len(known) != len(names):
            continue
        try:
            made[weight_name(candidate, target)] = pair.rule.apply(known, target.shape)
        except ConfigError as error:
            problems.append(f"{weight_name(candidate, target)}: {error.message}")
    if problems:
        raise WeightError("cannot carry arrays over", problems)
    return made
