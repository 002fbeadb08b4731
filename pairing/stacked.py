"""Experts stacked in one parameter against a list of them: mixtures of experts.

One author keeps ``experts.gate_up_proj`` of shape (experts, rows, columns), another a Linear
``experts.7.gate_proj`` for each expert. What shapes and names settle is paired; a square matrix or
a fused pair of unknown order is ambiguous, unless both sides hold the same values already.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

from .entry_pairs import holds
from .names import likeness, words_of
from .result import PairedBy
from .rule import Rule
from .unit_keys import nearest
from .weight_plan import Alternative, WeightPair

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .inventory import Entry, Inventory, Unit
    from .unit_pairs import UnitSearch

__all__ = ["pair_stacked"]

_TOLD, _LIKELY, _GUESS = 0.8, 0.6, 0.3
_CUBE = 3
_MAX_FAMILIES = 6
"""More families of one size in a scope say that the scope is not known."""
_MEMBER = re.compile(r"(.*?)\.?(\d{1,9})\.([^.]+)", re.DOTALL)
_ROLES = {"w1": "gate", "w3": "up", "w2": "down"}
"""What the projections of an expert are called where they are numbered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The same projection of all experts, in their order."""

    leaf: str
    units: tuple[Unit, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(unit.main for unit in self.units)

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of one expert in the neutral layout."""
        entry = self.units[0].main
        inverse = entry.rule.inverse or entry.rule
        rows, columns = inverse.shape_of([entry.shape], entry.shape)
        return rows, columns

    @property
    def words(self) -> frozenset[str]:
        return words_of(self.leaf) | {_ROLES.get(self.leaf.lower(), self.leaf.lower())}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One way to make the stack of families."""

    families: tuple[_Family, ...]
    is_turned: bool
    """Whether each expert's matrix lies transposed in the stack."""

    @property
    def sources(self) -> tuple[Entry, ...]:
        columns = zip(*(family.entries for family in self.families), strict=True)
        return tuple(entry for expert in columns for entry in expert)

    def rule(self, count: int) -> Rule:
        """Give the rule that makes the stack."""
        back = self.sources[0].rule.inverse or Rule()
        if len(self.families) == 1:
            turn = back.then(Rule.parse("transpose")) if self.is_turned else back
            return turn.then(Rule.parse("stack"))
        rows = sum(family.matrix[0] for family in self.families)
        shape = f"concat 0 | reshape {count} {rows} {self.families[0].matrix[1]}"
        return back.then(Rule.parse(shape + (" | permute 0 2 1" if self.is_turned else "")))


def pair_stacked(search: UnitSearch) -> list[WeightPair]:
    """Pair lone stacks of either side with lone lists of the other; their units leave the search.

    A unit stays in the search while an entry of it has found nothing.
    """
    found: list[WeightPair] = []
    for is_join in (True, False):
        whole = int(is_join)
        stacks = [unit for unit in (search.left, search.right)[whole] if _has_stack(unit)]
        if not stacks:
            continue
        scopes = search.scopes()
        lists = (search.left, search.right)[1 - whole]
        families = list(_families(lists))
        for unit in stacks:
            scope = nearest(search.sides[whole], unit, scopes[whole])
            other, table = search.sides[1 - whole], scopes[1 - whole]
            near = [f for f in families if nearest(other, f.units[0], table) == scope]
            made, used = _fill(search.sides, unit, near, is_join=is_join)
            if made:
                found += made
                search.drop([unit, *(member for family in used for member in family.units)])
                families = [family for family in families if family not in used]
    return found


def _has_stack(unit: Unit) -> bool:
    return any(len(entry.shape) == _CUBE for entry in unit.entries) and unit.kind is None


def _families(units: Sequence[Unit]) -> Iterator[_Family]:
    """Gather the numbered siblings that have one projection each of the same size."""
    groups: dict[tuple[str, str], dict[int, Unit]] = {}
    for unit in units:
        match = _MEMBER.fullmatch(unit.path)
        if match and unit.kind == "linear" and len(unit.entries) == 1:
            groups.setdefault((match[1], match[3]), {})[int(match[2])] = unit
    for (_, leaf), members in groups.items():
        ordered = tuple(members[number] for number in sorted(members))
        if len({unit.main.shape for unit in ordered}) == 1 and len(ordered) > 1:
            yield _Family(leaf=leaf, units=ordered)


def _fill(
    sides: tuple[Inventory, Inventory], unit: Unit, families: Sequence[_Family], *, is_join: bool
) -> tuple[list[WeightPair], list[_Family]]:
    """Pair all stacks of a unit, or none of them."""
    made: list[WeightPair] = []
    used: list[_Family] = []
    for entry in sorted(unit.needed, key=lambda entry: -len(_words(entry))):
        free = [family for family in families if family not in used]
        ways = list(_ways(entry, free))
        if not ways:
            return [], []
        choice = _choose(sides, entry, ways, is_join=is_join)
        made += choice[0]
        used += choice[1].families
    return made, used


def _words(entry: Entry) -> frozenset[str]:
    return words_of(entry.local) | {_ROLES.get(entry.local.lower(), entry.local.lower())}


def _ways(entry: Entry, families: Sequence[_Family]) -> Iterator[_Way]:
    """List how an entry can be made, one family first, then two of them fused."""
    if len(entry.shape) != _CUBE:
        return
    count, *matrix = entry.shape
    fitting = [family for family in families if len(family.units) == count][:_MAX_FAMILIES]
    fused = [pair for pair in permutations(fitting, 2) if pair[0].matrix == pair[1].matrix]
    for chosen in [*((family,) for family in fitting), *fused]:
        rows = sum(family.matrix[0] for family in chosen)
        columns = chosen[0].matrix[1]
        for is_turned, shape in ((False, [rows, columns]), (True, [columns, rows])):
            if shape == matrix:
                yield _Way(families=tuple(chosen), is_turned=is_turned)


def _choose(
    sides: tuple[Inventory, Inventory], entry: Entry, ways: Sequence[_Way], *, is_join: bool
) -> tuple[list[WeightPair], _Way]:
    """Take the way that values prove, else the one that names tell; doubt it where others fit."""
    scores = {id(way): _score(entry, way) for way in ways}
    ordered = sorted(ways, key=lambda way: -scores[id(way)])
    for way in ordered:
        pairs = _pairs(entry, way, is_join=is_join)
        if _proven(sides, entry, way, pairs, is_join=is_join):
            return [replace(p, paired_by=PairedBy.VALUE, confidence=1.0) for p in pairs], way
    best = ordered[0]
    rivals = [way for way in ordered[1:] if scores[id(way)] >= scores[id(best)] - 0.1]
    sure = _GUESS if rivals else _LIKELY if len(ordered) > 1 else _TOLD
    if len(best.families) > 1 and not _is_ordered(entry, best):
        sure = _GUESS
    others = [_pairs(entry, way, is_join=is_join) for way in ordered[1:5]]
    return [_doubted(pair, others, sure) for pair in _pairs(entry, best, is_join=is_join)], best


def _score(entry: Entry, way: _Way) -> float:
    words = frozenset().union(*(family.words for family in way.families))
    ordered = 0.2 if len(way.families) > 1 and _is_ordered(entry, way) else 0.0
    return likeness(_words(entry), words) + ordered


def _is_ordered(entry: Entry, way: _Way) -> bool:
    """Tell whether the entry's name says gate and up in this order."""
    name = entry.local.lower()
    first, second = (family.words for family in way.families)
    return "gate" in first and "up" in second and 0 <= name.find("gate") < name.find("up")


def _proven(
    sides: tuple[Inventory, Inventory],
    entry: Entry,
    way: _Way,
    pairs: Sequence[WeightPair],
    *,
    is_join: bool,
) -> bool:
    if sides[int(is_join)].value(entry) is None:
        return False
    if is_join:
        return bool(holds(sides, way.sources, pairs[0].rule, entry))
    sources = zip(way.sources, pairs, strict=True)
    return all(holds(sides, [entry], pair.rule, part) for part, pair in sources)


def _pairs(entry: Entry, way: _Way, *, is_join: bool) -> list[WeightPair]:
    count = entry.shape[0]
    if is_join:
        ids = tuple(source.record.id for source in way.sources)
        rule = way.rule(count)
        return [_pair(ids, entry.record.id, rule)]
    width = len(way.families)
    turn = Rule.parse("transpose") if way.is_turned else Rule()
    made = []
    for place, part in enumerate(way.sources):
        expert, share = divmod(place, width)
        rows = Rule.parse(f"rows {share}/{width}") if width > 1 else Rule()
        rule = Rule.parse(f"take {expert}").then(turn).then(rows).then(part.rule)
        made.append(_pair((entry.record.id,), part.record.id, rule))
    return made


def _pair(reference: tuple[int, ...], candidate: int, rule: Rule) -> WeightPair:
    return WeightPair(
        reference=reference, candidate=candidate, rule=rule, paired_by=PairedBy.STRUCTURE
    )


def _doubted(pair: WeightPair, others: Iterable[Sequence[WeightPair]], sure: float) -> WeightPair:
    options = [o for other in others for o in other if o.candidate == pair.candidate]
    shown = dict.fromkeys((o.reference, o.rule) for o in options)
    return replace(
        pair,
        confidence=sure,
        alternatives=tuple(Alternative(reference=r, rule=rule) for r, rule in shown),
        note="stacked experts; only equal values or a map can tell" if sure == _GUESS else "",
    )
