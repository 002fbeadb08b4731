"""Which unit of the reference is which of the candidate: by values, names, places, words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice, product
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.result import ModulePair, PairedBy

from .apart import exploded, freed, recurrent_parts
from .inventory import UnitPair
from .resolve import LIKELY, MAX_OTHERS, resolve
from .unit_keys import (
    Key,
    bulk,
    by_content,
    by_path,
    by_scope,
    by_stride,
    by_value,
    is_own_stack,
    loose,
    of_forms,
    paths_of,
    remembered,
    strict,
    stride_of,
    told_strides,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from .inventory import Entry, Inventory, Unit

Numbers = npt.NDArray[np.int64]
_MAX_MET, _MIN_LEVELS = 1_000_000, 8
"""So many meetings of two modules around paired units are counted, about; at least so many
modules around each unit."""


class UnitSearch:
    """The units that are still alone, and the pairs found so far; each unit is paired once."""

    def __init__(self, reference: Inventory, candidate: Inventory) -> None:
        """Start with all units of both sides alone."""
        self.sides = (reference, candidate)
        self.left: list[Unit] = list(reference.units)
        self.right: list[Unit] = list(candidate.units)
        self.pairs: list[UnitPair] = []
        self._changes = 0
        """How often units or pairs came or went."""
        self._barren: dict[Hashable, int] = {}
        """By what units were asked to have in common, the changes at which that gave nothing."""
        self._untold: dict[Hashable, tuple[list[Unit], list[Unit]]] = {}
        """Units among which nothing tells partners, by Python's ids: they are not asked again."""
        self._kind = kind = of_forms(strict)
        self._strides = told = told_strides(self.sides, kind)
        keys = kind, remembered(loose)
        self._same, self._loose = same, far = [by_stride(key, kind, told) for key in keys]
        self._known: list[tuple[int, int]] = []
        self._scoped: tuple[int, tuple[Mapping[int, int], Mapping[int, int]]] | None = None
        """The scopes, and the count of pairs that they were made of."""
        self._paths = paths = paths_of(self.sides)
        self._by_value = by_value(same), by_value(far)
        self._by_path = by_path(same, paths, self.sides), by_path(far, paths, self.sides)
        self._told = [by_content(key, self._by_value[0], self.sides) for key in (same, far)]

    def know(self, modules: Sequence[ModulePair]) -> None:
        """Pair the units of modules that are known to be partners."""
        self._known = [(pair.reference, pair.candidate) for pair in modules]
        every = _from_modules(self.left, self.right, modules)
        self.pairs = found = [pair for pair in every if self._is_possible(pair)]
        scopes = self.scopes()
        self.pairs, self._scoped = [], None
        self.take(_without_crossing(self.sides, found, scopes, self._same))

    def free(self, surplus: Mapping[int, Sequence[Entry]]) -> None:
        """Let some entries of units that are paired be paired apart from them.

        Args:
            surplus: By Python's id of a unit: its entries that its partner has no place for.
        """
        if not surplus:
            return
        kept: list[UnitPair] = []
        for pair in self.pairs:
            parts = [
                freed(unit, surplus.get(id(unit), ())) for unit in (pair.reference, pair.candidate)
            ]
            self.left += parts[0][1:]
            self.right += parts[1][1:]
            kept.append(replace(pair, reference=parts[0][0], candidate=parts[1][0]))
        self.pairs, self._scoped = kept, None
        self._changes += 1

    def suppose(self, modules: Sequence[ModulePair]) -> None:
        """Pair what is left as modules are paired that are not known for sure to be partners."""
        self.take(_from_modules(self.left, self.right, modules))

    def find(self) -> None:
        """Pair what values, names, places and words single out.

        A copy of what the other side holds, too, is no partner for what nothing is known of: it
        waits for ``guess``.
        """
        same, far = self._told
        self._meet(self._by_value[0], PairedBy.VALUE)
        self._meet(self._by_value[1], PairedBy.VALUE, is_strict=False)
        self._meet(self._by_path[0], PairedBy.NAME)
        self._meet(same, PairedBy.STRUCTURE)
        self._meet(self._by_path[1], PairedBy.NAME, is_strict=False)
        for key, is_strict in ((same, True), (same, True), (far, False)):
            self._meet(key, PairedBy.STRUCTURE, is_strict=is_strict, is_scoped=True)

    def guess(self) -> None:
        """Pair what is left by sizes and order; what nothing tells apart gets low confidence."""
        if any(map(is_own_stack, self.left)) or any(map(is_own_stack, self.right)):
            self._meet(by_path(bulk, self._paths, self.sides), PairedBy.NAME, is_strict=False)
        self._meet(self._same, PairedBy.STRUCTURE, is_last=True)
        self._meet(self._loose, PairedBy.STRUCTURE, is_strict=False, is_last=True)

    def explode(self) -> None:
        """Take lone attention units apart into their projections, and recurrent ones into cells."""
        sides = self.left, self.right
        parts = recurrent_parts(*sides), recurrent_parts(*sides[::-1])
        self.left, self.right = (
            [part for unit in side for part in exploded(unit)] for side in parts
        )
        if [*map(id, self.left + self.right)] != [id(unit) for side in sides for unit in side]:
            self._changes += 1

    def take(self, pairs: Iterable[UnitPair]) -> None:
        """Add pairs, and take their units out of the search."""
        found = list(pairs)
        self.pairs += found
        self.drop(unit for pair in found for unit in (pair.reference, pair.candidate))

    def drop(self, units: Iterable[Unit]) -> None:
        """Take units out that were paired."""
        done = {id(unit) for unit in units}
        if done:
            self._changes += 1
            self.left = [unit for unit in self.left if id(unit) not in done]
            self.right = [unit for unit in self.right if id(unit) not in done]

    def put_back(self, unit: Unit, side: int) -> None:
        """Let what is left of a unit that was paired be searched for."""
        (self.left, self.right)[side].append(unit)
        self._changes += 1

    def _meet(
        self,
        key: Key,
        paired_by: PairedBy,
        *,
        is_strict: bool = True,
        is_last: bool = False,
        is_scoped: bool = False,
    ) -> None:
        """Pair the units that have the same key, as far as anything tells them apart.

        What gave nothing gives nothing again while no unit and no pair came or went.
        """
        asked = key, is_last, is_scoped
        if not self.left or not self.right or self._barren.get(asked) == self._changes:
            return
        lone: list[UnitPair] = []
        ordered: list[UnitPair] = []
        for ours, theirs in self._buckets(by_scope(key, self.scopes()) if is_scoped else key):
            bucket = is_strict, is_last, tuple(map(id, ours)), tuple(map(id, theirs))
            if bucket in self._untold:
                continue
            pairs = resolve(ours, theirs, paired_by, is_strict=is_strict, is_last=is_last)
            if len(ours) == len(theirs) == 1:
                lone += pairs
            else:
                ordered += pairs
            if not pairs:
                self._untold[bucket] = ours, theirs
        before = self._changes
        self.take(map(self._settled, lone))
        if ordered and not is_last:  # containers that lone ones tell come before an order
            ordered = _without_crossing(self.sides, ordered, self.scopes(), self._same)
        self.take(map(self._settled, ordered))
        if self._changes == before:
            self._barren[asked] = before

    def _settled(self, pair: UnitPair) -> UnitPair:
        """Take no offence at a choice between buffers that hold the same."""
        units = (pair.reference, *pair.alternatives)
        if not 1 < len(units) <= MAX_OTHERS:
            return pair
        contents = {_content(self.sides[0], unit) for unit in units}
        if len(contents) > 1 or None in contents:
            return pair
        return replace(pair, confidence=LIKELY, alternatives=())

    def _buckets(self, key: Key) -> list[tuple[list[Unit], list[Unit]]]:
        """Return the units of both sides that have the same key."""
        tables: list[dict[Hashable, list[Unit]]] = [{}, {}]
        for table, side, units in zip(tables, self.sides, (self.left, self.right), strict=True):
            for unit in units:
                found = key(side, unit)
                if found in table:
                    table[found].append(unit)
                elif found is not None:
                    table[found] = [unit]
        return [(ours, tables[1][found]) for found, ours in tables[0].items() if found in tables[1]]

    def _is_possible(self, pair: UnitPair) -> bool:
        """Return whether no stride says that two units of modules are no partners."""
        if not self._strides or self._kind(self.sides[0], pair.reference) not in self._strides:
            return True
        return stride_of(pair.reference.module) == stride_of(pair.candidate.module)

    def even(self) -> set[int]:
        """Return Python's ids of the lone units of which both sides have as many of one shape.

        Copies of what both sides hold are counted by themselves.
        """
        return {
            id(unit)
            for ours, theirs in self._buckets(self._told[0])
            if len(ours) == len(theirs)
            for unit in (*ours, *theirs)
        }

    def scopes(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Return partner modules around paired units a common number."""
        if self._scoped is None or self._scoped[0] != len(self.pairs):
            self._scoped = len(self.pairs), self._made_scopes()
        return self._scoped[1]

    def _made_scopes(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        votes: Counter[tuple[int, int]] = Counter(dict.fromkeys([(0, 0), *self._known], 1))
        levels = max(_MIN_LEVELS, isqrt(_MAX_MET // max(1, len(self.pairs))))
        holders = Counter((pair.reference.holder, pair.candidate.holder) for pair in self.pairs)
        for (one, two), count in holders.items():
            theirs = list(islice(self.sides[1].outward(two), levels))
            for met in product(islice(self.sides[0].outward(one), levels), theirs):
                votes[met] += count
        pairs, counts = np.array([*votes], np.int64), np.array([*votes.values()], np.int64)
        best = _best(pairs[:, 0], pairs[:, 1], counts), _best(pairs[:, 1], pairs[:, 0], counts)
        mutual = {one: two for one, two in best[0].items() if best[1].get(two) == one}
        return mutual, {two: two for two in mutual.values()}


def _best(ours: Numbers, theirs: Numbers, votes: Numbers) -> dict[int, int]:
    """Return each module the partner that shares the largest part of its paired content."""
    totals = np.zeros(theirs.max() + 1, np.int64)
    np.maximum.at(totals, theirs, votes)
    order = np.lexsort((theirs, -(votes + votes / (totals[theirs] + 1)), ours))
    found, first = np.unique(ours[order], return_index=True)
    return dict(zip(found.tolist(), theirs[order][first].tolist(), strict=True))


def _from_modules(
    left: Sequence[Unit], right: Sequence[Unit], modules: Sequence[ModulePair]
) -> list[UnitPair]:
    ours = {unit.module.id: unit for unit in left}
    theirs = {unit.module.id: unit for unit in right}
    return [
        UnitPair(
            reference=ours[pair.reference],
            candidate=theirs[pair.candidate],
            paired_by=pair.paired_by,
            confidence=pair.confidence,
        )
        for pair in modules
        if pair.reference in ours and pair.candidate in theirs
    ]


def _content(side: Inventory, unit: Unit) -> tuple[str, ...] | None:
    """Return the digests of a unit of buffers; None where it trains or values are unknown."""
    values = [side.value(entry) for entry in unit.entries if entry.is_buffer]
    if len(values) < len(unit.entries) or None in values:
        return None
    return tuple(value.digest for value in values if value is not None)


def _without_crossing(
    sides: tuple[Inventory, Inventory],
    pairs: Sequence[UnitPair],
    scopes: tuple[Mapping[int, int], Mapping[int, int]],
    key: Key,
) -> list[UnitPair]:
    """Drop the pairs that leave a container whose partner has as many units of their kind.

    A norm of one block is not the norm of another, however two runs line up. With such pairs go
    the others of this kind inside: where one left, the order has shifted.

    Args:
        sides: Reference and candidate.
        pairs: Pairs to look at.
        scopes: Number of each container that has a partner, on each side.
        key: What two units must have in common to be partners.
    """
    known: tuple[dict[int | None, frozenset[int]], ...] = ({}, {})

    def above(at: int, unit: Unit) -> frozenset[int]:
        """Return the numbers of the containers with partners around a unit."""
        if unit.holder not in known[at]:
            outer = sides[at].around(unit)
            known[at][unit.holder] = frozenset(
                scopes[at][one] for one in outer if one in scopes[at]
            )
        return known[at][unit.holder]

    around = [
        (key(sides[0], pair.reference), above(0, pair.reference), above(1, pair.candidate))
        for pair in pairs
    ]
    crossing = {(number, kind) for kind, ours, theirs in around for number in ours ^ theirs}
    if not crossing:
        return list(pairs)
    wanted = {kind for _, kind in crossing}
    held = [
        Counter(
            (number, kind)
            for unit in side.units
            if (kind := key(side, unit)) in wanted
            for number in above(at, unit)
        )
        for at, side in enumerate(sides)
    ]
    left = {place for place in crossing if held[0][place] == held[1][place] > 0}
    return [
        pair
        for pair, (kind, ours, theirs) in zip(pairs, around, strict=True)
        if not any((number, kind) in left for number in ours | theirs)
    ]
