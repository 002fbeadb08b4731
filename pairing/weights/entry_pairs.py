"""Which parameter is which within two paired units, and by which rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import ConfigError, DumpError
from padiff.pairing.result import PairedBy
from padiff.pairing.rule import Rule
from padiff.pairing.steps import Verb

from .entry_rules import is_magnitude, norm_doubt, pair_likest, possible_rules
from .unit_keys import value_key
from .weight_plan import Alternative, WeightPair

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .inventory import Entry, Inventory, UnitPair

_MATRIX = 2
_UNSURE, _LIKELY = 0.3, 0.6
SQUARE = "square, and the class does not say which way it lies"
"""Note of a pair whose rule may be another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How entries of one form are made of those of another."""

    sources: tuple[int, ...]
    """Which of the reference's."""
    rule: Rule
    """Makes of them what the candidate's entry holds."""
    whole: Rule
    """Makes the candidate's entry of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The reference entries that a candidate entry is made of, and the rule to its atoms."""

    entries: tuple[Entry, ...]
    rule: Rule
    doubt: float = 1.0


class EntryPairs:
    """Pairs the entries of units that are paired; how two forms go together is found once."""

    def __init__(self, sides: tuple[Inventory, Inventory]) -> None:
        """Take reference and candidate."""
        self._sides = sides
        self._ways: dict[tuple[tuple[int, ...], ...], tuple[UnitPair, list[_Way | None]]] = {}

    def of(self, pair: UnitPair) -> list[WeightPair]:
        """Pair the entries of two paired units.

        Entries whose shapes do not fit under any rule are left out; the plan reports them as
        missing.
        """
        found: list[WeightPair] = []
        late: list[Entry] = []
        for entry, way in zip(pair.candidate.entries, self._between(pair), strict=True):
            made = None if way is None else self._made(pair, way, entry)
            if made is None:
                late.append(entry)
            else:
                found.append(made)
        if late:
            used = {record for made in found for record in made.reference}
            left = [one for one in pair.reference.entries if one.record.id not in used]
            found += self._by_shape(pair, left, late)
        return self._with_others(pair, found) if pair.alternatives else found

    def _made(self, pair: UnitPair, way: _Way, entry: Entry) -> WeightPair | None:
        chosen = tuple([pair.reference.entries[place] for place in way.sources])
        source = _Source(entries=chosen, rule=way.rule)
        return _make(self._sides, pair, source, entry, way.whole)

    def _by_shape(
        self, pair: UnitPair, left: Sequence[Entry], late: Sequence[Entry]
    ) -> Iterable[WeightPair]:
        """Pair what differs in name, where kind of thing, words or shape single it out."""

        def make(other: Entry, entry: Entry) -> WeightPair | None:
            inverse = other.rule.inverse
            if inverse is None:
                return None
            source = _Source(entries=(other,), rule=inverse, doubt=0.9)
            return _make(self._sides, pair, source, entry, inverse.then(entry.rule))

        is_alone = len(late) == len(pair.candidate.entries) == 1
        return pair_likest(left, late, make, is_alone=is_alone)

    def _between(self, pair: UnitPair) -> list[_Way | None]:
        ours, theirs = pair.reference.entries, pair.candidate.entries
        forms = tuple([id(one.held) for one in ours]), tuple([id(one.held) for one in theirs])
        if forms not in self._ways:
            # With the units, the ids stay those of what they hold.
            self._ways[forms] = pair, _ways(ours, theirs)
        return self._ways[forms][1]

    def _with_others(self, pair: UnitPair, found: Sequence[WeightPair]) -> list[WeightPair]:
        """Add what the entries could be made of in other units."""
        places = {entry.record.id: at for at, entry in enumerate(pair.candidate.entries)}
        others: list[list[Alternative]] = [[] for _ in found]
        for unit in pair.alternatives:
            ways = self._between(replace(pair, reference=unit))
            for made, known in zip(found, others, strict=True):
                at = places[made.candidate]
                way, entry = ways[at], pair.candidate.entries[at]
                chosen = [] if way is None else [unit.entries[one] for one in way.sources]
                if chosen and made.rule.fits([one.shape for one in chosen], entry.shape):
                    ids = tuple(one.record.id for one in chosen)
                    known.append(Alternative(reference=ids, rule=made.rule))
        return [
            replace(made, alternatives=(*made.alternatives, *known))
            for made, known in zip(found, others, strict=True)
        ]


def _ways(ours: Sequence[Entry], theirs: Sequence[Entry]) -> list[_Way | None]:
    """Find for each entry the reference's that hold its atoms, and the rules; None if none do."""
    holders: dict[str, int] = {}
    for place, other in enumerate(ours):
        for atom in other.atoms:
            holders.setdefault(atom, place)
    return [_way(ours, holders, entry) for entry in theirs]


def _way(ours: Sequence[Entry], holders: Mapping[str, int], entry: Entry) -> _Way | None:
    places = tuple(holders[atom] for atom in entry.atoms if atom in holders)
    if not places or len(places) != len(entry.atoms):
        return None
    rule = _rule_of([ours[place] for place in places], entry)
    if rule is None:
        return None
    is_one = len(set(places)) == 1
    is_packed = len(entry.atoms) > 1 and is_one
    try:
        whole = rule if is_packed else rule.then(entry.rule)
    except ConfigError:  # heads that are split here and joined there: no rule without sizes
        return None
    return _Way(
        sources=places[:1] if is_one else places,
        rule=rule,
        whole=whole,
    )


def bare_matrices(
    sides: tuple[Inventory, Inventory], pairs: Iterable[UnitPair]
) -> dict[int, tuple[Entry, ...]]:
    """Return matrices of users' own classes for which the partner of their module has no place.

    Returns:
        By Python's id of a unit; never all entries of a unit.
    """
    found: dict[int, tuple[Entry, ...]] = {}
    entries = EntryPairs(sides)
    for pair in pairs:
        units = pair.reference, pair.candidate
        own = [not unit.is_laid_out and unit.kind is None for unit in units]
        if not any(
            _matrices(unit.entries) for unit, is_own in zip(units, own, strict=True) if is_own
        ):
            continue
        made = entries.of(pair)
        used = (
            {record for one in made for record in one.reference},
            {one.candidate for one in made},
        )
        for unit, is_own, taken in zip(units, own, used, strict=True):
            alone = tuple(one for one in _matrices(unit.entries) if one.record.id not in taken)
            if is_own and alone and len(alone) < len(unit.entries):
                found[id(unit)] = alone
    return found


def _matrices(entries: Iterable[Entry]) -> list[Entry]:
    """Return the parameters that multiply."""
    return [
        one for one in entries
        if len(one.neutral_shape) >= _MATRIX and not one.is_buffer and not one.is_alias
    ]  # fmt: skip


def holds(
    sides: tuple[Inventory, Inventory], sources: Sequence[Entry], rule: Rule, entry: Entry
) -> bool | None:
    """Return whether the candidate entry already holds the reference entries under a rule.

    Returns:
        None if the values are not known, or constant and so without evidence.
    """
    values = [sides[0].value(source) for source in sources]
    other = sides[1].value(entry)
    if (
        other is None
        or any(value is None for value in values)
        or value_key(sides[1], entry) is None
    ):
        return None
    known = [value for value in values if value is not None]
    if len(known) == 1 and rule.is_identity and known[0].digest == other.digest:
        return True
    lows = [value.statistics.minimum for value in known if value.statistics.minimum is not None]
    highs = [value.statistics.maximum for value in known if value.statistics.maximum is not None]
    low, high = other.statistics.minimum, other.statistics.maximum
    if not lows or low is None or high is None or min(lows) > low or max(highs) < high:
        return False
    try:
        arrays = [sides[0].side.array(source.record) for source in sources]
        made = rule.apply(arrays, entry.shape)
        return bool(np.array_equal(made, sides[1].side.array(entry.record)))
    except (ConfigError, DumpError):
        return None


def _rule_of(sources: Sequence[Entry], entry: Entry) -> Rule | None:
    """Return the rule that makes what an entry holds of the entries that hold its atoms."""
    first = sources[0]
    if all(source.record.id == first.record.id for source in sources):
        if first.atoms == entry.atoms and len(entry.atoms) > 1:
            return _repacked(first.rule, entry.rule)
        if len(entry.atoms) > 1:
            return None
        if len(first.atoms) > 1:
            return _share(first.rule, first.atoms.index(entry.atoms[0]), len(first.atoms))
        return first.rule.inverse
    inverses = {source.rule.inverse for source in sources}
    if len(inverses) > 1 or any(len(source.atoms) > 1 for source in sources):
        return None
    return inverses.pop()


def _repacked(reference: Rule, candidate: Rule) -> Rule | None:
    """Return the rule between two layouts of the same pack, if they join its parts alike."""
    back = Rule(reference.steps[1:]).inverse
    if reference.steps[:1] != candidate.steps[:1] or back is None:
        return None
    return back.then(Rule(candidate.steps[1:]))


def _share(rule: Rule, place: int, count: int) -> Rule | None:
    """Return the rule that takes one of equal parts out of a pack."""
    join, back = rule.steps[0], Rule(rule.steps[1:]).inverse
    if back is None or join.axis > 1:
        return None
    if join.verb is Verb.INTERLEAVE:
        axis = f" {join.axis}" if join.axis else ""
        return back.then(Rule.parse(f"groups {join.numbers[0]} {place}/{count}{axis}"))
    return back.then(Rule.parse(f"{('rows', 'columns')[join.axis]} {place}/{count}"))


def _make(
    sides: tuple[Inventory, Inventory], pair: UnitPair, source: _Source, entry: Entry, rule: Rule
) -> WeightPair | None:
    """Settle the rule by class; by shape and values where a class is not known."""
    shapes = [one.shape for one in source.entries]
    is_foreign = _is_foreign(sides)
    options = possible_rules(source.rule, rule, shapes, entry, pair, is_foreign=is_foreign)
    norm = _norm_doubt(pair, source, entry) if options else 0.0
    if not norm:
        return None
    verified = None
    confidence = min(pair.confidence, source.doubt, norm)
    if len(options) > 1:
        checks = [holds(sides, source.entries, option, entry) for option in options]
        if True in checks:
            verified = options[checks.index(True)]
            options = [verified]
        else:
            is_own = not (pair.reference.is_laid_out or pair.candidate.is_laid_out)
            confidence = min(confidence, _LIKELY if is_own else _UNSURE)
    note = SQUARE if len(options) > 1 else ""
    if norm < 1.0:
        note = "nothing says along which axis weight_norm runs; Paddle's dim=1 is torch's dim=0"
    ids = tuple(one.record.id for one in source.entries)
    return WeightPair(
        reference=ids,
        candidate=entry.record.id,
        rule=options[0],
        paired_by=pair.paired_by if verified is None else PairedBy.VALUE,
        confidence=confidence,
        alternatives=tuple(Alternative(reference=ids, rule=option) for option in options[1:]),
        note=note,
    )


def _is_foreign(sides: tuple[Inventory, Inventory]) -> bool:
    return sides[0].framework != sides[1].framework


def _norm_doubt(pair: UnitPair, source: _Source, entry: Entry) -> float:
    """Return how far weight_norm allows two entries to be partners: 1 for all others."""
    if not is_magnitude(entry) or len(source.entries) != 1:
        return 1.0
    ours, theirs = (pair.reference, source.entries[0]), (pair.candidate, entry)
    return norm_doubt(ours, theirs, _UNSURE)
