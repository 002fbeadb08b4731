"""How learning rates differ over all steps: those of another step, a factor, one that stays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.result import Divergence, Kind
from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.result import Endpoint, StepComparison

__all__ = ["add_rate_facts"]

Rates = dict[int, float]

CLOSE = 1e-6
"""Relative difference up to which two rates are the same, as they are judged."""
FEW = 2
"""Steps that must agree once shifted; of fewer nothing is concluded."""


def add_rate_facts(steps: Sequence[StepComparison]) -> tuple[StepComparison, ...]:
    """Add how the rates of all steps differ to the origins that are rates."""
    return tuple(
        replace(
            step,
            divergences=tuple(
                _with_rates(found, step.rank, steps) if _is_rate_origin(found) else found
                for found in step.divergences
            ),
        )
        for step in steps
    )


def _is_rate_origin(divergence: Divergence) -> bool:
    end = divergence.pair.reference
    return (
        divergence.kind is Kind.ORIGIN and end is not None and end.address.role is Role.LR
    ) and divergence.pair.candidate is not None


def _with_rates(divergence: Divergence, rank: int, steps: Sequence[StepComparison]) -> Divergence:
    end = divergence.pair.reference
    known, had = _rates(steps, rank, "" if end is None else end.address.slot)
    text = _shifted(known, had) or _constant(known, had) or _factor(known, had)
    if not text:
        return divergence
    return replace(divergence, evidence=(text, *divergence.evidence))


def _rates(steps: Sequence[StepComparison], rank: int, slot: str) -> tuple[Rates, Rates]:
    """Give both sides' rates by step."""
    known: Rates = {}
    had: Rates = {}
    for step in steps:
        for pair in step.pairs if step.rank == rank else ():
            for end, rates in ((pair.reference, known), (pair.candidate, had)):
                if end is not None and end.address.role is Role.LR and end.address.slot == slot:
                    value = _value(end)
                    if value is not None:
                        rates[step.step] = value
    return known, had


def _value(end: Endpoint) -> float | None:
    return None if end.statistics is None else end.statistics.maximum


def _same(one: float, two: float) -> bool:
    return math.isclose(one, two, rel_tol=CLOSE)


def _shifted(known: Rates, had: Rates) -> str:
    """See whether one side has in each step what the other has in the next."""
    for first, second, words in (
        (known, had, ("candidate", "reference")),
        (had, known, ("reference", "candidate")),
    ):
        both = [(first[step + 1], rate) for step, rate in second.items() if step + 1 in first]
        moves = len({round(rate, 12) for _, rate in both}) > 1
        if len(both) >= FEW and moves and all(_same(*pair) for pair in both):
            return f"in each step the {words[0]} has the rate of the {words[1]}'s next step"
    return ""


def _constant(known: Rates, had: Rates) -> str:
    for side, own, other in (("candidate", had, known), ("reference", known, had)):
        is_still = len(own) > FEW and all(_same(rate, min(own.values())) for rate in own.values())
        if is_still and not all(_same(rate, min(other.values())) for rate in other.values()):
            return f"the {side}'s rate stays at {min(own.values()):.6g}"
    return ""


def _factor(known: Rates, had: Rates) -> str:
    ratios = [had[step] / rate for step, rate in known.items() if rate and step in had]
    if not ratios or not all(_same(ratio, ratios[0]) for ratio in ratios):
        return ""
    return f"in all steps the candidate's rate is {ratios[0]:.6g} times the reference's"
