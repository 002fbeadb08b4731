"""How learning rates differ over all steps: those of another step, a factor, one that stays."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from padiff.comparer.result import Divergence, Kind
from padiff.comparer.stored import changed_at, origins_of
from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.comparer.result import Endpoint, StepComparison

__all__ = ["add_rate_facts"]

Rates = dict[int, float]

CLOSE = 1e-6
"""Relative difference up to which two rates are the same, as they are judged."""
FEW = 2
"""Steps that must agree once shifted; of fewer nothing is concluded."""


def add_rate_facts(steps: Sequence[StepComparison]) -> tuple[StepComparison, ...]:
    """Add how the rates of all steps differ to the origins that are rates."""
    return tuple(_with_facts(step, steps) for step in steps)


def _with_facts(step: StepComparison, steps: Sequence[StepComparison]) -> StepComparison:
    if not any(map(_is_rate_origin, origins_of(step.divergences))):
        return step
    places = [at for at, found in enumerate(step.divergences) if _is_rate_origin(found)]
    slots = {_slot(found) for found in origins_of(step.divergences) if _is_rate_origin(found)}
    texts = {slot: _said(*_rates(steps, step.rank, slot)) for slot in slots}
    change = partial(_with_rates, texts=texts)
    return replace(step, divergences=changed_at(step.divergences, frozenset(places), change))


def _is_rate_origin(divergence: Divergence) -> bool:
    end = divergence.pair.reference
    return (
        divergence.kind is Kind.ORIGIN and end is not None and end.address.role is Role.LR
    ) and divergence.pair.candidate is not None


def _with_rates(divergence: Divergence, texts: Mapping[str, str]) -> Divergence:
    text = texts[_slot(divergence)]
    return replace(divergence, evidence=(text, *divergence.evidence)) if text else divergence


def _slot(divergence: Divergence) -> str:
    end = divergence.pair.reference
    return "" if end is None else end.address.slot


def _said(known: Rates, had: Rates) -> str:
    return _shifted(known, had) or _constant(known, had) or _factor(known, had)


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
