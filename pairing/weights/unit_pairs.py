"""Which unit of the reference is which of the candidate: by values, names, places, words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice, product
from math import isqrt
from typing import TYPE_CHECKING

from padiff.pairing.result import ModulePair, PairedBy

from .crossing import by_stride, stride_of, told_strides, without_crossing
from .inventory import UnitPair, exploded, freed
from .recurrent import cells_in, is_whole, recurrent_parts
from .told_words import told_by_words
from .unit_keys import (
    Key,
    Paths,
    bulk,
    by_path,
    by_scope,
    by_value,
    is_own_stack,
    loose,
    remembered,
    strict,
    trim,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from .inventory import Entry, Inventory, Unit

__all__ = ["UnitSearch"]

_TOLD, _ORDERED, _LIKELY, _GUESS = 0.9, 0.7, 0.6, 0.3
_MAX_OTHERS = 8
"""So many other units are named for a guess."""
_PRODUCTS = ("linear", "conv1d", "conv2d", "conv3d")
_MAX_MET, _MIN_LEVELS = 1_000_000, 8
"""So many meetings of two modules around paired units are counted, about; at least so many
modules around each unit."""
_ALIKE = (
    _PRODUCTS,
    ("embedding", "embedding_bag"),
    ("layer_norm", "group_norm", "instance_norm", "rms_norm"),
    ("lstm", "gru", "rnn", "cell_runner", "cell_runner2"),
    *((f"conv{n}d", f"conv_transpose{n}d") for n in (1, 2, 3)),
)
"""Kinds that can stand in for each other, or that names and shapes alone do not tell apart."""


class UnitSearch:
    """The units that are still alone, and the pairs found so far; each unit is paired once."""

    def __init__(self, reference: Inventory, candidate: Inventory) -> None:
        """Start with all units of both sides alone."""
        self.sides = (reference, candidate)
        self.left: list[Unit] = list(reference.units)
        self.right: list[Unit] = list(candidate.units)
        self.pairs: list[UnitPair] = []
        self._same = remembered(strict)
        self._strides = told_strides(self.sides, self._same)
        self._known: list[tuple[int, int]] = []
        self._scoped: tuple[int, tuple[Mapping[int, int], Mapping[int, int]]] | None = None
        """The scopes, and the count of pairs that they were made of."""
        self._loose = remembered(loose)
        paths = Paths(
            (
                trim([unit.path for unit in reference.units]),
                trim([unit.path for unit in candidate.units]),
            )
        )
        self._paths = paths
        self._by_path = (
            by_path(self._same, paths, self.sides),
            by_path(self._loose, paths, self.sides),
        )

    def know(self, modules: Sequence[ModulePair]) -> None:
        """Pair the units of modules that are known to be partners."""
        self._known = [(pair.reference, pair.candidate) for pair in modules]
        found = _from_modules(self.left, self.right, modules)
        self.pairs = found
        scopes = self.scopes()
        self.pairs, self._scoped = [], None
        self.take(without_crossing(self.sides, found, scopes, self._same, self._strides))

    def free(self, surplus: Mapping[int, Sequence[Entry]]) -> None:
        """Let some entries of units that are paired be paired apart from them.

        Args:
            surplus: By Python's id of a unit: its entries that its partner has no place for.
        """
        first = 1 + max((unit.id for side in self.sides for unit in side.units), default=0)
        kept: list[UnitPair] = []
        for pair in self.pairs:
            parts = [
                freed(unit, surplus.get(id(unit), ()), first)
                for unit in (pair.reference, pair.candidate)
            ]
            self.left += parts[0][1:]
            self.right += parts[1][1:]
            kept.append(replace(pair, reference=parts[0][0], candidate=parts[1][0]))
        self.pairs, self._scoped = kept, None

    def suppose(self, modules: Sequence[ModulePair]) -> None:
        """Pair what is left as modules are paired that are not known for sure to be partners."""
        self.take(_from_modules(self.left, self.right, modules))

    def find(self) -> None:
        """Pair what values, names, places and words single out."""
        same = self._same
        self._meet(by_value(same), PairedBy.VALUE)
        self._meet(by_value(self._loose), PairedBy.VALUE, is_strict=False)
        self._meet(self._by_path[0], PairedBy.NAME)
        self._meet(same, PairedBy.STRUCTURE)
        self._meet(self._by_path[1], PairedBy.NAME, is_strict=False)
        for key, is_strict in ((same, True), (same, True), (self._loose, False)):
            if self.left and self.right:
                scoped = by_scope(key, self.scopes())
                self._meet(scoped, PairedBy.STRUCTURE, is_strict=is_strict)

    def tell_apart(self) -> None:
        """Pair what strides tell apart, where both sides have as many units of each stride."""
        found: list[UnitPair] = []
        sides = [(self.sides[0], self.left), (self.sides[1], self.right)]
        for ours, theirs in _buckets(sides, self._same):
            groups = by_stride(ours), by_stride(theirs)
            sizes = [{stride: len(units) for stride, units in side.items()} for side in groups]
            if sizes[0] != sizes[1] or len(sizes[0]) == 1:
                continue
            for stride, units in groups[0].items():
                other = groups[1][stride]
                found += _resolve(units, other, PairedBy.STRUCTURE, is_strict=True, is_last=False)
        if found:
            self.take(found)
            self.find()

    def guess(self) -> None:
        """Pair what is left by sizes and order; what nothing tells apart gets low confidence."""
        if any(map(is_own_stack, self.left)) or any(map(is_own_stack, self.right)):
            self._meet(by_path(bulk, self._paths, self.sides), PairedBy.NAME, is_strict=False)
        self._meet(self._same, PairedBy.STRUCTURE, is_last=True)
        self._meet(self._loose, PairedBy.STRUCTURE, is_strict=False, is_last=True)

    def explode(self) -> None:
        """Take lone attention units apart into their projections, and recurrent ones into cells."""
        sides = self.left, self.right
        self.left, self.right = recurrent_parts(*sides), recurrent_parts(*sides[::-1])
        first = max((unit.id for side in (self.left, self.right) for unit in side), default=0) + 1
        self.left = _exploded(self.left, first)
        self.right = _exploded(self.right, first)

    def take(self, pairs: Iterable[UnitPair]) -> None:
        """Add pairs, and take their units out of the search."""
        before = len(self.pairs)
        self.pairs += pairs
        if len(self.pairs) == before:
            return
        done = {id(unit) for pair in self.pairs for unit in (pair.reference, pair.candidate)}
        self.left = [unit for unit in self.left if id(unit) not in done]
        self.right = [unit for unit in self.right if id(unit) not in done]

    def _meet(
        self, key: Key, paired_by: PairedBy, *, is_strict: bool = True, is_last: bool = False
    ) -> None:
        """Pair the units that have the same key, as far as anything tells them apart."""
        if not self.left or not self.right:
            return
        buckets = _buckets([(self.sides[0], self.left), (self.sides[1], self.right)], key)
        found: list[UnitPair] = []
        for ours, theirs in buckets:
            found += _resolve(ours, theirs, paired_by, is_strict=is_strict, is_last=is_last)
        self.take(self._settled(pair) for pair in found if self._is_possible(pair))

    def _settled(self, pair: UnitPair) -> UnitPair:
        """Take no offence at a choice between buffers that hold the same."""
        units = (pair.reference, *pair.alternatives)
        if not 1 < len(units) <= _MAX_OTHERS:
            return pair
        contents = {_content(self.sides[0], unit) for unit in units}
        if len(contents) > 1 or None in contents:
            return pair
        return replace(pair, confidence=_LIKELY, alternatives=())

    def _is_possible(self, pair: UnitPair) -> bool:
        is_told = self._same(self.sides[0], pair.reference) in self._strides
        return not is_told or stride_of(pair.reference.module) == stride_of(pair.candidate.module)

    def even(self) -> set[int]:
        """Give Python's ids of the lone units of which both sides have as many of one shape."""
        sides = [(self.sides[0], self.left), (self.sides[1], self.right)]
        return {
            id(unit)
            for ours, theirs in _buckets(sides, self._same)
            if len(ours) == len(theirs)
            for unit in (*ours, *theirs)
        }

    def drop(self, units: Iterable[Unit]) -> None:
        """Take units out that were paired in another way."""
        done = {id(unit) for unit in units}
        self.left = [unit for unit in self.left if id(unit) not in done]
        self.right = [unit for unit in self.right if id(unit) not in done]

    def scopes(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """Give partner modules around paired units a common number."""
        if self._scoped is None or self._scoped[0] != len(self.pairs):
            self._scoped = len(self.pairs), self._made_scopes()
        return self._scoped[1]

    def _made_scopes(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        votes: Counter[tuple[int, int]] = Counter(dict.fromkeys([(0, 0), *self._known], 1))
        levels = max(_MIN_LEVELS, isqrt(_MAX_MET // max(1, len(self.pairs))))
        for pair in self.pairs:
            ours = islice(self.sides[0].around(pair.reference), levels)
            theirs = list(islice(self.sides[1].around(pair.candidate), levels))
            for met in product(ours, theirs):
                votes[met] += 1
        best = (_best(votes), _best(Counter({(b, a): n for (a, b), n in votes.items()})))
        mutual = {one: two for one, two in best[0].items() if best[1].get(two) == one}
        return mutual, {two: two for two in mutual.values()}


def _exploded(units: Iterable[Unit], first: int) -> list[Unit]:
    return [
        part
        for unit in units
        for part in ((unit,) if is_whole(unit) else exploded(unit, first + 100 * unit.id))
    ]


def _best(votes: Counter[tuple[int, int]]) -> dict[int, int]:
    """Give each module the partner that shares the largest part of its paired content."""
    totals: Counter[int] = Counter()
    for (_, other), count in votes.items():
        totals[other] = max(totals[other], count)
    best: dict[int, tuple[float, int]] = {}
    for (one, other), count in sorted(votes.items()):
        score = count + count / (totals[other] + 1)
        if one not in best or score > best[one][0]:
            best[one] = score, other
    return {one: other for one, (_, other) in best.items()}


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


def _buckets(
    sides: Sequence[tuple[Inventory, Sequence[Unit]]], key: Key
) -> list[tuple[list[Unit], list[Unit]]]:
    tables: list[dict[Hashable, list[Unit]]] = [{}, {}]
    for table, (inventory, units) in zip(tables, sides, strict=True):
        for unit in units:
            found = key(inventory, unit)
            if found is not None:
                table.setdefault(found, []).append(unit)
    return [(ours, tables[1][found]) for found, ours in tables[0].items() if found in tables[1]]


def _can_be(reference: Unit, candidate: Unit) -> bool:
    """Tell whether two kinds can do the same job; a user's own class can do any."""
    one, two = reference.kind, candidate.kind
    if one is None or two is None:
        return True
    if one == two:
        return cells_in(reference) == cells_in(candidate)
    return any(one in group and two in group for group in _ALIKE)


def _resolve(
    ours: Sequence[Unit],
    theirs: Sequence[Unit],
    paired_by: PairedBy,
    *,
    is_strict: bool,
    is_last: bool,
) -> list[UnitPair]:
    """Pair within a bucket: alone on both sides, then by place and words, at last by order."""
    if not is_strict:
        ours = [unit for unit in ours if any(_can_be(unit, other) for other in theirs)]
        theirs = [unit for unit in theirs if any(_can_be(other, unit) for other in ours)]
        if not ours or not theirs:
            return []
    if _is_one(ours) and _is_one(theirs):
        sure = 1.0 if paired_by is not PairedBy.STRUCTURE else _TOLD if is_strict else _LIKELY
        return [_pair(ours[0], theirs[0], paired_by, sure)]
    pairs: list[UnitPair] = []
    groups = _levels(ours, theirs)
    is_same = groups[0].keys() == groups[1].keys()
    for one, two in zip(sorted(groups[0]), sorted(groups[1]), strict=True):
        sure = _TOLD if is_same else _ORDERED
        pairs += _by_words(groups[0][one], groups[1][two], paired_by, sure)
    return [*pairs, *_by_order((ours, theirs), pairs)] if is_last else pairs


def _is_one(units: Sequence[Unit]) -> bool:
    """Tell whether units are names of one: a shared embedding is listed in each of its owners."""
    tensors = {frozenset(entry.record.tensor for entry in unit.entries) for unit in units}
    return len(units) == 1 or (len(tensors) == 1 and None not in next(iter(tensors)))


def _levels(
    ours: Sequence[Unit], theirs: Sequence[Unit]
) -> tuple[Mapping[tuple[int, ...], list[Unit]], Mapping[tuple[int, ...], list[Unit]]]:
    """Group both sides by the deepest ranks that give as many groups on each.

    Only the order of the ranks counts, not the numbers: ``layer.3`` of one author may be
    ``features.5`` of the other. Groups of equal sizes are preferred. A unit that stands outside the
    numbered ones of one side, while all of the other's are numbered, has no place in their order.
    """
    depth = max(len(unit.place.ranks) for unit in (*ours, *theirs))
    found = None
    for level in range(depth, -1, -1):
        groups = _grouped(ours, level), _grouped(theirs, level)
        depths = [[len(ranks) for ranks in sorted(side)] for side in groups]
        if depths[0] != depths[1]:
            continue
        sizes = [[len(group) for _, group in sorted(side.items())] for side in groups]
        if sizes[0] == sizes[1]:
            return groups
        found = found or groups
    return found or (_grouped(ours, 0), _grouped(theirs, 0))


def _grouped(units: Iterable[Unit], level: int) -> Mapping[tuple[int, ...], list[Unit]]:
    groups: dict[tuple[int, ...], list[Unit]] = {}
    for unit in units:
        groups.setdefault(unit.place.ranks[:level], []).append(unit)
    return groups


def _by_words(
    ours: Sequence[Unit], theirs: Sequence[Unit], paired_by: PairedBy, sure: float
) -> list[UnitPair]:
    """Pair the units whose words single each other out, the clearest first."""
    if len(ours) == len(theirs) == 1:
        return [_pair(ours[0], theirs[0], paired_by, sure)]
    told = told_by_words(*([unit.place.words for unit in side] for side in (ours, theirs)))
    by = PairedBy.VALUE if paired_by is PairedBy.VALUE else PairedBy.NAME
    pairs = [_pair(ours[one], theirs[two], by, sure - 0.1) for one, two in told]
    if len(ours) == len(theirs) == len(told) + 1:
        rest = [
            next(iter({*range(len(side))} - {pair[at] for pair in told}))
            for at, side in enumerate((ours, theirs))
        ]
        pairs.append(_pair(ours[rest[0]], theirs[rest[1]], paired_by, sure - 0.1))
    return pairs


def _by_order(
    rest: tuple[Sequence[Unit], Sequence[Unit]], pairs: Sequence[UnitPair]
) -> list[UnitPair]:
    """Pair what nothing tells apart in definition order, as a guess that names the others."""
    done = {id(unit) for pair in pairs for unit in (pair.reference, pair.candidate)}
    ours = [unit for unit in rest[0] if id(unit) not in done]
    theirs = [unit for unit in rest[1] if id(unit) not in done]
    if len(ours) != len(theirs):
        return []
    return [
        UnitPair(
            reference=one,
            candidate=two,
            paired_by=PairedBy.POSITION,
            confidence=_GUESS,
            alternatives=tuple(unit for unit in ours[:9] if unit is not one)[:_MAX_OTHERS],
        )
        for one, two in zip(ours, theirs, strict=True)
        if _can_be(one, two)
    ]


def _content(side: Inventory, unit: Unit) -> tuple[str, ...] | None:
    """Give the digests of a unit of buffers; None where it trains, or its values are not known."""
    values = [side.value(entry) for entry in unit.entries if entry.is_buffer]
    if len(values) < len(unit.entries) or None in values:
        return None
    return tuple(value.digest for value in values if value is not None)


def _pair(reference: Unit, candidate: Unit, by: PairedBy, confidence: float) -> UnitPair:
    return UnitPair(reference=reference, candidate=candidate, paired_by=by, confidence=confidence)
