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

from .fused_layouts import GATED, ROWS, Parts, are_held, doubted, pairs_under
from .standing import GATES
from .unit_keys import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.pairing.rule import Rule

    from .inventory import Entry, Inventory, Unit
    from .unit_pairs import UnitSearch
    from .weight_plan import WeightPair

_TOLD, _LIKELY, _GUESS = 0.8, 0.6, 0.3
_CUBE = 3
_MAX_FAMILIES = 6
"""More families of one size in a scope say that the scope is not known."""
_MEMBER = re.compile(r"(.*?)\.?(\d{1,9})\.([^.]+)", re.DOTALL)
_WEIGHT, _BIAS = "weight", "bias"
_TRANSPOSED, _CONCATENATED = "is_transposed", "is_concatenated"
_UNTOLD = "stacked experts; only equal values or a map can tell"
"""Note of a pair in doubt."""
_ORDERED = 0.2
"""What the order of gate and up adds to a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The same projection of all experts, in their order."""

    leaf: str
    units: tuple[Unit, ...]

    def entries(self, atom: str) -> tuple[Entry, ...]:
        """Return the weight or the bias of each expert; nothing if it has none."""
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

    def sources(self, atom: str = _WEIGHT) -> tuple[Entry, ...]:
        """Return the parts, expert by expert."""
        columns = zip(*(family.entries(atom) for family in self.families), strict=True)
        return tuple(entry for expert in columns for entry in expert)

    def pairs(self, entry: Entry, atom: str = _WEIGHT, *, is_join: bool) -> list[WeightPair]:
        """Pair the stack of the weights, or of the biases, with what it is made of."""
        name = "stacked groups" if self.is_alternating else "stacked blocks"
        row = ROWS["stack" if len(self.families) == 1 else name]
        (each, columns), is_weight = self.families[0].matrix, atom == _WEIGHT
        is_turned = self.is_turned and is_weight
        numbers: dict[str, int | str] = {
            "count": entry.shape[0],
            "each": each,
            "rows": 2 * each,
            "columns": f" {columns}" if is_weight else "",
            "axes": "1 0 2 3" if is_weight else "1 0 2",
            "turn": "transpose | " if is_turned else "",
            "flip": " | transpose" if is_turned else "",
            "turned": " | permute 0 2 1" if is_turned else "",
        }

        def taken(place: int) -> Rule:
            index, share = divmod(place, len(self.families))
            return row.taken({**numbers, "index": index, "share": share})

        parts, join = self.sources(atom), row.joined(numbers)
        return pairs_under(join, entry, parts, is_join=is_join, taken=taken) or []


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
    settled: set[int] = field(default_factory=set)
    """Ids of those without doubt; the others still make other stacks doubtful."""


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
    now = _Taken(used=dict(taken.used), settled=set(taken.settled))
    shifts = [entry for entry in unit.needed if len(entry.shape) < _CUBE]
    cubes = [entry for entry in unit.needed if len(entry.shape) == _CUBE]
    for entry in sorted(cubes, key=lambda entry: -len(_words(unit, entry))):
        possible = [one for one in families if id(one) not in now.settled]
        ways = [way for way in _ways(entry, possible) if _is_allowed(unit, way)]
        free = [way for way in ways if now.used.keys().isdisjoint(map(id, way.families))]
        if not free:
            return []
        pairs, way = _choose(sides, (unit, entry), ways, free, is_join=is_join)
        shift = _shift_of(entry, way, shifts)
        if shift is not None:
            shifts.remove(shift)
            doubt = min(pair.confidence for pair in pairs)
            others = way.pairs(shift, _BIAS, is_join=is_join)
            pairs += [replace(other, confidence=doubt) for other in others]
        made += pairs
        chosen = {id(family): family for family in way.families}
        now.used |= chosen
        if not any(pair.is_ambiguous for pair in pairs):
            now.settled.update(chosen)
    taken.used, taken.settled = now.used, now.settled
    return made


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
    """Return the words of a stack; one that is called weight is named by its module."""
    name = unit.leaf if entry.local == _WEIGHT else entry.local
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
        pairs, parts = way.pairs(entry, is_join=is_join), way.sources()
        ends = (parts, [entry]) if is_join else ([entry], parts)
        if sides[is_join].value(entry) is not None and are_held(sides, ends, pairs):
            return [replace(p, paired_by=PairedBy.VALUE, confidence=1.0) for p in pairs], way
    best = next(way for way in ordered if way in free)
    ordered.remove(best)
    rivals = [way for way in ordered if scores[id(way)] >= scores[id(best)] - 0.1]
    sure = _GUESS if rivals else _LIKELY if ordered else _TOLD
    if len(best.families) > 1 and not _is_told(unit, entry, best):
        sure = _GUESS
    others = [way.pairs(entry, is_join=is_join) for way in ordered[:4]]
    note = _UNTOLD if sure == _GUESS else ""
    return doubted(best.pairs(entry, is_join=is_join), others, sure, note), best


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
    """Return whether the stack's name says gate and up in this order."""
    is_gated = all(role in own.words for role, own in zip(GATED, way.families, strict=True))
    return is_gated and Parts(units=(), roles=GATED).spelled(name) == (0, 1)


def _is_told(unit: Unit, entry: Entry, way: _Way) -> bool:
    """Return whether names and attributes say how gate and up share the rows.

    A name says that gate comes first; experts with biases are known that alternate all the same.
    """
    is_stated = isinstance(unit.module.attributes.get(_CONCATENATED), bool)
    return _is_ordered(_name(unit, entry), way) and (is_stated or not way.sources(_BIAS))


def _is_allowed(unit: Unit, way: _Way) -> bool:
    """Return whether a way is not against what the stack's module states in its attributes."""
    is_turned = unit.module.attributes.get(_TRANSPOSED)
    is_blocks = unit.module.attributes.get(_CONCATENATED)
    fits_turn = not isinstance(is_turned, bool) or way.is_turned == is_turned
    is_fused = len(way.families) > 1
    return fits_turn and not (
        is_fused and isinstance(is_blocks, bool) and way.is_alternating == is_blocks
    )
