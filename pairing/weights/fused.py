"""Fused projections against split ones: qkv and gate-up, in blocks or interleaved by group."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.pairing.kinds import kind_of
from padiff.pairing.result import PairedBy

from .entry_pairs import holds
from .fused_layouts import Layout, Parts, doubted, heads_around, layouts_of, pairs_under
from .fused_parts import GATED, Families, filled
from .unit_keys import nearest
from .weight_plan import WeightChoice, WeightPair, WeightWay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .inventory import Entry, Inventory, Unit
    from .unit_pairs import UnitSearch

__all__ = ["Fused", "pair_fused"]


_NAMED, _GUESS = 0.6, 0.3
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """The weights of fused projections."""

    pairs: tuple[WeightPair, ...] = ()
    choices: tuple[WeightChoice, ...] = ()
    """Layouts that neither names nor values tell."""


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
        done: list[Unit] = []
        for scope, units in wholes.items():
            for unit, members in filled(
                search.sides[whole], units, others.get(scope, []), families
            ):
                filling = _Filling(sides=search.sides, unit=unit, parts=members, is_join=is_join)
                made = _fill(filling)
                if made.pairs:
                    found.append(made)
                    done += [unit, *members.units]
                    families.take(members.units)
        search.drop(done)
    return Fused(
        pairs=tuple(pair for one in found for pair in one.pairs),
        choices=tuple(choice for one in found for choice in one.choices),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filling:
    """A fused unit and the parts that fill it."""

    sides: tuple[Inventory, Inventory]
    unit: Unit
    parts: Parts
    is_join: bool
    is_placed: bool = True
    """Whether they lie in partner containers; else only their order makes them meet."""

    @property
    def layouts(self) -> list[Layout]:
        whole, others = self.sides[self.is_join], self.sides[not self.is_join]
        heads = heads_around(whole, self.unit)
        return layouts_of(
            self.parts, self.leaf, heads.union(*(heads_around(others, u) for u in self.parts.units))
        )

    @property
    def leaf(self) -> str:
        return self.unit.path.rpartition(".")[2]

    @property
    def entries(self) -> list[tuple[Entry, list[Entry]]] | None:
        """The fused parameters with those of their parts, the largest first; None if any lacks."""
        atoms = [{entry.atoms[0]: entry for entry in part.entries} for part in self.parts.units]
        found = []
        for entry in sorted(self.unit.entries, key=lambda entry: entry is not self.unit.main):
            parts = [table[entry.atoms[0]] for table in atoms if entry.atoms[0] in table]
            if len(parts) != len(atoms):
                return None
            found.append((entry, parts))
        return found

    def pairs(self, layout: Layout) -> list[WeightPair] | None:
        """Pair all entries under a layout; None if it does not fit one."""
        found: list[WeightPair] = []
        for entry, parts in self.entries or ():
            made = pairs_under(layout, entry, parts, is_join=self.is_join)
            if made is None:
                return None
            found += made
        return found or None

    @property
    def trust(self) -> float:
        """How sure blocks in the usual order are: only gate and up by a name in that order."""
        is_gated = self.parts.roles == GATED and self.parts.spelled(self.leaf) == (0, 1)
        return _NAMED if is_gated and self.is_placed else _GUESS


def _fill(filling: _Filling) -> Fused:
    """Pair all entries of a fused unit with those of its parts, under one layout."""
    layouts = filling.layouts
    ways = [(layout, made) for layout in layouts if (made := filling.pairs(layout))]
    if not ways:
        return Fused()
    if kind_of(filling.unit.module) == "attention":
        return Fused(pairs=tuple(ways[0][1]))
    for _, made in ways:
        if _is_seen(filling, made):
            return Fused(pairs=tuple(replace(pair, paired_by=PairedBy.VALUE) for pair in made))
    first = ways[0][1]
    pairs = doubted(first, [made for _, made in ways[1:]], filling.trust)
    return Fused(pairs=tuple(pairs), choices=(_choice(filling, ways),))


def _choice(filling: _Filling, ways: Sequence[tuple[Layout, Sequence[WeightPair]]]) -> WeightChoice:
    parts, leaf = filling.parts, filling.leaf
    spelled = parts.spelled(leaf)
    return WeightChoice(
        name=_NUMBER.sub("#", " ".join((filling.unit.path, *(u.path for u in parts.units)))),
        ways=tuple(
            WeightWay(
                label=layout.label(parts),
                pairs=tuple(made),
                is_usual=parts.is_usual(layout.order, leaf),
                is_spelled=filling.is_placed
                and layout.groups == 1
                and layout.order == spelled == tuple(range(len(layout.order))),
            )
            for layout, made in ways
        ),
    )


def _is_seen(filling: _Filling, pairs: Sequence[WeightPair]) -> bool:
    """Tell whether both sides hold the same values already under a layout."""
    entry, parts = (filling.entries or [])[0]
    sides, is_join = filling.sides, filling.is_join
    if sides[is_join].value(entry) is None:
        return False
    by_record = {one.record.id: one for one in (parts if is_join else [entry])}
    targets = {one.record.id: one for one in ([entry] if is_join else parts)}
    return all(
        holds(sides, [by_record[one] for one in pair.reference], pair.rule, target)
        for pair in pairs
        if (target := targets.get(pair.candidate)) is not None
    )
