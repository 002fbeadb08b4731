"""Which units of the other side lie side by side in a fused one: by their roles or their values.

A part may lack what the others have: the key of Whisper, BEIT and Swin v2 has no bias, its query
and value have one. Fused they have one bias; what the key lacks is zeros there. That is so only
where it is meant: a bias that went missing is told from one that never was by layers alike, and by
what lies beside.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from heapq import merge
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpError
from padiff.pairing.names import words_of

from .fused_layouts import MANY_PARTS, Parts, rows_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from .fused_layouts import Layout
    from .inventory import Entry, Inventory, Unit

__all__ = ["GATED", "NOT_EMPTY", "Families", "Lacking", "filled", "is_empty", "zeros_note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Roles:
    """Words of the parts that authors fuse, in the usual order."""

    names: tuple[str, ...]
    meaning: tuple[str, ...]


GATED = ("gate", "up")
_ROLES = (
    _Roles(names=("q", "k", "v"), meaning=("q", "k", "v")),
    _Roles(names=GATED, meaning=GATED),
    _Roles(names=("w1", "w3"), meaning=GATED),
    _Roles(names=("k", "v"), meaning=("k", "v")),
)
_MANY_LONE = 64
"""More lone units in one scope say that the scopes are not known, and nothing is tried."""
_MATRIX = 2
_Rows = tuple[int, tuple[int, ...]]
_Sized = tuple["Unit", _Rows]
_Kin = tuple[int | None, tuple[int, ...]]
"""Parent of siblings, and the lengths besides the rows that they have in common."""


class Families:
    """Lone siblings of one side, by what they fill together and what its extremes are."""

    def __init__(self, side: Inventory, units: Iterable[Unit]) -> None:
        """Gather them; each unit is measured once."""
        self._side = side
        self._kin: dict[int, _Kin] = {}
        self._members: dict[_Kin, dict[int, _Sized]] = defaultdict(dict)
        self._filling: dict[Hashable, dict[_Kin, None]] = defaultdict(dict)
        for unit in units:
            rows = rows_of(unit)
            if rows is not None:
                self._kin[id(unit)] = kin = unit.module.parent, rows[1]
                self._members[kin][id(unit)] = unit, rows
        for kin in self._members:
            self._filling[self._filled(kin)][kin] = None

    def of_values(self, side: Inventory, unit: Unit) -> Parts | None:
        """Find the siblings whose extremes, taken together, are those of a fused unit.

        Args:
            side: The side of the fused unit.
            unit: The fused unit.
        """
        wanted, rows = _extremes(side, [unit]), rows_of(unit)
        if wanted is None or rows is None:
            return None
        fitting = self._filling.get((rows, wanted), {})
        if len(fitting) != 1:
            return None
        return Parts(units=tuple(one for one, _ in self._members[next(iter(fitting))].values()))

    def take(self, units: Iterable[Unit]) -> None:
        """Take units out that were paired."""
        for unit in units:
            kin = self._kin.get(id(unit))
            if kin is not None:
                self._filling[self._filled(kin)].pop(kin, None)
                self._members[kin].pop(id(unit), None)
                self._filling[self._filled(kin)][kin] = None

    def _filled(self, kin: _Kin) -> Hashable:
        """Give rows, columns and extremes of what a family fills; None if it is none."""
        if not 1 < len(self._members[kin]) <= MANY_PARTS:
            return None
        family = list(self._members[kin].values())
        extremes = _extremes(self._side, [unit for unit, _ in family])
        rows = sum(rows for _, (rows, _) in family)
        return None if extremes is None else ((rows, kin[1]), extremes)


def filled(
    side: Inventory, units: Sequence[Unit], others: Sequence[Unit], families: Families
) -> Iterator[tuple[Unit, Parts]]:
    """Give the units of a scope that others fill, with these, each other once.

    Args:
        side: The side of the units.
        units: Lone units of a scope.
        others: Lone units of the other side in the same scope.
        families: All lone units of the other side.
    """
    free = {id(other): other for other in others}
    late: list[Unit] = []
    for unit in units:
        members = _members(unit, list(free.values())) if len(free) <= _MANY_LONE else None
        told = families.of_values(side, unit)
        if told is not None and (members is None or not told.is_of(members)):
            members = told  # values say more than names and sizes
        if members is None:
            late.append(unit)
            continue
        for other in members.units:
            free.pop(id(other), None)
        yield unit, members
    yield from _in_order(late, list(free.values()))


def _in_order(units: Sequence[Unit], others: Sequence[Unit]) -> Iterator[tuple[Unit, Parts]]:
    """Pair fused units of one size with as many families of siblings that fill them, in order.

    As where one author has a list of blocks, and another one list of attentions and networks.
    """
    alike: dict[tuple[_Rows, str], list[Unit]] = {}
    for unit, rows in _sized(units):
        alike.setdefault((rows, unit.path.rpartition(".")[2]), []).append(unit)
    by_path: dict[str, list[_Sized]] = {}
    for other in _sized(others) if alike else ():
        by_path.setdefault(other[0].path.rpartition(".")[0], []).append(other)
    families = list(by_path.values())
    known = _by_roles(families)
    taken: set[int] = set()
    for (rows, _), peers in alike.items():
        places = merge(*(known.get((roles.names, rows), ()) for roles in _ROLES))
        fitting: dict[int, Parts] = {}
        for place in places:
            found = None if place in taken else _of_rows(peers[0], rows, families[place])
            if found is not None and found.roles:
                fitting[place] = found
            if len(fitting) > len(peers):
                break
        if len(fitting) == len(peers):
            taken.update(fitting)
            yield from zip(peers, fitting.values(), strict=True)


def _by_roles(
    families: Sequence[Sequence[_Sized]],
) -> dict[tuple[tuple[str, ...], _Rows], list[int]]:
    """Give the places of the families whose roles fill so many rows, by the roles and the rows."""
    found: dict[tuple[tuple[str, ...], _Rows], list[int]] = defaultdict(list)
    for place, family in enumerate(families):
        for columns in {rows[1] for _, rows in family}:
            parts = [one for one in family if one[1][1] == columns]
            for roles in _ROLES:
                chosen = _of_roles(parts, roles.names)
                if chosen:
                    total = sum(rows[0] for _, rows in chosen)
                    found[roles.names, (total, columns)].append(place)
    return dict(found)


def _members(unit: Unit, others: Sequence[Unit]) -> Parts | None:
    """Find the units that fill a fused one: those of its roles, or all that there are."""
    whole = rows_of(unit)
    if whole is None:
        return None
    return _of_rows(unit, whole, _sized(others))


def _sized(units: Iterable[Unit]) -> list[_Sized]:
    return [(unit, rows) for unit in units if (rows := rows_of(unit)) is not None]


def _of_rows(unit: Unit, whole: _Rows, others: Sequence[_Sized]) -> Parts | None:
    parts = [(other, rows) for other, rows in others if rows[1] == whole[1]]
    for roles in _ROLES:
        names = roles.names
        chosen = _of_roles(parts, names)
        is_named = {*names} <= unit.words or names[0] not in {"q", "k"}
        is_filled = bool(chosen) and sum(rows[0] for _, rows in chosen) == whole[0]
        if is_filled and (is_named or len(names) > _MATRIX):
            return Parts(units=tuple(other for other, _ in chosen), roles=roles.meaning)
    is_all = 1 < len(parts) <= MANY_PARTS and sum(rows[0] for _, rows in parts) == whole[0]
    return Parts(units=tuple(other for other, _ in parts)) if is_all else None


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


def _of_roles(parts: Sequence[_Sized], roles: Sequence[str]) -> list[_Sized]:
    words = [_leaf_words(unit) for unit, _ in parts]
    chosen = []
    for role in roles:
        fitting = [part for part, said in zip(parts, words, strict=True) if role in said]
        if len(fitting) != 1:
            return []
        chosen.append(fitting[0])
    return chosen


def _leaf_words(unit: Unit) -> frozenset[str]:
    leaf = unit.path.rpartition(".")[2]
    return words_of(leaf) | {leaf.lower()}


NOT_EMPTY = "its part for a layer that has none on the other side is not zero"
"""Why a fused vector of the reference has no partner."""
_NUMBER = re.compile(r"\d+")


class Lacking:
    """Tells what the parts of one side lack, and whether that is meant."""

    def __init__(self, side: Inventory, lone: Iterable[Unit]) -> None:
        """Take the side of the parts, and its lone units."""
        self._side = side
        self._lone = list(lone)
        self._have: Mapping[str, set[str]] | None = None

    def is_meant(self, unit: Unit, atom: str) -> bool:
        """Tell whether a layer is one of those that have no such parameter.

        No layer of its name in another block has it, and no lone vector of its size lies beside.

        Args:
            unit: The layer.
            atom: Neutral name of the parameter: ``bias``.
        """
        if self._have is None:
            have: dict[str, set[str]] = defaultdict(set)
            for one in self._side.units:
                have[_form(one)].update(name for entry in one.entries for name in entry.atoms)
            self._have = have
        return atom not in self._have.get(_form(unit), ()) and not self._is_beside(unit)

    def _is_beside(self, unit: Unit) -> bool:
        rows, holders = rows_of(unit), {unit.holder, unit.module.id, unit.module.parent}
        return rows is None or any(
            prod(entry.shape) == rows[0] and not entry.is_buffer
            for one in self._lone
            if one.module.id in holders and not one.is_laid_out
            for entry in one.needed
        )


def is_empty(side: Inventory, layout: Layout, entry: Entry, parts: Sequence[Entry | int]) -> bool:
    """Tell whether a fused vector holds nothing but zeros where parts have none.

    Args:
        side: The side of the fused one.
        layout: How the parts lie in it.
        entry: The fused vector.
        parts: Of each its vector, or the rows that it would have.
    """
    if side.value(entry) is None:
        return False
    placed = [parts[place] for place in layout.order]
    shapes = [(part,) if isinstance(part, int) else part.shape for part in placed]
    rules = layout.join.then(entry.rule).inverses(shapes, entry.shape) or ()
    try:
        array = side.side.array(entry.record)
    except DumpError:
        return False
    gaps = [rule for rule, part in zip(rules, placed, strict=True) if isinstance(part, int)]
    return not any(np.any(rule.apply([array])) for rule in gaps)


def zeros_note(whole: Unit, parts: Sequence[Unit], *, is_join: bool) -> str:
    """Say that a fused vector has zeros where a part has none; alike for like layers.

    Args:
        whole: The fused layer.
        parts: Those that lack it.
        is_join: Whether the fused one is the candidate's.
    """
    names = " and ".join(repr(_form(one)) for one in parts)
    have = "has" if len(parts) == 1 else "have"
    if is_join:
        done = f"{_form(whole)!r} gets zeros for it"
    else:
        done = f"{_form(whole)!r} holds zeros for it, which go nowhere"
    side = "reference" if is_join else "candidate"
    return f"{names} of the {side} {have} no bias, unlike what is fused with it: {done}"


def _form(unit: Unit) -> str:
    return _NUMBER.sub("#", unit.path)
