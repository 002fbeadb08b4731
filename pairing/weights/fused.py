"""Fused projections against split ones: qkv and gate-up, in blocks or interleaved by group.

Which units of the other side lie side by side in a fused one is told by their values, names or
sizes. A part may lack what the others have: the key of Whisper, BEIT and Swin v2 has no bias, its
query and value have one. Fused they have one bias; what the key lacks is zeros there. That is so
only where it is meant: a bias that went missing is told from one that never was by layers alike,
and by what lies beside.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpError
from padiff.pairing.kinds import kind_of
from padiff.pairing.names import words_of
from padiff.pairing.result import PairedBy

from .fused_layouts import (
    GATED,
    MANY_PARTS,
    Layout,
    Parts,
    are_held,
    doubted,
    heads_around,
    layouts_of,
    pairs_under,
    rows_of,
)
from .inventory import UnitPair
from .standing import unnumbered
from .unit_keys import extremes_of, nearest
from .weight_plan import WeightChoice, WeightPair, WeightWay

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.rule import Rule

    from .inventory import Entry, Inventory, Unit
    from .unit_pairs import UnitSearch

    Way = tuple[Layout, list[WeightPair]]
    Filled = tuple[Entry, list[Entry | int]]
    Sized = tuple[Unit, int]
    Size = tuple[int, tuple[int, ...]]
    Side = tuple[Inventory, Sequence[Unit], Mapping[int, int]]

_NAMED, _GUESS = 0.6, 0.3
_MOST_SHOWN = 8
_UNTOLD = "fused; only equal values, a run or a map can tell the layout"
"""Note of a pair in doubt."""


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
        is_growing = True
        while is_growing:
            lone = [[unit for unit in side if id(unit) not in even]
                    for side in (search.left, search.right)]  # fmt: skip
            if not all(lone):
                break
            lacking = Lacking(search.sides[not is_join], lone[not is_join])
            both = list(zip(search.sides, lone, search.scopes(), strict=True))
            done: list[Unit] = []
            for unit, parts in filled(both[is_join], both[not is_join]):
                filling = _Filling(sides=search.sides, unit=unit, parts=parts, is_join=is_join)
                made = _fill(filling, lacking)
                if made.pairs:
                    found.append(made)
                    done += [unit, *parts.units]
            search.drop(done)
            is_growing = bool(done)
    return Fused(
        pairs=tuple(pair for one in found for pair in one.pairs),
        choices=tuple(choice for one in found for choice in one.choices),
        units=tuple(pair for one in found for pair in one.units),
        notes=tuple(dict.fromkeys(note for one in found for note in one.notes)),
        refused={record: reason for one in found for record, reason in one.refused.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filling:
    """A fused unit and the parts that fill it."""

    sides: tuple[Inventory, Inventory]
    unit: Unit
    parts: Parts
    is_join: bool
    """Whether the fused one is the candidate's."""

    @property
    def layouts(self) -> list[Layout]:
        """Return the layouts in which the parts can lie."""
        side, other = self.sides[self.is_join], self.sides[not self.is_join]
        heads = (heads_around(other, one) for one in self.parts.units)
        around = heads_around(side, self.unit).union(*heads)
        return layouts_of(self.parts, self.unit.leaf, around)

    @property
    def units(self) -> tuple[UnitPair, ...]:
        """Return the fused unit with each of its parts."""
        both = [(self.unit, part)[:: -1 if self.is_join else 1] for part in self.parts.units]
        by = PairedBy.STRUCTURE
        return tuple(UnitPair(reference=one, candidate=two, paired_by=by) for one, two in both)

    def ways(self, held: Sequence[Filled]) -> list[Way]:
        """Return the layouts that fit all parameters, with the pairs that they make."""
        found = []
        for layout in self.layouts:
            made = [
                pairs_under(layout.join, entry, _placed(layout, parts), is_join=self.is_join)
                for entry, parts in held
            ]
            pairs = [pair for one in made for pair in one or ()]
            if pairs and None not in made:
                found.append((layout, pairs))
        return found

    def seen(self, held: Filled, ways: Sequence[Way]) -> list[WeightPair] | None:
        """Return the pairs of which both sides hold the same values already."""
        entry, own = held[0], [part for part in held[1] if not isinstance(part, int)]
        ends = (own, [entry]) if self.is_join else ([entry], own)
        if self.sides[self.is_join].value(entry) is None:
            return None
        return next((pairs for _, pairs in ways if are_held(self.sides, ends, pairs)), None)

    def doubts(self, ways: Sequence[Way]) -> tuple[list[WeightPair], WeightChoice]:
        """Return the pairs of the usual layout in doubt, and what a run can choose from."""
        parts, leaf = self.parts, self.unit.leaf
        spelled, natural = parts.spelled(leaf), tuple(range(len(parts.units)))
        trust = _NAMED if parts.roles == GATED and spelled == natural else _GUESS
        pairs = doubted(ways[0][1], [made for _, made in ways[1:]], trust, _UNTOLD)
        choices = tuple(
            WeightWay(
                label=layout.label(parts),
                pairs=tuple(made),
                is_usual=parts.is_usual(layout.order, leaf),
                is_spelled=layout.groups == 1 and layout.order == spelled == natural,
            )
            for layout, made in ways
        )
        name = " ".join((self.unit.path, *(one.path for one in parts.units)))
        return list(map(_shortened, pairs)), WeightChoice(name=unnumbered(name), ways=choices)


def _fill(filling: _Filling, lacking: Lacking) -> Fused:
    """Pair all entries of a fused unit with those of its parts, under one layout.

    Where the reference's fused one is not zero for a part that the candidate lacks, in any
    layout, that stays alone and the rest is paired.
    """
    units, is_join = filling.parts.units, filling.is_join
    held = list(_entries(filling.unit, units, lacking))
    gaps = [one for one in held if any(isinstance(part, int) for part in one[1])]
    ways, refused = filling.ways(held), dict[int, str]()
    if gaps and ways and not is_join:
        side = filling.sides[0]
        kept = [
            way for way in ways
            if all(is_empty(side, way[0].join, one, _placed(way[0], own)) for one, own in gaps)
        ]  # fmt: skip
        if not kept:
            refused = {entry.record.id: NOT_EMPTY for entry, _ in gaps}
            held, gaps = [one for one in held if one not in gaps], []
        ways = kept or filling.ways(held)
    if not ways:
        return Fused()
    lacks = [
        [one for one, own in zip(units, entries, strict=True) if isinstance(own, int)]
        for _, entries in gaps
    ]
    made = Fused(
        pairs=tuple(ways[0][1]),
        units=filling.units,
        notes=tuple(zeros_note(filling.unit, one, is_join=is_join) for one in lacks),
        refused=refused,
    )
    if kind_of(filling.unit.module) == "attention":
        return made
    seen = filling.seen(held[0], ways)
    if seen is not None:
        return replace(made, pairs=tuple(replace(p, paired_by=PairedBy.VALUE) for p in seen))
    pairs, choice = filling.doubts(ways)
    return replace(made, pairs=tuple(pairs), choices=(choice,))


def _shortened(pair: WeightPair) -> WeightPair:
    """Show the plainest of many layouts first, those of the same weights before others."""
    shown = sorted(
        pair.alternatives,
        key=lambda one: (
            one.reference != pair.reference, len(str(one.rule)), str((one.reference, one.rule))
        ),
    )  # fmt: skip
    return replace(pair, alternatives=tuple(shown[:_MOST_SHOWN]))


def _entries(unit: Unit, units: Sequence[Unit], lacking: Lacking) -> Iterator[Filled]:
    """Yield the fused parameters with those of their parts, the largest first.

    Nothing if any part lacks one that it should have.
    """
    tables = [{entry.atoms[0]: entry for entry in part.entries} for part in units]
    found: list[Filled] = []
    for entry in sorted(unit.entries, key=lambda entry: entry is not unit.main):
        atom = entry.atoms[0]
        own = [
            table.get(atom) or (rows_of(part) or (0,))[0]
            for table, part in zip(tables, units, strict=True)
        ]
        lacks = [one for one, part in zip(units, own, strict=True) if isinstance(part, int)]
        is_vector = len(entry.shape) == 1 and entry is not unit.main and len(lacks) < len(own)
        if lacks and not (is_vector and all(lacking.is_meant(one, atom) for one in lacks)):
            return
        found.append((entry, own))
    yield from found


def _placed(layout: Layout, parts: Sequence[Entry | int]) -> list[Entry | int]:
    return [parts[place] for place in layout.order]


_ROLES = (
    (("q", "k", "v"), ("q", "k", "v")),
    (GATED, GATED),
    (("w1", "w3"), GATED),
    (("k", "v"), ("k", "v")),
)
"""Words of the parts that authors fuse, in the usual order, and what they mean."""
_UNSAID = ("k", "v")
"""Parts that are so many only where the name of the fused one says so."""


def filled(wholes: Side, others: Side) -> list[tuple[Unit, Parts]]:
    """Return the units of one side that several of the other fill, with these, each other once.

    What values tell comes first. Of what names and sizes tell, as many fused units of a size and a
    name in a scope as there are groups that fill them belong together in their order.
    """
    groups = _groups(*others)
    taken: set[int] = set()
    found: list[tuple[Unit, Parts]] = []

    def free(possible: Iterable[Parts]) -> list[Parts]:
        return [one for one in possible if taken.isdisjoint(map(id, one.units))]

    peers: dict[tuple[int | None, Size, str], list[Unit]] = defaultdict(list)
    for unit in wholes[1]:
        size, extremes = rows_of(unit), extremes_of(wholes[0], [unit.main])
        if size is None:
            continue
        told = free(groups.get((size, extremes), ()) if extremes else ())
        if len(told) == 1:
            taken.update(map(id, told[0].units))
            found.append((unit, told[0]))
        else:
            peers[nearest(wholes[0], unit, wholes[2]), size, unit.leaf].append(unit)
    for (scope, size, _), units in peers.items():
        fitting = [
            one for one in free(groups.get((scope, size), ()))
            if one.roles != _UNSAID or units[0].words.issuperset(_UNSAID)
        ]  # fmt: skip
        named = [one for one in fitting if one.roles] or fitting
        if len(named) == len(units):
            for unit, parts in zip(units, named, strict=True):
                if taken.isdisjoint(map(id, parts.units)):
                    taken.update(map(id, parts.units))
                    found.append((unit, parts))
    return found


def _groups(
    side: Inventory, units: Sequence[Unit], table: Mapping[int, int]
) -> dict[Hashable, list[Parts]]:
    """Return what could be the parts of one, by what they fill: scope and size, size and values."""
    families: dict[tuple[str, tuple[int, ...]], list[Sized]] = defaultdict(list)
    for unit in units:
        size = rows_of(unit)
        if size is not None:
            families[unit.path.rpartition(".")[0], size[1]].append((unit, size[0]))
    found: dict[Hashable, list[Parts]] = defaultdict(list)
    for (_, columns), members in families.items():
        for parts, rows in _possible(members):
            size, extremes = (rows, columns), extremes_of(side, [one.main for one in parts.units])
            found[nearest(side, parts.units[0], table), size].append(parts)
            if extremes is not None:
                found[size, extremes].append(parts)
    return found


def _possible(members: Sequence[Sized]) -> Iterator[tuple[Parts, int]]:
    """Yield the siblings of some roles, and all that there are, with their rows."""
    words = [words_of(unit.leaf) | {unit.leaf.lower()} for unit, _ in members]
    is_told = not 1 < len(members) <= MANY_PARTS
    for names, meaning in _ROLES:
        chosen = [[one for one, said in zip(members, words, strict=True) if name in said]
                  for name in names]  # fmt: skip
        if all(len(fitting) == 1 for fitting in chosen):
            units, rows = zip(*(fitting[0] for fitting in chosen), strict=True)
            is_told = is_told or len(units) == len(members)
            yield Parts(units=units, roles=meaning), sum(rows)
    if not is_told:
        units, rows = zip(*members, strict=True)
        yield Parts(units=units), sum(rows)


NOT_EMPTY = "its part for a layer that has none on the other side is not zero"
"""Why a fused vector of the reference has no partner."""


class Lacking:
    """Tells what the parts of one side lack, and whether that is meant."""

    def __init__(self, side: Inventory, lone: Iterable[Unit]) -> None:
        """Take the side of the parts, and its lone units."""
        self._lone = list(lone)
        self._have: dict[str, set[str]] = defaultdict(set)
        for one in side.units:
            self._have[unnumbered(one.path)].update(n for entry in one.entries for n in entry.atoms)

    def is_meant(self, unit: Unit, atom: str) -> bool:
        """Return whether a layer is one of those that have no such parameter.

        No layer of its name in another block has it, and no lone vector of its size lies beside.
        """
        return atom not in self._have[unnumbered(unit.path)] and not self._is_beside(unit)

    def _is_beside(self, unit: Unit) -> bool:
        rows, holders = rows_of(unit), {unit.holder, unit.module.id, unit.module.parent}
        return rows is None or any(
            prod(entry.shape) == rows[0] and not entry.is_buffer
            for one in self._lone
            if one.module.id in holders and not one.is_laid_out
            for entry in one.needed
        )


def is_empty(side: Inventory, join: Rule, entry: Entry, parts: Sequence[Entry | int]) -> bool:
    """Return whether a fused vector holds nothing but zeros where parts have none."""
    if side.value(entry) is None:
        return False
    shapes = [(part,) if isinstance(part, int) else part.shape for part in parts]
    rules = join.then(entry.rule).inverses(shapes, entry.shape) or ()
    try:
        array = side.side.array(entry.record)
    except DumpError:
        return False
    gaps = [rule for rule, part in zip(rules, parts, strict=True) if isinstance(part, int)]
    return not any(np.any(rule.apply([array])) for rule in gaps)


def zeros_note(whole: Unit, parts: Sequence[Unit], *, is_join: bool) -> str:
    """Report that a fused vector has zeros where a part has none; alike for like layers."""
    names = " and ".join(repr(unnumbered(one.path)) for one in parts)
    have = "has" if len(parts) == 1 else "have"
    fused = repr(unnumbered(whole.path))
    done = "gets zeros for it" if is_join else "holds zeros for it, which go nowhere"
    side = "reference" if is_join else "candidate"
    return f"{names} of the {side} {have} no bias, unlike what is fused with it: {fused} {done}"
