"""Fused projections against split ones: qkv and gate-up, in blocks or interleaved by group."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from padiff.pairing.kinds import kind_of
from padiff.pairing.result import PairedBy

from .entry_pairs import holds
from .fused_layouts import Layout, Parts, doubted, heads_around, layouts_of, pairs_under, rows_of
from .fused_parts import GATED, NOT_EMPTY, Families, Lacking, filled, is_empty, zeros_note
from .inventory import UnitPair
from .unit_keys import nearest
from .weight_plan import WeightChoice, WeightPair, WeightWay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .inventory import Entry, Inventory, Unit
    from .unit_pairs import UnitSearch

__all__ = ["pair_fused"]

Way = tuple[Layout, "Sequence[WeightPair]"]
_Filled = tuple["Entry", "list[Entry | int]"]
"""A fused parameter and those of its parts; of a part that has none, the rows it would have."""
_NAMED, _GUESS = 0.6, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """A fused unit and the parts that fill it."""

    sides: tuple[Inventory, Inventory]
    unit: Unit
    parts: Parts
    lacking: Lacking
    is_join: bool
    """Whether the fused one is the candidate's."""
    leaves_out: bool = False
    """Whether what some parts lack is left without partner."""

    @property
    def leaf(self) -> str:
        """Give the own name of the fused unit."""
        return self.unit.path.rpartition(".")[2]

    @property
    def ways(self) -> list[Way]:
        """Give the layouts that fit, with the pairs that they make; the usual ones first."""
        whole, others = self.sides[self.is_join], self.sides[not self.is_join]
        heads = heads_around(whole, self.unit)
        layouts = layouts_of(
            self.parts, self.leaf, heads.union(*(heads_around(others, u) for u in self.parts.units))
        )
        filled = self.entries
        return [(one, made) for one in layouts if (made := self._pairs(one, filled or ()))]

    @property
    def entries(self) -> list[_Filled] | None:
        """Give the fused parameters with those of their parts, the largest first.

        Returns:
            None if any part lacks one that it should have.
        """
        tables = [{entry.atoms[0]: entry for entry in part.entries} for part in self.parts.units]
        found: list[_Filled] = []
        for entry in sorted(self.unit.entries, key=lambda entry: entry is not self.unit.main):
            atom = entry.atoms[0]
            holders = [table.get(atom) for table in tables]
            lacks = [u for u, own in zip(self.parts.units, holders, strict=True) if own is None]
            if lacks and not self._is_meant(entry, lacks):
                return None
            if not (lacks and self.leaves_out):
                sizes = [(rows_of(unit) or (0,))[0] for unit in self.parts.units]
                found.append(
                    (entry, [own or rows for own, rows in zip(holders, sizes, strict=True)])
                )
        return found

    @property
    def settled(self) -> tuple[Filling, list[Way]]:
        """Give the ways in which nothing is lost, and what they are ways of.

        Where the reference's fused one is not zero for a part that the candidate lacks, in any
        layout, that stays alone and the rest is paired.
        """
        ways = self.ways
        gaps = self._gaps
        if not gaps or self.is_join:
            return self, ways
        kept = [way for way in ways if all(is_empty(self.sides[0], way[0], *gap) for gap in gaps)]
        if kept or not ways:
            return self, kept
        rest = replace(self, leaves_out=True)
        return rest, rest.ways

    @property
    def unit_pairs(self) -> tuple[UnitPair, ...]:
        """Give the fused unit with each of its parts."""
        both = [(self.unit, part)[:: -1 if self.is_join else 1] for part in self.parts.units]
        return tuple(
            UnitPair(reference=one, candidate=two, paired_by=PairedBy.STRUCTURE)
            for one, two in both
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Say what is zero for a part that has none."""
        gaps = () if self.leaves_out else self._gaps
        units = self.parts.units
        return tuple(
            zeros_note(
                self.unit,
                [unit for unit, own in zip(units, parts, strict=True) if isinstance(own, int)],
                is_join=self.is_join,
            )
            for _, parts in gaps
        )

    @property
    def refused(self) -> dict[int, str]:
        """Say why records of the fused unit stay alone."""
        if not self.leaves_out:
            return {}
        whole = replace(self, leaves_out=False)
        return {entry.record.id: NOT_EMPTY for entry, _ in whole._gaps}

    @property
    def trust(self) -> float:
        """How sure blocks in the usual order are: only gate and up by a name in that order."""
        is_gated = self.parts.roles == GATED and self.parts.spelled(self.leaf) == (0, 1)
        return _NAMED if is_gated else _GUESS

    @property
    def _gaps(self) -> list[_Filled]:
        """Give the fused parameters that not all parts have."""
        return [one for one in self.entries or () if any(isinstance(own, int) for own in one[1])]

    def _is_meant(self, entry: Entry, lacks: Sequence[Unit]) -> bool:
        """Tell whether some parts, not all, are meant to have no such vector."""
        is_vector = len(entry.shape) == 1 and entry is not self.unit.main
        return (
            is_vector
            and len(lacks) < len(self.parts.units)
            and all(self.lacking.is_meant(one, entry.atoms[0]) for one in lacks)
        )

    def _pairs(self, layout: Layout, filled: Sequence[_Filled]) -> list[WeightPair] | None:
        """Pair all entries under a layout; None if it does not fit one."""
        found: list[WeightPair] = []
        for entry, parts in filled:
            made = pairs_under(layout, entry, parts, is_join=self.is_join)
            if made is None:
                return None
            found += made
        return found or None


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
