"""Parameters that are left in partner containers, and vectors beside the layer that has them.

One author keeps decays and mixtures of a layer in one class, another has a class for the
recurrence; what they are called has nothing in common. That they are as many of one size in the
same block leaves few ways: a name tells which, or a run.

A vector may be kept apart from its layer: a Linear without bias and a parameter that the block
adds, or a layer of its own that only adds an offset, against a Linear with bias.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice, permutations
from typing import TYPE_CHECKING

from padiff.pairing.names import words_of
from padiff.pairing.result import PairedBy
from padiff.pairing.rule import IDENTITY, Rule

from .standing import unnumbered
from .unit_keys import nearest
from .weight_plan import Alternative, WeightChoice, WeightPair, WeightWay

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence

    from .inventory import Entry, Inventory, Unit, UnitPair

_GUESS, _LIKELY, _NAMED = 0.3, 0.6, 0.7
_MOST = 4
"""Of so many that nothing tells apart, every order is tried: 24."""
_MOST_NAMED = 16
_MATRIX = 2
_RESHAPE, _TRANSPOSE = Rule.parse("reshape"), Rule.parse("transpose")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_Lone = list[tuple["Unit", "Entry"]]
"""Parameters without partner, with their units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lone:
    """Pairs of what was left, and what a run can decide of them."""

    pairs: tuple[WeightPair, ...] = ()
    choices: tuple[WeightChoice, ...] = ()


def pair_lone(
    sides: tuple[Inventory, Inventory],
    units: Sequence[UnitPair],
    scopes: Callable[[], tuple[Mapping[int, int], Mapping[int, int]]],
    pairs: Iterable[WeightPair],
) -> Lone:
    """Pair what is left of one size in classes or containers that are partners."""
    known, found = list(pairs), Lone()
    whole = [pair for pair in units if not (pair.reference.is_part or pair.candidate.is_part)]
    classes = (
        {pair.reference.module.id: at for at, pair in enumerate(whole)},
        {pair.candidate.module.id: at for at, pair in enumerate(whole)},
    )
    for tables in (lambda: classes, scopes):
        left = [_left(*both) for both in zip(sides, _taken([*known, *found.pairs]), strict=True)]
        if not all(left):
            break
        ours, theirs = (_by_place(*both) for both in zip(sides, left, tables(), strict=True))
        for place in sorted(ours.keys() & theirs.keys()):
            made, choice = _between(ours[place], theirs[place])
            found = Lone(pairs=(*found.pairs, *made), choices=(*found.choices, *choice))
    return found


def choose_within(
    sides: tuple[Inventory, Inventory], pairs: Sequence[WeightPair]
) -> tuple[list[WeightPair], list[WeightChoice]]:
    """Let a run decide between parameters of one size in one class that are paired by their order.

    That the class is its partner's says nothing of which of them is which, unless their names do.

    Returns:
        The pairs, those in question in their first way, and what can be decided.
    """
    entries = [
        {entry.record.id: entry for unit in side.units for entry in unit.entries} for side in sides
    ]

    def is_named(pair: WeightPair) -> bool:
        return entries[0][pair.reference[0]].local == entries[1][pair.candidate].local

    groups: dict[tuple[int, int, tuple[int, ...]], list[WeightPair]] = defaultdict(list)
    for pair in pairs:
        if pair.paired_by is PairedBy.POSITION and pair.is_ambiguous and len(pair.reference) == 1:
            one, two = entries[0][pair.reference[0]], entries[1][pair.candidate]
            size = one.neutral_shape
            if len(set(size)) == len(size):  # else it may lie in several ways
                place = one.record.module, two.record.module, tuple(sorted(size))
                groups[place].append(pair)
    choices = [
        _choice(
            [entries[0][pair.reference[0]] for pair in group],
            [entries[1][pair.candidate] for pair in group],
        )
        for group in groups.values()
        if 1 < len(group) <= _MOST and not all(map(is_named, group))
    ]
    first = {pair.candidate: pair for choice in choices for pair in choice.ways[0].pairs}
    return [first.get(pair.candidate, pair) for pair in pairs], choices


def _taken(pairs: Sequence[WeightPair]) -> tuple[set[int], set[int]]:
    return {record for pair in pairs for record in pair.reference}, {
        pair.candidate for pair in pairs
    }


def _left(side: Inventory, taken: Container[int]) -> _Lone:
    """List what trains in users' own classes and has no partner."""
    return [
        (unit, entry)
        for unit in side.units
        if not unit.is_laid_out
        for entry in unit.needed
        if len(entry.atoms) == 1 and not entry.is_buffer and entry.record.id not in taken
    ]


def _by_place(
    side: Inventory, left: _Lone, table: Mapping[int, int]
) -> dict[tuple[int, tuple[int, ...]], list[Entry]]:
    """Group vectors and matrices that lie in one way only by place and size."""
    found: dict[tuple[int, tuple[int, ...]], list[Entry]] = defaultdict(list)
    for unit, entry in left:
        size = entry.neutral_shape
        place = table.get(unit.module.id, nearest(side, unit, table))
        if place is not None and 0 < len(size) <= _MATRIX and len(set(size)) == len(size):
            found[place, tuple(sorted(size))].append(entry)
    return found


def _between(
    ours: Sequence[Entry], theirs: Sequence[Entry]
) -> tuple[list[WeightPair], list[WeightChoice]]:
    """Pair parameters of one size in one place, where both sides have as many."""
    if len(ours) != len(theirs) or len(ours) > _MOST_NAMED:
        return [], []
    named = list(_named(ours, theirs))
    done = [{both[at].record.id for both in named} for at in (0, 1)]
    rest = [one for one in ours if one.record.id not in done[0]]
    other = [one for one in theirs if one.record.id not in done[1]]
    found = [_pair(one, two, PairedBy.NAME, _NAMED) for one, two in named]
    if len(rest) == 1:
        return [*found, _pair(rest[0], other[0], PairedBy.STRUCTURE, _LIKELY)], []
    if not 1 < len(rest) <= _MOST:
        return found, []
    choice = _choice(rest, other)
    return [*found, *choice.ways[0].pairs], [choice]


def _named(ours: Sequence[Entry], theirs: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Yield those of which one name abbreviates the other, and no other one."""
    met = [
        (one, two) for one in ours for two in theirs
        if is_abbreviation(one.local, two.local) or is_abbreviation(two.local, one.local)
    ]  # fmt: skip
    for one, two in met:
        if sum(one is other for other, _ in met) == sum(two is other for _, other in met) == 1:
            yield one, two


def is_abbreviation(short: str, long: str) -> bool:
    """Return whether a name is made of the first letters of another one's last words.

    >>> [is_abbreviation(short, "time_mix_k") for short in ("mk", "k", "time_mix_k")]
    [True, False, False]
    """
    short, words = short.rpartition(".")[2].lower(), _WORD.findall(long.rpartition(".")[2])
    initials = "".join(word[0].lower() for word in words)
    return len(short) > 1 and len(words) >= len(short) and initials.endswith(short)


def _choice(ours: Sequence[Entry], theirs: Sequence[Entry]) -> WeightChoice:
    """Return every order, those of definition first."""
    ways = []
    for order in permutations(ours):
        both = list(zip(order, theirs, strict=True))
        label = ", ".join(f"{two.local} = {one.local}" for one, two in both)
        pairs = tuple(
            _pair(
                one, two, PairedBy.POSITION, _GUESS, [other for other in ours if other is not one]
            )
            for one, two in both
        )
        ways.append(WeightWay(label=label, pairs=pairs, is_usual=True))
    name = ", ".join(unnumbered(entry.name) for entry in theirs)
    return WeightChoice(ways=tuple(ways), name=name, is_exchange=True)


def _pair(
    one: Entry, two: Entry, by: PairedBy, confidence: float, others: Sequence[Entry] = ()
) -> WeightPair:
    return WeightPair(
        reference=(one.record.id,),
        candidate=two.record.id,
        rule=_rule(one, two),
        paired_by=by,
        confidence=confidence,
        alternatives=tuple(
            Alternative(reference=(other.record.id,), rule=_rule(other, two)) for other in others
        ),
    )


def _rule(one: Entry, two: Entry) -> Rule:
    if one.shape == two.shape:
        return IDENTITY
    is_turned = len(one.neutral_shape) == _MATRIX and one.shape == two.shape[::-1]
    return _TRANSPOSE if is_turned else _RESHAPE


MOVED = "kept beside the layer that it belongs to"
"""Note of such a pair."""


_MOST_BESIDE = 8
"""Of more vectors of a size in one place, none is told by its words."""


def pair_moved(
    sides: tuple[Inventory, Inventory], units: Sequence[UnitPair], pairs: Iterable[WeightPair]
) -> list[WeightPair]:
    """Pair a lone vector of a paired layer with the only lone one of its size beside the partner.

    So is a lone matrix that a class adds to the layer that it derives from, as an adapter is, if it
    has the name and, in either order, the lengths of one that a class around the partner keeps.

    Returns:
        Further pairs; nothing where more than one vector comes into question, and no name tells
        which (``q_bias`` beside a fused projection is that of ``q_proj``).
    """
    taken = _taken(list(pairs))
    beside: list[dict[tuple[int | None, tuple[int, ...]], _Lone]] = []
    for side, used in zip(sides, taken, strict=True):
        found = defaultdict(list)
        for unit, entry in _left(side, used):
            for holder in {unit.module.id, unit.module.parent}:
                found[holder, tuple(sorted(entry.neutral_shape))].append((unit, entry))
        beside.append(found)
    met: dict[tuple[int, int], tuple[Entry, Entry]] = {}
    for pair in units:
        both = pair.reference, pair.candidate
        for at, (owner, partner) in enumerate((both, both[::-1])):
            for entry in owner.needed:
                size = tuple(sorted(entry.neutral_shape))
                is_told = len(size) in (1, _MATRIX) and len(set(size)) == len(size)
                is_told = is_told and len(entry.atoms) == 1
                if not is_told or entry.is_buffer or entry.record.id in taken[at]:
                    continue
                possible = beside[1 - at].get((partner.holder, size), ())
                if len(size) == _MATRIX:
                    possible = [each for each in possible if each[1].local == entry.local]
                for other in _beside(owner, partner, possible):
                    one, two = (other, entry) if at else (entry, other)
                    met[one.record.id, two.record.id] = one, two
    uses = Counter(one for one, _ in met), Counter(two for _, two in met)
    return [
        WeightPair(
            reference=(ids[0],),
            candidate=ids[1],
            rule=_rule(one, two),
            paired_by=PairedBy.STRUCTURE,
            confidence=_LIKELY,
            note=MOVED,
        )
        for ids, (one, two) in met.items()
        if uses[0][ids[0]] == uses[1][ids[1]] == 1
    ]


def _beside(owner: Unit, partner: Unit, possible: Iterable[tuple[Unit, Entry]]) -> list[Entry]:
    """Return the lone vector that a layer's vector can be, kept right beside its partner.

    Nothing where there are several, unless the words of one alone are the layer's.
    """
    apart = (
        vector for unit, vector in possible
        if partner.is_part or unit.module.id != partner.module.id
    )  # fmt: skip
    found = list(islice(apart, _MOST_BESIDE + 1))
    if 1 < len(found) <= _MOST_BESIDE:
        said = words_of(owner.leaf)
        found = [vector for vector in found if said & words_of(vector.local)]
    return found if len(found) == 1 else []


def pair_copies(
    sides: tuple[Inventory, Inventory], pairs: Sequence[WeightPair]
) -> Iterator[WeightPair]:
    """Yield pairs of parameters that nothing else tells and that hold the same elements.

    Only one of each side may hold them, and they may not be all the same: zeros are anybody's.
    """
    tables = [_by_content(*both) for both in zip(sides, _taken(pairs), strict=True)]
    for content, ours in tables[0].items():
        theirs = tables[1].get(content, ())
        if len(ours) == len(theirs) == 1:
            yield _pair(ours[0], theirs[0], PairedBy.VALUE, _NAMED)


def _by_content(side: Inventory, taken: Container[int]) -> dict[Hashable, list[Entry]]:
    """Group the parameters without partner by shape and elements."""
    found: dict[Hashable, list[Entry]] = defaultdict(list)
    for entry in (entry for unit in side.units for entry in unit.needed):
        value = side.value(entry)
        is_open = not (entry.is_buffer or entry.is_alias or entry.record.id in taken)
        if is_open and value is not None:
            statistics = value.statistics
            if statistics.minimum != statistics.maximum:
                found[entry.shape, value.dtype, value.digest].append(entry)
    return found
