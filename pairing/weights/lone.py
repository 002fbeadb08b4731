"""Parameters of users' own classes that are left in two partner containers: by name, or by a run.

One author keeps decays and mixtures of a layer in one class, another has a class for the
recurrence; what they are called has nothing in common. That they are as many of one size in the
same block leaves few ways, and a run tells which.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

from padiff.pairing.result import PairedBy
from padiff.pairing.rule import IDENTITY, Rule

from .unit_keys import nearest
from .weight_plan import Alternative, WeightChoice, WeightPair, WeightWay

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from .inventory import Entry, Inventory, UnitPair

__all__ = ["Lone", "pair_lone"]

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
        {pair.reference.id: at for at, pair in enumerate(units)},
        {pair.candidate.id: at for at, pair in enumerate(units)},
    )
    around = [
        {
            unit.id: scope
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
        if unit.is_laid_out or unit.id not in table:
            continue
        for entry in unit.needed:
            is_plain = len(entry.atoms) == 1 and not (entry.is_buffer or entry.is_alias)
            size = entry.neutral_shape
            is_open = 0 < len(size) <= _MATRIX and len(set(size)) == len(size)
            if is_plain and is_open and entry.record.id not in taken:
                found[table[unit.id], tuple(sorted(size))].append(entry)
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
