"""Fused projections against split ones: qkv and gate-up, in blocks or interleaved by group."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.pairing.kinds import kind_of
from padiff.pairing.names import words_of
from padiff.pairing.result import PairedBy

from .entry_pairs import holds
from .fused_layouts import (
    MANY_PARTS,
    Layout,
    Parts,
    doubted,
    heads_around,
    layouts_of,
    pairs_under,
    rows_of,
)
from .unit_keys import nearest
from .weight_plan import WeightChoice, WeightPair, WeightWay

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .inventory import Entry, Inventory, Unit
    from .unit_pairs import UnitSearch

__all__ = ["Fused", "pair_fused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roles:
    """Words of the parts that authors fuse, in the usual order."""

    names: tuple[str, ...]
    meaning: tuple[str, ...]


_GATED = ("gate", "up")
_ROLES = (
    _Roles(names=("q", "k", "v"), meaning=("q", "k", "v")),
    _Roles(names=_GATED, meaning=_GATED),
    _Roles(names=("w1", "w3"), meaning=_GATED),
    _Roles(names=("k", "v"), meaning=("k", "v")),
)
_NAMED, _GUESS = 0.6, 0.3
_MANY_LONE = 64
"""More lone units in one scope say that the scopes are not known, and nothing is tried."""
_MATRIX = 2
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
    are ambiguous and list the other layouts.
    """
    found: list[Fused] = []
    scopes = search.scopes()
    for is_join in (True, False):
        whole, parts = (1, 0) if is_join else (0, 1)
        lone = (search.left, search.right)
        wholes = _by_scope(search.sides[whole], lone[whole], scopes[whole])
        others = _by_scope(search.sides[parts], lone[parts], scopes[parts])
        for scope, units in wholes.items():
            fillings = _filled(search, units, others.get(scope, []), is_join=is_join)
            found += [_taken(search, filling) for filling in fillings]
        lone = (search.left, search.right)
        rest = _in_order(search, lone[whole], lone[parts], is_join=is_join)
        found += [_taken(search, filling) for filling in list(rest)]
    return Fused(
        pairs=tuple(pair for one in found for pair in one.pairs),
        choices=tuple(choice for one in found for choice in one.choices),
    )


def _taken(search: UnitSearch, filling: _Filling) -> Fused:
    """Pair what fills a fused unit, and take it out of the search."""
    made = _fill(filling)
    if made.pairs:
        search.drop([filling.unit, *filling.parts.units])
    return made


def _filled(
    search: UnitSearch, units: Sequence[Unit], others: Sequence[Unit], *, is_join: bool
) -> list[_Filling]:
    """Give the units of a scope that others fill, with these, each other once."""
    found: list[_Filling] = []
    used: set[int] = set()
    late: list[Unit] = []
    for unit in units:
        free = [other for other in others if id(other) not in used]
        members = _members(unit, free) if len(free) <= _MANY_LONE else None
        if members is None:
            lone = (search.left, search.right)[0 if is_join else 1]
            members = _told_by_values(search.sides, 1 if is_join else 0, unit, lone)
        if members is None:
            late.append(unit)
            continue
        used.update(map(id, members.units))
        found.append(_Filling(sides=search.sides, unit=unit, parts=members, is_join=is_join))
    free = [other for other in others if id(other) not in used]
    return [*found, *_in_order(search, late, free, is_join=is_join)]


def _in_order(
    search: UnitSearch, units: Sequence[Unit], others: Sequence[Unit], *, is_join: bool
) -> Iterator[_Filling]:
    """Pair fused units of one size with as many families of siblings that fill them, in order.

    As where one author has a list of blocks, and another one list of attentions and networks.
    """
    families: dict[str, list[Unit]] = {}
    for other in others:
        families.setdefault(other.path.rpartition(".")[0], []).append(other)
    alike: dict[object, list[Unit]] = {}
    for unit in units:
        if (rows := rows_of(unit)) is not None:
            alike.setdefault((rows, unit.path.rpartition(".")[2]), []).append(unit)
    taken: set[str] = set()
    for peers in alike.values():
        fitting = {
            path: found
            for path, family in families.items()
            if path not in taken and (found := _members(peers[0], family)) and found.roles
        }
        if len(fitting) == len(peers):
            taken.update(fitting)
            for unit, parts in zip(peers, fitting.values(), strict=True):
                yield _Filling(
                    sides=search.sides, unit=unit, parts=parts, is_join=is_join, is_placed=False
                )


def _by_scope(
    side: Inventory, units: Iterable[Unit], table: Mapping[int, int]
) -> dict[int | None, list[Unit]]:
    found: dict[int | None, list[Unit]] = {}
    for unit in units:
        found.setdefault(nearest(side, unit, table), []).append(unit)
    return found


def _members(unit: Unit, others: Sequence[Unit]) -> Parts | None:
    """Find the units that fill a fused one: those of its roles, or all that there are."""
    whole = rows_of(unit)
    if whole is None:
        return None
    parts = [(other, rows) for other in others if (rows := rows_of(other)) and rows[1] == whole[1]]
    for roles in _ROLES:
        names = roles.names
        chosen = _of_roles(parts, names)
        is_named = {*names} <= unit.place.words or names[0] not in {"q", "k"}
        is_filled = bool(chosen) and sum(rows[0] for _, rows in chosen) == whole[0]
        if is_filled and (is_named or len(names) > _MATRIX):
            return Parts(units=tuple(other for other, _ in chosen), roles=roles.meaning)
    is_all = 1 < len(parts) <= MANY_PARTS and sum(rows[0] for _, rows in parts) == whole[0]
    return Parts(units=tuple(other for other, _ in parts)) if is_all else None


def _told_by_values(
    sides: tuple[Inventory, Inventory], whole: int, unit: Unit, others: Iterable[Unit]
) -> Parts | None:
    """Find the siblings whose extremes, taken together, are those of a fused unit."""
    wanted, size = _extremes(sides[whole], [unit]), rows_of(unit)
    if wanted is None or size is None:
        return None
    families: dict[int | None, list[Unit]] = {}
    for other in others:
        rows = rows_of(other)
        if rows is not None and rows[1] == size[1]:
            families.setdefault(other.module.parent, []).append(other)
    fitting = [
        family
        for family in families.values()
        if 1 < len(family) <= MANY_PARTS
        and sum(rows[0] for other in family if (rows := rows_of(other))) == size[0]
        and _extremes(sides[1 - whole], family) == wanted
    ]
    return Parts(units=tuple(fitting[0])) if len(fitting) == 1 else None


def _extremes(side: Inventory, units: Sequence[Unit]) -> tuple[float, float] | None:
    """Give the extremes of the main entries, None where they are not known or all the same."""
    values = [side.value(unit.main) for unit in units]
    lows = [value.statistics.minimum for value in values if value is not None]
    highs = [value.statistics.maximum for value in values if value is not None]
    known = [low for low in lows if low is not None], [high for high in highs if high is not None]
    if len(known[0]) != len(units) or len(known[1]) != len(units):
        return None
    low, high = min(known[0]), max(known[1])
    return None if low == high else (low, high)


def _of_roles(
    parts: Sequence[tuple[Unit, tuple[int, tuple[int, ...]]]], roles: Sequence[str]
) -> list[tuple[Unit, tuple[int, tuple[int, ...]]]]:
    chosen = []
    for role in roles:
        fitting = [part for part in parts if role in _leaf_words(part[0])]
        if len(fitting) != 1:
            return []
        chosen.append(fitting[0])
    return chosen


def _leaf_words(unit: Unit) -> frozenset[str]:
    leaf = unit.path.rpartition(".")[2]
    return words_of(leaf) | {leaf.lower()}


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
        is_gated = self.parts.roles == _GATED and self.parts.spelled(self.leaf) == (0, 1)
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
