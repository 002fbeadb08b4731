"""Parameters of numbered modules that the other side keeps in one stack: ensembles under ``vmap``.

One author has a list of members, another one parameter for what all members call ``head.bias``, as
``torch.func.stack_module_state`` makes it. Matrices of mixtures of experts are paired by
``stacked``, with two of them fused; here a stack holds one parameter of each member, of any form:
vectors, weights of norms and of convolutions, matrices that lie turned.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import PairedBy
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.steps import Step, Verb

from .fused_layouts import ROWS, are_held, doubted, pairs_under
from .lone import is_abbreviation

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from .inventory import Entry, Inventory
    from .weight_plan import WeightPair

_LIKELY, _GUESS = 0.6, 0.3
_MATRIX = 2
_UNTOLD = "stacked members; only equal values or a map can tell"
"""Note of a pair in doubt."""
_Size = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """The same parameter of all members, in their order."""

    name: str
    """What the members call it."""
    around: tuple[str, ...]
    """Names on the path ahead of the number."""
    entries: tuple[Entry, ...]

    @property
    def size(self) -> _Size:
        return (len(self.entries), *sorted(self.entries[0].neutral_shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A stack, a family that it may hold, and what speaks for that."""

    whole: Entry
    family: _Family
    ways: tuple[list[WeightPair], ...]
    """How it can lie, the likely one first."""
    is_held: bool
    is_named: bool
    """Whether the stack is called as the members call theirs: another likeness is no proof."""
    score: tuple[float, ...]


def pair_members(
    sides: tuple[Inventory, Inventory], pairs: Iterable[WeightPair]
) -> list[WeightPair]:
    """Pair what is left of either side with lists of what is left of the other one.

    Of several that fit, values decide, then names, and if nothing tells, the order of definition,
    in doubt.
    """
    known = list(pairs)
    taken = (
        {record for pair in known for record in pair.reference},
        {pair.candidate for pair in known},
    )
    left = [list(_left(*both)) for both in zip(sides, taken, strict=True)]
    found: list[WeightPair] = []
    for is_join in (True, False):
        families: dict[_Size, list[_Family]] = defaultdict(list)
        for family in _families(left[1 - is_join]):
            families[family.size].append(family)
        wholes: dict[_Size, list[Entry]] = defaultdict(list)
        for entry in left[is_join]:
            wholes[_size_of_stack(entry)].append(entry)
        for size in wholes.keys() & families.keys():
            found += _between(sides, wholes[size], families[size], is_join=is_join)
    return found


def _left(side: Inventory, taken: Container[int]) -> Iterator[Entry]:
    """Yield the parameters that hold one thing, need a partner and have none."""
    for unit in side.units:
        for entry in unit.needed:
            if len(entry.atoms) == 1 and not entry.is_alias and entry.record.id not in taken:
                yield entry


def _size_of_stack(entry: Entry) -> _Size:
    """Return the number of members and the lengths of what each of them has, in any order."""
    return (entry.shape[0], *sorted(n for n in entry.shape[1:] if n != 1)) if entry.shape else ()


def _families(entries: Sequence[Entry]) -> Iterator[_Family]:
    """Gather what numbered siblings call alike, for each number on the way."""
    groups: dict[tuple[tuple[str, ...], str], dict[int, Entry]] = defaultdict(dict)
    for entry in entries:
        words = tuple(entry.name.split("."))
        for at, word in enumerate(words[:-1]):
            if word.isdigit():
                groups[words[:at], ".".join(words[at + 1 :])][int(word)] = entry
    for (around, name), members in groups.items():
        ordered = tuple(members[number] for number in sorted(members))
        if len(ordered) > 1 and len({(entry.shape, entry.rule) for entry in ordered}) == 1:
            yield _Family(name=name, around=around, entries=ordered)


def _between(
    sides: tuple[Inventory, Inventory],
    wholes: Sequence[Entry],
    families: Sequence[_Family],
    *,
    is_join: bool,
) -> Iterator[WeightPair]:
    """Pair stacks and families of one size, what is most alike first."""
    matches = [
        match
        for whole in wholes
        for family in families
        if (match := _match(sides, whole, family, is_join=is_join)) is not None
    ]
    matches.sort(key=lambda match: match.score, reverse=True)
    stacks: set[int] = set()
    members: set[int] = set()
    for match in matches:
        whole, parts = match.whole.record.id, {one.record.id for one in match.family.entries}
        if whole in stacks or not members.isdisjoint(parts):
            continue
        stacks.add(whole)
        members |= parts
        if match.is_held:
            yield from (
                replace(pair, paired_by=PairedBy.VALUE, confidence=1.0) for pair in match.ways[0]
            )
            continue
        rivals = [
            other
            for other in matches
            if other is not match
            and not other.is_held
            and (other.score >= match.score or not match.is_named)
            and (other.whole is match.whole or other.family is match.family)
        ]
        others = [*match.ways[1:], *(way for other in rivals for way in other.ways)]
        is_told = match.is_named and not others  # else what is left may be so by an earlier guess
        sure, note = (_LIKELY, "") if is_told else (_GUESS, _UNTOLD)
        yield from doubted(match.ways[0], others, sure, note)


def _match(
    sides: tuple[Inventory, Inventory], whole: Entry, family: _Family, *, is_join: bool
) -> _Match | None:
    """Hold a stack against a family; nothing if it can lie in no way."""
    ways = list(_ways(whole, family, is_join=is_join))
    if not ways:
        return None
    ends = (family.entries, [whole]) if is_join else ([whole], family.entries)
    held = [way for way in ways if are_held(sides, ends, way)]
    are_even = _even(sides[is_join], [whole]) == _even(sides[1 - is_join], family.entries)
    own = whole.name.split(".")
    alike = likeness(words_of(whole.name), words_of(".".join((*family.around, family.name))))
    is_short = _is_short_for(whole.local, family.name)
    shared = sum(one == two for one, two in zip(own, family.around, strict=False))
    return _Match(
        whole=whole,
        family=family,
        ways=tuple(held[:1] or ways),
        is_held=bool(held),
        is_named=is_short,
        score=(bool(held), shared, is_short, alike, are_even),
    )


def _is_short_for(short: str, name: str) -> bool:
    """Return whether a stack's name is that of the members' parameter, its words cut short.

    >>> _is_short_for("nw", "n.weight"), _is_short_for("norm_w", "norm.weight")
    (True, True)
    """
    long = name.replace(".", "_")
    cut, whole = short.lower().replace(".", "_").split("_"), long.lower().split("_")
    return is_abbreviation(short, long) or (
        len(cut) == len(whole) and all(map(str.startswith, whole, cut))
    )


def _even(side: Inventory, entries: Sequence[Entry]) -> tuple[float | None, float | None]:
    """Return the least and the largest element of all."""
    values = [value for entry in entries if (value := side.value(entry)) is not None]
    lows = [one.statistics.minimum for one in values if one.statistics.minimum is not None]
    highs = [one.statistics.maximum for one in values if one.statistics.maximum is not None]
    return min(lows, default=None), max(highs, default=None)


def _ways(whole: Entry, family: _Family, *, is_join: bool) -> Iterator[list[WeightPair]]:
    """Yield how a stack can hold a family; matrices may lie turned."""
    first, count = family.entries[0], len(family.entries)
    if first.rule.inverse is None:
        return
    size = first.rule.inverse.shape_of([first.shape], first.shape)
    inner = [n for n in whole.shape[1:] if n != 1]
    row = ROWS["stack"]
    for is_turned in (False, True)[: len(size)]:
        lies = size[::-1] if is_turned else size
        if [n for n in lies if n != 1] != inner or (is_turned and len(size) != _MATRIX):
            continue
        turn, flip = ("transpose | ", " | transpose") if is_turned else ("", "")
        join, part = row.joined({"turn": turn}), IDENTITY
        if (count, *lies) != whole.shape:
            join, part = join.then(_reshape(whole.shape)), _reshape(lies)
        takes = [
            row.taken({"index": at, "flip": ""}).then(part).then(Rule.parse(flip.strip(" |")))
            for at in range(count)
        ]
        made = pairs_under(join, whole, family.entries, is_join=is_join, taken=takes.__getitem__)
        if made:
            yield made


def _reshape(shape: _Size) -> Rule:
    return Rule((Step(Verb.RESHAPE, shape),))
