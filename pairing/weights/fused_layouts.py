"""How parts lie in a weight that holds several: the table of layouts, and the pairs of one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import permutations
from math import gcd
from typing import TYPE_CHECKING

from padiff.pairing.result import PairedBy
from padiff.pairing.rule import Rule
from padiff.pairing.steps import Step, Verb

from .entry_pairs import holds
from .weight_plan import Alternative, WeightPair

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from .inventory import Entry, Inventory, Unit

    Numbers = Mapping[str, int | str]

MANY_PARTS = 4
"""So many parts or more are not tried in every order."""
_MATRIX = 2
_MAX_GROUPS = 256
_LEVELS = 3
"""So many modules around a projection may state how many heads it serves."""
_HEADS = re.compile(r"(?=.*head)(?!.*(dim|size|mask|channels|width)).*", re.IGNORECASE)
"""Names of attributes that hold a number of heads: ``num_heads``, ``n_head``, ``num_kv_heads``."""
_LETTERS = re.compile(r"(?<![a-z])w?([qkv]{2,3}|gu|ug)(?![a-z])", re.IGNORECASE)
"""A word of a name that spells parts by their first letters."""
GATED = ("gate", "up")
_NAMES = {"q": ("query",), "k": ("key",), "v": ("value",)}
"""What a name calls a part, if not by its role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A layout: its rule in either direction, with places for numbers and for turned matrices."""

    join: str
    """Makes the whole of the parts, given one after the other."""
    part: str = ""
    """Takes a part out of the whole; empty for what undoes the join."""

    def joined(self, numbers: Numbers) -> Rule:
        """Return the rule that makes the whole."""
        return Rule.parse(self.join.format(**numbers))

    def taken(self, numbers: Numbers) -> Rule:
        """Return the rule that takes a part out."""
        return Rule.parse(self.part.format(**numbers))


ROWS = {
    "blocks": Row(join="concat 0"),
    "groups": Row(join="interleave {groups}"),
    "stack": Row(join="{turn}stack", part="take {index}{flip}"),
    "stacked blocks": Row(
        join="concat 0 | reshape {count} {rows}{columns}{turned}",
        part="take {index}{flip} | rows {share}/2",
    ),
    "stacked groups": Row(
        join="interleave {each} | reshape {each} {count} 2{columns} | permute {axes} | "
        "reshape {count} {rows}{columns}{turned}",
        part="take {index}{flip} | groups {each} {share}/2",
    ),
}
"""Fused rows in blocks or group by group; experts in a stack, and two of each fused in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The units that fill a fused one."""

    units: tuple[Unit, ...]
    roles: tuple[str, ...] = ()
    """What each is, in the usual order (``q``, ``k``, ``v``); empty if their names do not say."""

    def spelled(self, leaf: str) -> tuple[int, ...] | None:
        """Return the order in which the name of the fused unit spells the parts, None if not."""
        if not self.roles:
            return None
        text = leaf.lower()
        words = [[word.find(role[0]) for role in self.roles]
                 for word in _LETTERS.findall(text) if len(word) == len(self.roles)]  # fmt: skip
        names = [min((text.find(name) for name in _NAMES.get(role, (role,)) if name in text),
                     default=-1) for role in self.roles]  # fmt: skip
        for found in (*words, names):
            if min(found) >= 0 and len(set(found)) == len(found):
                return tuple(sorted(range(len(found)), key=found.__getitem__))
        return None

    def is_usual(self, order: tuple[int, ...], leaf: str) -> bool:
        """Return whether authors fuse the parts in this order; any, where nothing names them.

        ``up_gate_proj`` of PaddleFormers has the gate first: gate before up is usual whatever a
        name says, up before gate where it does not say the contrary.
        """
        spelled, natural = self.spelled(leaf), tuple(range(len(order)))
        is_gated = self.roles == GATED
        if spelled is None:
            return not self.roles or is_gated or order == natural
        return order == spelled or (is_gated and order == natural)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A way to lay the parts out in the fused one."""

    order: tuple[int, ...]
    """Which part comes first, second …"""
    groups: int
    """1 for blocks; else the parts alternate in so many groups."""
    per: str = ""
    """What a group is, where a module states so many heads."""

    @property
    def join(self) -> Rule:
        """Return the rule that fuses parts given in order."""
        return ROWS["blocks" if self.groups == 1 else "groups"].joined({"groups": self.groups})

    def label(self, parts: Parts) -> str:
        """Describe the layout, alike for layers of another size."""
        leaves = ", ".join(parts.units[place].leaf for place in self.order)
        return f"{leaves} in blocks" if self.groups == 1 else f"{leaves} {self.per}"


def rows_of(unit: Unit) -> tuple[int, tuple[int, ...]] | None:
    """Return rows and other lengths of the main entry in the neutral layout."""
    entry = unit.main
    inverse = entry.rule.inverse
    if inverse is None or len(entry.shape) < _MATRIX:
        return None
    shape = inverse.shape_of([entry.shape], entry.shape)
    return shape[0], shape[1:]


def layouts_of(parts: Parts, leaf: str, heads: Collection[int] = ()) -> list[Layout]:
    """Return the layouts in which the parts can lie, the usual ones first."""
    usual = parts.spelled(leaf) or tuple(range(len(parts.units)))
    rows = [found[0] for unit in parts.units if (found := rows_of(unit))]
    common = gcd(*rows) if rows else 1
    orders = [usual]
    if len(usual) < MANY_PARTS:
        orders += [order for order in permutations(sorted(usual)) if order != usual]
    groups = [n for n in range(1, min(common, _MAX_GROUPS) + 1) if common % n == 0]
    groups += [common] if common > groups[-1] else []  # element by element
    stated = sorted(({*heads} & {*groups}) - {1}, reverse=True)
    groups.sort(key=lambda n: (n > 1 and n not in stated, n))
    return [
        Layout(order=order, groups=n, per=_words_for(n, stated)) for order in orders for n in groups
    ]


def _words_for(groups: int, heads: Sequence[int]) -> str:
    if groups not in heads:
        return f"in {groups} groups"
    return "for each head" if groups == heads[0] else "for each group of heads"


def heads_around(side: Inventory, unit: Unit) -> set[int]:
    """Return the numbers of heads that the modules around a unit state."""
    modules = [unit.module]
    while len(modules) <= _LEVELS and modules[-1].parent is not None:
        modules.append(side.side.index.modules[modules[-1].parent])
    return {
        value
        for module in modules
        for name, value in module.attributes.items()
        if isinstance(value, int) and not isinstance(value, bool) and _HEADS.fullmatch(name)
    }


def pairs_under(
    join: Rule,
    entry: Entry,
    parts: Sequence[Entry | int],
    *,
    is_join: bool,
    taken: Callable[[int], Rule] | None = None,
) -> list[WeightPair] | None:
    """Write a layout down as pairs; None if it does not fit the shapes.

    Args:
        join: Makes the whole of the parts.
        entry: The whole.
        parts: What it holds, one after the other; for a part that lacks it, how many rows of zeros
            stand for it.
        is_join: Whether the whole is the candidate's.
        taken: The rule that takes the part of a number out; None for what undoes the join.
    """
    ordered = [part for part in parts if not isinstance(part, int)]
    inner = {part.rule.inverse for part in ordered}
    before = inner.pop()
    if inner or before is None:
        return None
    for place, part in enumerate(parts):
        if isinstance(part, int):
            before = before.then(Rule((Step(Verb.ZEROS, (place, part)),)))
    whole = before.then(join).then(entry.rule)
    shapes = [part.shape for part in ordered]
    if not whole.fits(shapes, entry.shape):
        return None
    if is_join:
        return [_pair(tuple(part.record.id for part in ordered), entry, whole)]
    rules: Sequence[Rule] | None
    if taken is None:
        rules = whole.inverses(shapes, entry.shape)
    else:
        rules = [taken(place).then(part.rule) for place, part in enumerate(ordered)]
    if rules is None:
        return None
    return [
        _pair((entry.record.id,), part, rule) for part, rule in zip(ordered, rules, strict=True)
    ]


def _pair(reference: tuple[int, ...], entry: Entry, rule: Rule) -> WeightPair:
    return WeightPair(
        reference=reference, candidate=entry.record.id, rule=rule, paired_by=PairedBy.STRUCTURE
    )


def are_held(
    sides: tuple[Inventory, Inventory],
    ends: tuple[Iterable[Entry], Iterable[Entry]],
    pairs: Iterable[WeightPair],
) -> bool:
    """Return whether both sides hold the same values already, as some pairs say."""
    ours, theirs = ({one.record.id: one for one in side} for side in ends)
    own = [pair for pair in pairs if pair.candidate in theirs]
    return all(
        holds(sides, [ours[one] for one in pair.reference], pair.rule, theirs[pair.candidate])
        for pair in own
    )


def doubted(
    made: Sequence[WeightPair],
    others: Sequence[Sequence[WeightPair]],
    confidence: float,
    note: str,
) -> list[WeightPair]:
    """Return pairs with what else they could be."""
    return [
        replace(
            pair,
            confidence=confidence,
            alternatives=tuple(
                Alternative(reference=reference, rule=rule)
                for reference, rule in dict.fromkeys(
                    (option.reference, option.rule)
                    for other in others
                    for option in other
                    if option.candidate == pair.candidate
                )
                if (reference, rule) != (pair.reference, pair.rule)
            ),
            note=note,
        )
        for pair in made
    ]
