"""Fused projections against split ones: qkv and gate-up, in blocks or interleaved by group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from math import gcd
from typing import TYPE_CHECKING

from padiff.pairing.kinds import kind_of
from padiff.pairing.names import words_of
from padiff.pairing.result import PairedBy
from padiff.pairing.rule import Rule

from .entry_pairs import holds
from .unit_keys import nearest
from .weight_plan import Alternative, WeightPair

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .inventory import Entry, Inventory, Unit
    from .unit_pairs import UnitSearch

__all__ = ["pair_fused"]

_ROLES: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("q", "k", "v"),),
    (("gate", "up"), ("w1", "w3")),
    (("k", "v"),),
)
"""Words of the parts that authors fuse, in the usual order."""
_NAMED, _GUESS = 0.6, 0.3
_MANY_PARTS = 4
_MANY_LONE = 64
"""More lone units in one scope say that the scopes are not known, and nothing is tried."""
_MATRIX = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """A way to lay the parts out in the fused one."""

    order: tuple[int, ...]
    """Which part comes first, second …"""
    groups: int
    """1 for blocks; else the parts alternate in so many groups."""

    @property
    def join(self) -> Rule:
        """Give the rule that fuses parts given in order."""
        return Rule.parse("concat 0" if self.groups == 1 else f"interleave {self.groups}")


def pair_fused(search: UnitSearch) -> list[WeightPair]:
    """Pair each lone unit with several lone units of the other side that together fill it.

    The units that were paired leave the search. Where values do not tell the layout, the pairs
    are ambiguous and list the other layouts.
    """
    found: list[WeightPair] = []
    scopes = search.scopes()
    used: set[int] = set()
    for is_join in (True, False):
        whole, parts = (1, 0) if is_join else (0, 1)
        lone = (search.left, search.right)
        by_scope = _by_scope(search.sides[parts], lone[parts], scopes[parts])
        for unit in list(lone[whole]):
            scope = nearest(search.sides[whole], unit, scopes[whole])
            others = [other for other in by_scope.get(scope, []) if id(other) not in used]
            members = _members(unit, others) if len(others) <= _MANY_LONE else []
            if not members:
                lone_now = (search.left, search.right)[parts]
                members = _told_by_values(search.sides, whole, unit, lone_now)
            if not members:
                continue
            pairs = _fill(search.sides, unit, members, is_join=is_join)
            if pairs:
                found += pairs
                search.drop([unit, *members])
                used.update(map(id, members))
    return found


def _by_scope(
    side: Inventory, units: Iterable[Unit], table: Mapping[int, int]
) -> dict[int | None, list[Unit]]:
    found: dict[int | None, list[Unit]] = {}
    for unit in units:
        found.setdefault(nearest(side, unit, table), []).append(unit)
    return found


def _rows(unit: Unit) -> tuple[int, tuple[int, ...]] | None:
    """Give rows and other lengths of the main entry in the neutral layout."""
    entry = unit.main
    inverse = entry.rule.inverse
    if inverse is None or len(entry.shape) < _MATRIX:
        return None
    shape = inverse.shape_of([entry.shape], entry.shape)
    return shape[0], shape[1:]


def _members(unit: Unit, others: Sequence[Unit]) -> list[Unit]:
    """Find the units that fill a fused one: those of its roles, or all that there are."""
    whole = _rows(unit)
    if whole is None:
        return []
    parts = [(other, rows) for other in others if (rows := _rows(other)) and rows[1] == whole[1]]
    for choices in _ROLES:
        for roles in choices:
            chosen = _of_roles(parts, roles)
            is_named = {*roles} <= unit.place.words or roles[0] not in {"q", "k"}
            if chosen and sum(rows[0] for _, rows in chosen) == whole[0] and is_named:
                return [other for other, _ in chosen]
            if chosen and sum(rows[0] for _, rows in chosen) == whole[0] and len(roles) > _MATRIX:
                return [other for other, _ in chosen]
    is_all = 1 < len(parts) <= _MANY_PARTS and sum(rows[0] for _, rows in parts) == whole[0]
    return [other for other, _ in parts] if is_all else []


def _told_by_values(
    sides: tuple[Inventory, Inventory], whole: int, unit: Unit, others: Iterable[Unit]
) -> list[Unit]:
    """Find the siblings whose extremes, taken together, are those of a fused unit."""
    wanted, size = _extremes(sides[whole], [unit]), _rows(unit)
    if wanted is None or size is None:
        return []
    families: dict[int | None, list[Unit]] = {}
    for other in others:
        rows = _rows(other)
        if rows is not None and rows[1] == size[1]:
            families.setdefault(other.module.parent, []).append(other)
    fitting = [
        family
        for family in families.values()
        if 1 < len(family) <= _MANY_PARTS
        and sum(rows[0] for other in family if (rows := _rows(other))) == size[0]
        and _extremes(sides[1 - whole], family) == wanted
    ]
    return fitting[0] if len(fitting) == 1 else []


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


def _fill(
    sides: tuple[Inventory, Inventory], unit: Unit, members: Sequence[Unit], *, is_join: bool
) -> list[WeightPair]:
    """Pair all entries of a fused unit with those of its parts, under one layout."""
    atoms = [{entry.atoms[0]: entry for entry in member.entries} for member in members]
    pairs: list[WeightPair] = []
    layouts = _layouts(members)
    is_known = kind_of(unit.module) == "attention"
    settled: _Layout | None = layouts[0] if is_known else None
    for entry in sorted(unit.entries, key=lambda entry: entry is not unit.main):
        parts = [table.get(entry.atoms[0]) for table in atoms]
        known = [part for part in parts if part is not None]
        if len(known) != len(parts):
            return []
        if settled is None:
            settled = _seen(sides, entry, known, layouts, is_join=is_join)
        made = _pairs(entry, known, settled or layouts[0], is_join=is_join)
        if made is None:
            return []
        if settled is None:
            others = [_pairs(entry, known, layout, is_join=is_join) for layout in layouts[1:]]
            made = _doubted(made, [other for other in others if other], _trust(unit, members))
        elif not is_known:
            made = [replace(pair, paired_by=PairedBy.VALUE) for pair in made]
        pairs += made
    return pairs


def _layouts(members: Sequence[Unit]) -> list[_Layout]:
    """Give the layouts in which the parts can lie, the usual one first."""
    usual = tuple(range(len(members)))
    rows = [found[0] for member in members if (found := _rows(member))]
    common = gcd(*rows) if rows else 1
    orders = list(permutations(usual)) if len(usual) < _MANY_PARTS else [usual]
    groups = [number for number in range(1, min(common, 256) + 1) if common % number == 0]
    groups += [common] if common > groups[-1] else []  # element by element
    return [_Layout(order=order, groups=number) for order in orders for number in groups]


def _seen(
    sides: tuple[Inventory, Inventory],
    entry: Entry,
    parts: Sequence[Entry],
    layouts: Sequence[_Layout],
    *,
    is_join: bool,
) -> _Layout | None:
    """Find the layout under which both sides hold the same values already."""
    if sides[1 if is_join else 0].value(entry) is None:
        return None
    for layout in layouts:
        pairs = _pairs(entry, parts, layout, is_join=is_join) or []
        by_record = {one.record.id: one for one in (entry, *parts)} if is_join else {}
        results = []
        for pair in pairs:
            sources = [by_record[record] for record in pair.reference] if is_join else [entry]
            target = entry if is_join else _by_id(parts, pair.candidate)
            results.append(holds(sides, sources, pair.rule, target))
        if results and all(results):
            return layout
    return None


def _by_id(parts: Sequence[Entry], record: int) -> Entry:
    return next(part for part in parts if part.record.id == record)


def _pairs(
    entry: Entry, parts: Sequence[Entry], layout: _Layout, *, is_join: bool
) -> list[WeightPair] | None:
    """Write a layout down as pairs; None if it does not fit the shapes."""
    ordered = [parts[place] for place in layout.order]
    inner = {part.rule.inverse for part in ordered}
    before = inner.pop()
    if inner or before is None:
        return None
    whole_rule = before.then(layout.join).then(entry.rule)
    shapes = [part.shape for part in ordered]
    if not whole_rule.fits(shapes, entry.shape):
        return None
    ids = tuple(part.record.id for part in ordered)
    if is_join:
        return [
            WeightPair(
                reference=ids,
                candidate=entry.record.id,
                rule=whole_rule,
                paired_by=PairedBy.STRUCTURE,
            )
        ]
    rules = whole_rule.inverses(shapes, entry.shape)
    return (
        None
        if rules is None
        else [
            WeightPair(
                reference=(entry.record.id,),
                candidate=part.record.id,
                rule=rule,
                paired_by=PairedBy.STRUCTURE,
            )
            for part, rule in zip(ordered, rules, strict=True)
        ]
    )


def _trust(unit: Unit, members: Sequence[Unit]) -> float:
    """Say how sure blocks in the usual order are: only gate and up by a name in that order."""
    leaf = unit.path.rpartition(".")[2].lower()
    words = [_leaf_words(member) for member in members]
    is_gated = "gate" in words[0] and "up" in words[-1]
    return _NAMED if is_gated and 0 <= leaf.find("gate") < leaf.find("up") else _GUESS


def _doubted(
    made: Sequence[WeightPair], others: Sequence[Sequence[WeightPair]], trust: float
) -> list[WeightPair]:
    doubted = []
    for pair in made:
        options = {
            (option.reference, option.rule)
            for other in others
            for option in other
            if option.candidate == pair.candidate
        }
        shown = sorted(
            options - {(pair.reference, pair.rule)}, key=lambda o: (len(str(o[1])), str(o))
        )
        shown = _usual_first(shown, pair.reference)
        doubted.append(
            replace(
                pair,
                confidence=trust,
                alternatives=tuple(Alternative(reference=r, rule=rule) for r, rule in shown[:8]),
                note="fused; only equal values or a map can tell the layout",
            )
        )
    return doubted


def _usual_first(
    options: Sequence[tuple[tuple[int, ...], Rule]], usual: tuple[int, ...]
) -> list[tuple[tuple[int, ...], Rule]]:
    """Put the options that keep the usual order of the parts before those that change it."""
    first = [option for option in options if option[0] == usual]
    return [*first, *(option for option in options if option[0] != usual)]
