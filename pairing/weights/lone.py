"""Parameters that are left in partner containers, and vectors beside the layer that has them.

One author keeps decays and mixtures of a layer in one class, another has a class for the
recurrence; what they are called has nothing in common. That they are as many of one size in the
same block leaves few ways: a name tells which, or a run.

A vector may be kept apart from its layer: a Linear without bias and a parameter that the block
adds, or a layer of its own that only adds an offset, against a Linear with bias.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

from padiff.pairing.names import words_of
from padiff.pairing.result import PairedBy
from padiff.pairing.rule import IDENTITY, Rule

from .unit_keys import nearest
from .weight_plan import Alternative, WeightChoice, WeightPair, WeightWay

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from .inventory import Entry, Inventory, Unit, UnitPair

__all__ = ["MOVED", "pair_lone", "pair_moved"]

_GUESS, _LIKELY, _NAMED = 0.3, 0.6, 0.7
_MOST = 4
"""Of so many that nothing tells apart, every order is tried: 24."""
_MOST_NAMED = 16
_MATRIX = 2
_RESHAPE, _TRANSPOSE = Rule.parse("reshape"), Rule.parse("transpose")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_NUMBER = re.compile(r"\d+")
_Places = dict[tuple[int, tuple[int, ...]], list["Entry"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lone:
    """Pairs of what was left, and what a run can decide of them."""

    pairs: tuple[WeightPair, ...]
    choices: tuple[WeightChoice, ...]


def pair_lone(
    sides: tuple[Inventory, Inventory],
    units: Sequence[UnitPair],
    scopes: Callable[[], tuple[Mapping[int, int], Mapping[int, int]]],
    pairs: Iterable[WeightPair],
) -> Lone:
    """Pair what is left of one size in classes or containers that are partners.

    Args:
        sides: Both sides.
        units: The paired classes.
        scopes: Gives a common number of each two modules that are partners around something paired.
        pairs: The parameters that are paired already.
    """
    known = list(pairs)
    if not all(_any_left(*both) for both in zip(sides, _taken(known), strict=True)):
        return Lone(pairs=(), choices=())
    found: list[WeightPair] = []
    choices: list[WeightChoice] = []
    classes = (
        {p.reference.module.id: at for at, p in enumerate(units) if not p.reference.is_part},
        {p.candidate.module.id: at for at, p in enumerate(units) if not p.candidate.is_part},
    )
    around = [
        {
            unit.module.id: scope
            for unit in side.units
            if not unit.is_laid_out
            if (scope := table.get(unit.module.id, nearest(side, unit, table))) is not None
        }
        for side, table in zip(sides, scopes(), strict=True)
    ]
    for tables in (classes, around):
        taken = _taken([*known, *found])
        ours, theirs = (_left(*both) for both in zip(sides, tables, taken, strict=True))
        for place in sorted(ours.keys() & theirs.keys()):
            made, choice = _between(ours[place], theirs[place])
            found += made
            choices += choice
    return Lone(pairs=tuple(found), choices=tuple(choices))


def _taken(pairs: Sequence[WeightPair]) -> tuple[set[int], set[int]]:
    return {record for pair in pairs for record in pair.reference}, {
        pair.candidate for pair in pairs
    }


def _any_left(side: Inventory, taken: Container[int]) -> bool:
    """Tell whether anything of users' own classes has no partner."""
    return any(
        entry.record.id not in taken and not entry.is_buffer
        for unit in side.units
        if not unit.is_laid_out
        for entry in unit.entries
    )


def _left(side: Inventory, table: Mapping[int, int], taken: Container[int]) -> _Places:
    """List what trains, has no partner and is no layer's, by place and size.

    Args:
        side: One side.
        table: A number of the place of each unit.
        taken: Records that have partners.
    """
    found: _Places = defaultdict(list)
    for unit in side.units:
        if unit.is_laid_out or unit.module.id not in table:
            continue
        for entry in unit.needed:
            is_plain = len(entry.atoms) == 1 and not (entry.is_buffer or entry.is_alias)
            size = entry.neutral_shape
            is_open = 0 < len(size) <= _MATRIX and len(set(size)) == len(size)
            if is_plain and is_open and entry.record.id not in taken:
                found[table[unit.module.id], tuple(sorted(size))].append(entry)
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
    """Give those of which one name abbreviates the other, and no other one."""
    met = [
        (one, two) for one in ours for two in theirs
        if _abbreviates(one.local, two.local) or _abbreviates(two.local, one.local)
    ]  # fmt: skip
    for one, two in met:
        if sum(one is other for other, _ in met) == sum(two is other for _, other in met) == 1:
            yield one, two


def _abbreviates(short: str, long: str) -> bool:
    """Tell whether a name is made of the first letters of another one's last words.

    >>> _abbreviates("mk", "time_mix_k"), _abbreviates("k", "time_mix_k"), _abbreviates("mk", "mk")
    (True, False, False)
    """
    short, words = short.rpartition(".")[2].lower(), _WORD.findall(long.rpartition(".")[2])
    initials = "".join(word[0].lower() for word in words)
    return len(short) > 1 and len(words) >= len(short) and initials.endswith(short)


def _choice(ours: Sequence[Entry], theirs: Sequence[Entry]) -> WeightChoice:
    """Give every order, those of definition first."""
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
    name = ", ".join(_NUMBER.sub("#", entry.name) for entry in theirs)
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
_Lone = dict[tuple[int | None, tuple[int, ...]], list[tuple["Unit", "Entry"]]]
"""Vectors by the module that holds them, or that holds their module, and by shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    reference: Entry
    candidate: Entry


def pair_moved(
    sides: tuple[Inventory, Inventory], units: Sequence[UnitPair], pairs: Iterable[WeightPair]
) -> list[WeightPair]:
    """Pair a lone vector of a paired layer with the only lone one of its size beside the partner.

    Args:
        sides: Both sides.
        units: The paired layers; a fused one with each of its parts.
        pairs: The parameters that are paired already.

    Returns:
        Further pairs; nothing where more than one vector comes into question, and no name tells
        which (``q_bias`` beside a fused projection is that of ``q_proj``).
    """
    known = list(pairs)
    taken = (
        {record for pair in known for record in pair.reference},
        {pair.candidate for pair in known},
    )
    lone = [_lone(side, used) for side, used in zip(sides, taken, strict=True)]
    found: list[_Found] = []
    for pair in units:
        for entry in _of(pair.reference, taken[0]):
            found += [
                _Found(reference=entry, candidate=o)
                for o in _beside(pair.reference, entry, pair.candidate, lone[1])
            ]
        for entry in _of(pair.candidate, taken[1]):
            found += [
                _Found(reference=o, candidate=entry)
                for o in _beside(pair.candidate, entry, pair.reference, lone[0])
            ]
    return list(_single(found))


def _of(unit: Unit, taken: set[int]) -> list[Entry]:
    return [entry for entry in unit.needed if entry.record.id not in taken and _is_vector(entry)]


def _is_vector(entry: Entry) -> bool:
    return len(entry.neutral_shape) == 1 and len(entry.atoms) == 1 and not entry.is_buffer


def _lone(side: Inventory, taken: set[int]) -> _Lone:
    """List the vectors of users' own classes that have no partner, by holder and shape."""
    found: _Lone = defaultdict(list)
    for unit in side.units:
        if not unit.is_laid_out:
            for entry in _of(unit, taken):
                for holder in dict.fromkeys((unit.module.id, unit.module.parent)):
                    found[holder, entry.neutral_shape].append((unit, entry))
    return found


def _beside(owner: Unit, entry: Entry, partner: Unit, lone: _Lone) -> list[Entry]:
    """Give the lone vector that a layer's vector can be, kept right beside its partner.

    Nothing where there are several, unless the words of one alone are the layer's.

    Args:
        owner: The layer.
        entry: Its vector.
        partner: The other side's layer.
        lone: Vectors of the other side.
    """
    found: list[Entry] = []
    for other, vector in lone.get((partner.holder, entry.neutral_shape), ()):
        if partner.is_part or other.module.id != partner.module.id:
            found.append(vector)
            if len(found) > _MOST_BESIDE:
                return []
    if len(found) > 1:
        said = words_of(owner.path.rpartition(".")[2])
        found = [vector for vector in found if said & words_of(vector.local)]
    return found if len(found) == 1 else []


def _single(found: Sequence[_Found]) -> Iterator[WeightPair]:
    uses: dict[tuple[int, int], set[int]] = defaultdict(set)
    for one in found:
        ids = one.reference.record.id, one.candidate.record.id
        uses[0, ids[0]].add(ids[1])
        uses[1, ids[1]].add(ids[0])
    done: set[int] = set()
    for one in found:
        ids = one.reference.record.id, one.candidate.record.id
        is_clear = len(uses[0, ids[0]]) == len(uses[1, ids[1]]) == 1
        if not is_clear or ids[1] in done:
            continue
        done.add(ids[1])
        is_same = one.reference.shape == one.candidate.shape
        yield WeightPair(
            reference=(ids[0],),
            candidate=ids[1],
            rule=IDENTITY if is_same else _RESHAPE,
            paired_by=PairedBy.STRUCTURE,
            confidence=_LIKELY,
            note=MOVED,
        )
