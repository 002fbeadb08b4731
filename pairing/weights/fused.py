"""Fused projections against split ones: qkv and gate-up, in blocks or interleaved by group."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from padiff.pairing.kinds import kind_of
from padiff.pairing.result import PairedBy

from .entry_pairs import holds
from .filling import Filling, Way
from .fused_layouts import doubted
from .fused_parts import Families, filled
from .lacking import Lacking
from .unit_keys import nearest
from .weight_plan import WeightChoice, WeightPair, WeightWay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .inventory import Inventory, Unit, UnitPair
    from .unit_pairs import UnitSearch

__all__ = ["Fused", "pair_fused"]


_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """The weights of fused projections."""

    pairs: tuple[WeightPair, ...] = ()
    choices: tuple[WeightChoice, ...] = ()
    """Layouts that neither names nor values tell."""
    units: tuple[UnitPair, ...] = ()
    """Each fused unit with each of its parts."""
    notes: tuple[str, ...] = ()
    """What is zero for a part that has no such vector."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """Why records of the reference's fused ones have no partner."""


def pair_fused(search: UnitSearch) -> Fused:
    """Pair each lone unit with several lone units of the other side that together fill it.

    The units that were paired leave the search. Where values do not tell the layout, the pairs
    are ambiguous and list the other layouts. Units of which both sides have as many of one shape
    are each other's partners, whichever is which: they fill nothing.
    """
    found: list[Fused] = []
    even = search.even()
    for is_join in (True, False):
        whole, parts = (1, 0) if is_join else (0, 1)
        lone = _without(search, even)
        if not lone[0] or not lone[1]:
            continue
        scopes = search.scopes()
        wholes = _by_scope(search.sides[whole], lone[whole], scopes[whole])
        others = _by_scope(search.sides[parts], lone[parts], scopes[parts])
        families = Families(search.sides[parts], lone[parts])
        lacking = Lacking(search.sides[parts], (search.left, search.right)[parts])
        done: list[Unit] = []
        gone: set[int] = set()
        """Python's ids of paired parts: values tell those of other scopes, too."""
        for scope, units in wholes.items():
            free = [unit for unit in others.get(scope, ()) if id(unit) not in gone]
            for unit, members in filled(search.sides[whole], units, free, families):
                filling = Filling(
                    sides=search.sides, unit=unit, parts=members, lacking=lacking, is_join=is_join
                )
                made = _fill(filling)
                if made.pairs:
                    found.append(made)
                    done += [unit, *members.units]
                    gone.update(map(id, members.units))
                    families.take(members.units)
        search.drop(done)
    return Fused(
        pairs=tuple(pair for one in found for pair in one.pairs),
        choices=tuple(choice for one in found for choice in one.choices),
        units=tuple(pair for one in found for pair in one.units),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
        refused={record: reason for one in found for record, reason in one.refused.items()},
    )


def _without(search: UnitSearch, even: set[int]) -> tuple[list[Unit], list[Unit]]:
    left, right = (
        [unit for unit in side if id(unit) not in even] for side in (search.left, search.right)
    )
    return left, right


def _by_scope(
    side: Inventory, units: Iterable[Unit], table: Mapping[int, int]
) -> dict[int | None, list[Unit]]:
    found: dict[int | None, list[Unit]] = {}
    for unit in units:
        found.setdefault(nearest(side, unit, table), []).append(unit)
    return found


def _fill(filling: Filling) -> Fused:
    """Pair all entries of a fused unit with those of its parts, under one layout."""
    filling, ways = filling.settled
    if not ways:
        return Fused()
    made = Fused(
        pairs=tuple(ways[0][1]),
        units=filling.unit_pairs,
        notes=filling.notes,
        refused=filling.refused,
    )
    if kind_of(filling.unit.module) == "attention":
        return made
    for _, pairs in ways:
        if _is_seen(filling, pairs):
            seen = tuple(replace(pair, paired_by=PairedBy.VALUE) for pair in pairs)
            return replace(made, pairs=seen)
    doubtful = doubted(ways[0][1], [pairs for _, pairs in ways[1:]], filling.trust)
    return replace(made, pairs=tuple(doubtful), choices=(_choice(filling, ways),))


def _choice(filling: Filling, ways: Sequence[Way]) -> WeightChoice:
    parts, leaf = filling.parts, filling.leaf
    spelled = parts.spelled(leaf)
    return WeightChoice(
        name=_NUMBER.sub("#", " ".join((filling.unit.path, *(u.path for u in parts.units)))),
        ways=tuple(
            WeightWay(
                label=layout.label(parts),
                pairs=tuple(made),
                is_usual=parts.is_usual(layout.order, leaf),
                is_spelled=layout.groups == 1
                and layout.order == spelled == tuple(range(len(layout.order))),
            )
            for layout, made in ways
        ),
    )


def _is_seen(filling: Filling, pairs: Sequence[WeightPair]) -> bool:
    """Tell whether both sides hold the same values already under a layout."""
    entry, parts = (filling.entries or [])[0]
    sides, is_join = filling.sides, filling.is_join
    if sides[is_join].value(entry) is None:
        return False
    own = [part for part in parts if not isinstance(part, int)]
    by_record = {one.record.id: one for one in (own if is_join else [entry])}
    targets = {one.record.id: one for one in ([entry] if is_join else own)}
    return all(
        holds(sides, [by_record[one] for one in pair.reference], pair.rule, target)
        for pair in pairs
        if (target := targets.get(pair.candidate)) is not None
    )
