"""Experts stacked in one parameter against a list of them: mixtures of experts.

One author keeps ``experts.gate_up_proj`` of shape (experts, rows, columns), another a Linear
``experts.7.gate_proj`` for each expert. What shapes and names settle is paired; a square matrix or
a fused pair of unknown order is ambiguous, unless both sides hold the same values already. The
experts of transformers state both in attributes (``is_transposed``, ``is_concatenated``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import TYPE_CHECKING

from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import PairedBy
from padiff.pairing.rule import Rule

from .entry_pairs import holds
from .standing import GATES
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
_WEIGHT, _BIAS = "weight", "bias"
_TRANSPOSE = Rule.parse("transpose")
_TRANSPOSED, _CONCATENATED = "is_transposed", "is_concatenated"
_ORDERED = 0.2
"""What the order of gate and up adds to a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The same projection of all experts, in their order."""

    leaf: str
    units: tuple[Unit, ...]

    def entries(self, atom: str) -> tuple[Entry, ...]:
        """Give the weight or the bias of each expert; nothing if it has none."""
        return tuple(
            entry for unit in self.units for entry in unit.entries if entry.atoms == (atom,)
        )

    @property
    def matrix(self) -> tuple[int, int]:
        """Rows and columns of one expert in the neutral layout."""
        entry = self.entries(_WEIGHT)[0]
        inverse = entry.rule.inverse or entry.rule
        rows, columns = inverse.shape_of([entry.shape], entry.shape)
        return rows, columns

    @property
    def words(self) -> frozenset[str]:
        return words_of(self.leaf) | {GATES.get(self.leaf.lower(), self.leaf.lower())}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One way to make the stack of families."""

    families: tuple[_Family, ...]
    is_turned: bool
    """Whether each expert's matrix lies transposed in the stack."""
    is_alternating: bool = False
    """Whether rows of two families alternate, instead of one family after the other."""

    def sources(self, atom: str = "weight") -> tuple[Entry, ...]:
        """Give the parts, expert by expert."""
        columns = zip(*(family.entries(atom) for family in self.families), strict=True)
        return tuple(entry for expert in columns for entry in expert)

    def rule(self, count: int, atom: str = "weight") -> Rule:
        """Give the rule that makes the stack of so many experts."""
        back = self.sources(atom)[0].rule.inverse or Rule()
        is_turned = self.is_turned and atom == _WEIGHT
        if len(self.families) == 1:
            turn = back.then(_TRANSPOSE) if is_turned else back
            return turn.then(Rule.parse("stack"))
        each, columns = self.families[0].matrix
        rest = f" {columns}" if atom == _WEIGHT else ""
        joined = f"concat 0 | reshape {count} {2 * each}{rest}"
        if self.is_alternating:
            axes = "1 0 2 3" if rest else "1 0 2"
            joined = (
                f"interleave {each} | reshape {each} {count} 2{rest} | permute {axes} | "
                f"reshape {count} {2 * each}{rest}"
            )
        return back.then(Rule.parse(joined + (" | permute 0 2 1" if is_turned else "")))

    def part_rule(self, place: int, part: Entry, atom: str = "weight") -> Rule:
        """Give the rule that takes one part out of the stack."""
        width = len(self.families)
        expert, share = divmod(place, width)
        turn = _TRANSPOSE if self.is_turned and atom == _WEIGHT else Rule()
        rows = Rule.parse(f"rows {share}/{width}") if width > 1 else Rule()
        if self.is_alternating:
            rows = Rule.parse(f"groups {self.families[0].matrix[0]} {share}/{width}")
        return Rule.parse(f"take {expert}").then(turn).then(rows).then(part.rule)


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
        other, table = search.sides[1 - whole], scopes[1 - whole]
        by_scope: dict[int | None, list[_Family]] = defaultdict(list)
        for family in _families((search.left, search.right)[1 - whole]):
            by_scope[nearest(other, family.units[0], table)].append(family)
        taken = _Taken()
        done: list[tuple[Unit, list[WeightPair]]] = []
        for unit in stacks:
            near = by_scope.get(nearest(search.sides[whole], unit, scopes[whole]), [])
            made = _fill(search.sides, unit, near, taken, is_join=is_join)
            if made:
                done.append((unit, made))
        search.drop([unit for unit, _ in done])
        for unit, made in done:
            found += made
            _put_back(search, unit, made, is_join=is_join)
        search.drop(member for family in taken.used.values() for member in family.units)
    return found


@dataclass(slots=True)
class _Taken:
    """The families that stacks have taken."""

    used: dict[int, _Family] = field(default_factory=dict)
    """By the id of the object."""
    settled: dict[int, _Family] = field(default_factory=dict)
    """Those without doubt; the others still make other stacks doubtful."""


def _put_back(search: UnitSearch, unit: Unit, made: Sequence[WeightPair], *, is_join: bool) -> None:
    """Let what a unit owns besides its stacks be searched for on its own."""
    paired = {pair.candidate if is_join else pair.reference[0] for pair in made}
    rest = tuple(entry for entry in unit.entries if entry.record.id not in paired)
    if rest:
        search.put_back(replace(unit, entries=rest), int(is_join))


def _has_stack(unit: Unit) -> bool:
    return unit.kind is None and any(len(entry.shape) == _CUBE for entry in unit.entries)


def _families(units: Sequence[Unit]) -> Iterator[_Family]:
    """Gather the numbered siblings that have one projection each of the same size."""
    groups: dict[tuple[str, str], dict[int, Unit]] = {}
    for unit in units:
        match = _MEMBER.fullmatch(unit.path)
        if match and unit.kind == "linear" and _is_plain(unit):
            groups.setdefault((match[1], match[3]), {})[int(match[2])] = unit
    for (_, leaf), members in groups.items():
        ordered = tuple(members[number] for number in sorted(members))
        shapes = {tuple(sorted((e.atoms, e.shape) for e in unit.entries)) for unit in ordered}
        if len(shapes) == 1 and len(ordered) > 1:
            yield _Family(leaf=leaf, units=ordered)


def _is_plain(unit: Unit) -> bool:
    atoms = {atom for entry in unit.entries for atom in entry.atoms}
    return _WEIGHT in atoms and atoms <= {_WEIGHT, _BIAS}


def _fill(
    sides: tuple[Inventory, Inventory],
    unit: Unit,
    families: Sequence[_Family],
    taken: _Taken,
    *,
    is_join: bool,
) -> list[WeightPair]:
    """Pair all stacks of a unit, or none of them; what they add to products follows them."""
    made: list[WeightPair] = []
    used: dict[int, _Family] = {}
    settled: dict[int, _Family] = {}
    shifts = [entry for entry in unit.needed if len(entry.shape) < _CUBE]
    cubes = [entry for entry in unit.needed if len(entry.shape) == _CUBE]
    for entry in sorted(cubes, key=lambda entry: -len(_words(unit, entry))):
        possible = [one for one in families if not _is_in(one, taken.settled, settled)]
        ways = [way for way in _ways(entry, possible) if _is_allowed(unit, way)]
        free = [way for way in ways if not any(_is_in(f, taken.used, used) for f in way.families)]
        if not free:
            return []
        pairs, way = _choose(sides, (unit, entry), ways, free, is_join=is_join)
        shift = _shift_of(entry, way, shifts)
        if shift is not None:
            shifts.remove(shift)
            doubt = min(pair.confidence for pair in pairs)
            others = _pairs(shift, way, _BIAS, is_join=is_join)
            pairs += [replace(other, confidence=doubt) for other in others]
        made += pairs
        chosen = {id(family): family for family in way.families}
        used |= chosen
        settled |= {} if any(pair.is_ambiguous for pair in pairs) else chosen
    taken.used |= used
    taken.settled |= settled
    return made


def _is_in(family: _Family, *known: dict[int, _Family]) -> bool:
    return any(id(family) in one for one in known)


def _shift_of(entry: Entry, way: _Way, shifts: Sequence[Entry]) -> Entry | None:
    """Find the stack of biases that belongs to a stack of weights: by size, then by name."""
    if not way.sources(_BIAS):
        return None
    shape = (entry.shape[0], sum(family.matrix[0] for family in way.families))
    fitting = [shift for shift in shifts if shift.shape == shape]
    own = words_of(entry.local) - {_WEIGHT}
    named = [shift for shift in fitting if words_of(shift.local) - {_BIAS} == own]
    found = named if len(fitting) > 1 else fitting
    return found[0] if len(found) == 1 else None


def _words(unit: Unit, entry: Entry) -> frozenset[str]:
    """Give the words of a stack; one that is called weight is named by its module."""
    name = unit.path.rpartition(".")[2] if entry.local == _WEIGHT else entry.local
    return words_of(name) | {GATES.get(name.lower(), name.lower())}


def _ways(entry: Entry, families: Sequence[_Family]) -> Iterator[_Way]:
    """List how an entry can be made, one family first, then two of them fused."""
    count, *matrix = entry.shape
    fitting = [family for family in families if len(family.units) == count][:_MAX_FAMILIES]
    fused = [pair for pair in permutations(fitting, 2) if _are_alike(*pair)]
    for chosen in [*((family,) for family in fitting), *fused]:
        rows = sum(family.matrix[0] for family in chosen)
        columns = chosen[0].matrix[1]
        for is_turned, shape in ((False, [rows, columns]), (True, [columns, rows])):
            if shape == matrix:
                for is_alternating in (False, True)[: len(chosen)]:
                    yield _Way(
                        families=tuple(chosen), is_turned=is_turned, is_alternating=is_alternating
                    )


def _are_alike(one: _Family, two: _Family) -> bool:
    has_bias = [bool(family.entries(_BIAS)) for family in (one, two)]
    return one.matrix == two.matrix and has_bias[0] == has_bias[1]


def _choose(
    sides: tuple[Inventory, Inventory],
    target: tuple[Unit, Entry],
    ways: Sequence[_Way],
    free: Sequence[_Way],
    *,
    is_join: bool,
) -> tuple[list[WeightPair], _Way]:
    """Take the way that values prove, else the one that names tell; doubt it where others fit.

    Args:
        sides: Reference and candidate.
        target: The stack.
        ways: All that could make it; some of families that another stack has taken in doubt.
        free: Those to choose from.
        is_join: Whether the stack is the candidate's.
    """
    unit, entry = target
    scores = {id(way): _score(unit, entry, way) for way in ways}
    ordered = sorted(ways, key=lambda way: -scores[id(way)])
    for way in (way for way in ordered if way in free):
        pairs = _pairs(entry, way, is_join=is_join)
        if _proven(sides, entry, way, pairs, is_join=is_join):
            return [replace(p, paired_by=PairedBy.VALUE, confidence=1.0) for p in pairs], way
    best = next(way for way in ordered if way in free)
    ordered.remove(best)
    rivals = [way for way in ordered if scores[id(way)] >= scores[id(best)] - 0.1]
    sure = _GUESS if rivals else _LIKELY if ordered else _TOLD
    if len(best.families) > 1 and not _is_told(unit, entry, best):
        sure = _GUESS
    others = [_pairs(entry, way, is_join=is_join) for way in ordered[:4]]
    return [_doubted(pair, others, sure) for pair in _pairs(entry, best, is_join=is_join)], best


def _score(unit: Unit, entry: Entry, way: _Way) -> float:
    words = frozenset().union(*(family.words for family in way.families))
    score = likeness(_words(unit, entry), words)
    if len(way.families) > 1:
        score += _ORDERED * _is_ordered(_name(unit, entry), way)
        score += _ORDERED * (not way.is_alternating)
    return score


def _name(unit: Unit, entry: Entry) -> str:
    return (unit.path if entry.local == _WEIGHT else entry.local).rpartition(".")[2].lower()


def _is_ordered(name: str, way: _Way) -> bool:
    """Tell whether the stack's name says gate and up in this order."""
    first, second = (family.words for family in way.families)
    return "gate" in first and "up" in second and 0 <= name.find("gate") < name.find("up")


def _is_told(unit: Unit, entry: Entry, way: _Way) -> bool:
    """Tell whether names and attributes say how gate and up share the rows.

    A name says that gate comes first; experts with biases are known that alternate all the same.
    """
    is_stated = isinstance(unit.module.attributes.get(_CONCATENATED), bool)
    return _is_ordered(_name(unit, entry), way) and (is_stated or not way.sources(_BIAS))


def _is_allowed(unit: Unit, way: _Way) -> bool:
    """Tell whether a way is not against what the stack's module states in its attributes."""
    is_turned = unit.module.attributes.get(_TRANSPOSED)
    is_blocks = unit.module.attributes.get(_CONCATENATED)
    fits_turn = not isinstance(is_turned, bool) or way.is_turned == is_turned
    is_fused = len(way.families) > 1
    return fits_turn and not (
        is_fused and isinstance(is_blocks, bool) and way.is_alternating == is_blocks
    )


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
        return bool(holds(sides, way.sources(), pairs[0].rule, entry))
    sources = zip(way.sources(), pairs, strict=True)
    return all(holds(sides, [entry], pair.rule, part) for part, pair in sources)


def _pairs(entry: Entry, way: _Way, atom: str = "weight", *, is_join: bool) -> list[WeightPair]:
    if is_join:
        ids = tuple(source.record.id for source in way.sources(atom))
        return [_pair(ids, entry.record.id, way.rule(entry.shape[0], atom))]
    return [
        _pair((entry.record.id,), part.record.id, way.part_rule(place, part, atom))
        for place, part in enumerate(way.sources(atom))
    ]


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
