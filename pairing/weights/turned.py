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
    doubtful = [pair for pair in pairs if pair.is_ambiguous and _only_turns(pair.rule)]
    wanted = {pair.candidate for pair in doubtful}
    names = {
        entry.record.id: entry.name
        for unit in (candidate.units if wanted else ())
        for entry in unit.entries
        if entry.record.id in wanted and not entry.is_alias
    }
    for pair in doubtful:
        others = [
            one for one in pair.alternatives
            if one.reference == pair.reference and _only_turns(one.rule)
        ]  # fmt: skip
        is_open = pair.candidate in names and others
        if not is_open or len(others) < len(pair.alternatives):
            continue
        ways = [pair, *(replace(pair, rule=other.rule) for other in others)]
        yield WeightChoice(
            name=_NUMBER.sub("#", names[pair.candidate]),
            ways=tuple(WeightWay(label=str(way.rule), pairs=(way,), is_usual=True) for way in ways),
        )


def _only_turns(rule: Rule) -> bool:
    return all(step.verb is Verb.TRANSPOSE for step in rule.steps)
