"""Square matrices of which no class says which way they lie: what a run of the model can decide."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .entry_pairs import SQUARE
from .entry_rules import TURNS
from .standing import unnumbered
from .weight_plan import WeightChoice, WeightWay

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.rule import Rule

    from .inventory import Entry, Inventory, Unit
    from .weight_plan import WeightPair

Holder = tuple[str, str]
"""Class, and the name of a parameter in it."""
_CUBE = 3
_TOLD = 0.7


def turn_choices(candidate: Inventory, pairs: Iterable[WeightPair]) -> Iterator[WeightChoice]:
    """Yield a choice for each pair of which only the rule is open.

    Args:
        candidate: Whose parameters are in doubt.
        pairs: Of the plan.
    """
    entries: dict[int, tuple[Unit, Entry]] = {}
    for pair in pairs:
        rules = [pair.rule, *(one.rule for one in pair.alternatives)]
        is_open = (pair.is_ambiguous or pair.note == SQUARE) and len(rules) > 1
        if not is_open or not _is_own_doubt(pair) or not all(map(_only_turns, rules)):
            continue
        if not entries:
            entries = {e.record.id: (unit, e) for unit in candidate.units for e in unit.entries}
        unit, entry = entries[pair.candidate]
        if entry.is_alias:
            continue
        is_stack = len(entry.shape) == _CUBE  # all stacks of all blocks are decided together
        name = unit.path or unit.module.class_name if is_stack else entry.name
        ways = (
            WeightWay(label=str(rule), pairs=(replace(pair, rule=rule),), is_usual=True)
            for rule in rules
        )
        yield WeightChoice(name=unnumbered(name), ways=tuple(ways))


def turned_alike(
    sides: tuple[Inventory, Inventory], pairs: Sequence[WeightPair]
) -> list[WeightPair]:
    """Lay square matrices of users' own classes as others lie that have this name there.

    Of stacks of matrices, all of a class lie alike, whatever their names.

    Args:
        sides: Both sides.
        pairs: Of the plan.
    """
    if not any(pair.note == SQUARE for pair in pairs):
        return list(pairs)
    tables = [_holders(side) for side in sides]
    lain: dict[tuple[Holder, ...], set[Rule]] = {}
    for pair in pairs:
        if _is_matrix(sides[1], pair) and pair.note != SQUARE:
            lain.setdefault(_of(sides[1], tables, pair), set()).add(pair.rule)
    found = []
    for pair in pairs:
        rules = lain.get(_of(sides[1], tables, pair), set()) if pair.note == SQUARE else set()
        rule = next(iter(rules)) if len(rules) == 1 else None
        is_told = rule in {pair.rule, *(one.rule for one in pair.alternatives)}
        sure = max(pair.confidence, _TOLD)
        told = replace(pair, rule=rule or pair.rule, confidence=sure, alternatives=(), note="")
        found.append(told if is_told and _is_own_doubt(pair) else pair)
    return found


def _is_own_doubt(pair: WeightPair) -> bool:
    """Return whether nothing but its rule is open."""
    return all(other.reference == pair.reference for other in pair.alternatives)


def _holders(side: Inventory) -> dict[int, Holder]:
    """Return the class of the module that holds each parameter, and the name there."""
    return {
        entry.record.id: (unit.module.class_path, entry.local)
        for unit in side.units
        for entry in unit.entries
    }


def _of(
    candidate: Inventory, tables: Sequence[Mapping[int, Holder]], pair: WeightPair
) -> tuple[Holder, ...]:
    """Return what matrices that lie alike have in common."""
    holders = tables[0][pair.reference[0]], tables[1][pair.candidate]
    axes = len(candidate.side.index.records[pair.candidate].shape)
    return tuple((kind, "" if axes == _CUBE else name) for kind, name in holders)


def _is_matrix(candidate: Inventory, pair: WeightPair) -> bool:
    """Return whether the shape of a matrix or of a stack of them says which way it lies."""
    shape = candidate.side.index.records[pair.candidate].shape
    return len(shape) in TURNS and len(pair.reference) == 1 and len(set(shape[-2:])) > 1


def _only_turns(rule: Rule) -> bool:
    return rule.is_identity or rule in TURNS.values()
