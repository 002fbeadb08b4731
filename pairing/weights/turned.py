"""Square matrices of which no class says which way they lie: what a run of the model can decide."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.pairing.steps import Verb

from .weight_plan import WeightChoice, WeightWay

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from padiff.pairing.rule import Rule

    from .inventory import Inventory
    from .weight_plan import WeightPair

__all__ = ["turn_choices"]

_NUMBER = re.compile(r"\d+")


def turn_choices(candidate: Inventory, pairs: Iterable[WeightPair]) -> Iterator[WeightChoice]:
    """Give a choice for each pair of which only the rule is open.

    Args:
        candidate: Whose parameters are in doubt.
        pairs: Of the plan.
    """
    names = {
        entry.record.id: entry.name
        for unit in candidate.units
        for entry in unit.entries
        if not entry.is_alias
    }
    for pair in pairs:
        others = [
            one for one in pair.alternatives
            if one.reference == pair.reference and _only_turns(one.rule)
        ]  # fmt: skip
        is_open = pair.is_ambiguous and pair.candidate in names and _only_turns(pair.rule)
        if not is_open or not others or len(others) < len(pair.alternatives):
            continue
        ways = [pair, *(replace(pair, rule=other.rule) for other in others)]
        yield WeightChoice(
            name=_NUMBER.sub("#", names[pair.candidate]),
            ways=tuple(WeightWay(label=str(way.rule), pairs=(way,), is_usual=True) for way in ways),
        )


def _only_turns(rule: Rule) -> bool:
    return all(step.verb is Verb.TRANSPOSE for step in rule.steps)
