"""How the parts of a fused projection can lie in it: their order, and blocks or groups."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import permutations
from math import gcd
from typing import TYPE_CHECKING

from padiff.pairing.result import PairedBy
from padiff.pairing.rule import Rule
from padiff.pairing.steps import Step, Verb

from .weight_plan import Alternative, WeightPair

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from .inventory import Entry, Inventory, Unit

__all__ = [
    "MANY_PARTS",
    "Layout",
    "Parts",
    "doubted",
    "heads_around",
    "layouts_of",
    "pairs_under",
    "rows_of",
]

MANY_PARTS = 4
"""So many parts or more are not tried in every order."""
UNTOLD = "fused; only equal values, a run or a map can tell the layout"
"""Note of such a pair."""
_MATRIX = 2
_MAX_GROUPS = 256
_LEVELS = 3
"""So many modules around a projection may state how many heads it serves."""
_HEADS = re.compile(r"(?=.*head)(?!.*(dim|size|mask|channels|width)).*", re.IGNORECASE)
"""Names of attributes that hold a number of heads: ``num_heads``, ``n_head``, ``num_kv_heads``."""
_LETTERS = re.compile(r"(?<![a-z])w?([qkv]{2,3}|gu|ug)(?![a-z])", re.IGNORECASE)
"""A word of a name that spells parts by their first letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The units that fill a fused one."""

    units: tuple[Unit, ...]
    roles: tuple[str, ...] = ()
    """What each is, in the usual order (``q``, ``k``, ``v``); empty if their names do not say."""

    def is_of(self, other: Parts) -> bool:
        """Tell whether they are the same units, in whichever order."""
        return {id(unit) for unit in self.units} == {id(unit) for unit in other.units}

    def spelled(self, leaf: str) -> tuple[int, ...] | None:
        """Give the order in which the name of the fused unit spells the parts, None if not."""
        if not self.roles:
            return None
        text = leaf.lower()
        for word in _LETTERS.findall(text):
            letters = [word.find(role[0]) for role in self.roles]
            if min(letters) >= 0 and len(word) == len(letters):
                return tuple(sorted(range(len(letters)), key=letters.__getitem__))
        names = [min((text.find(name) for name in _NAMES.get(role, (role,)) if name in text),
                     default=-1) for role in self.roles]  # fmt: skip
        if min(names) < 0 or len(set(names)) < len(names):
            return None
        return tuple(sorted(range(len(names)), key=names.__getitem__))

    def is_usual(self, order: tuple[int, ...], leaf: str) -> bool:
        """Tell whether authors fuse the parts in this order; any, where nothing names them.

        ``up_gate_proj`` of PaddleFormers has the gate first: gate before up is usual whatever a
        name says, up before gate where it does not say the contrary.
        """
        spelled, natural = self.spelled(leaf), tuple(range(len(order)))
        if self.roles == ("gate", "up") and order == natural:
            return True
        if spelled is not None:
            return order == spelled
        return not self.roles or order == natural or self.roles == ("gate", "up")


_NAMES = {"q": ("query",), "k": ("key",), "v": ("value",), "gate": ("gate",), "up": ("up",)}


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
        """Give the rule that fuses parts given in order."""
        return Rule.parse("concat 0" if self.groups == 1 else f"interleave {self.groups}")

    def label(self, parts: Parts) -> str:
        """Say what it is, alike for layers of another size."""
        leaves = ", ".join(parts.units[place].path.rpartition(".")[2] for place in self.order)
        return f"{leaves} in blocks" if self.groups == 1 else f"{leaves} {self.per}"


def rows_of(unit: Unit) -> tuple[int, tuple[int, ...]] | None:
    """Give rows and other lengths of the main entry in the neutral layout."""
    entry = unit.main
    inverse = entry.rule.inverse
    if inverse is None or len(entry.shape) < _MATRIX:
        return None
    shape = inverse.shape_of([entry.shape], entry.shape)
    return shape[0], shape[1:]


def layouts_of(parts: Parts, leaf: str, heads: Collection[int] = ()) -> list[Layout]:
    """Give the layouts in which the parts can lie, the usual ones first.

    Args:
        parts: The parts.
        leaf: Own name of the fused unit.
        heads: Numbers of heads that the modules around state.
    """
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
    """Give the numbers of heads that the modules around a unit state."""
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
    layout: Layout, entry: Entry, parts: Sequence[Entry | int], *, is_join: bool
) -> list[WeightPair] | None:
    """Write a layout down as pairs; None if it does not fit the shapes.

    Args:
        layout: The layout.
        entry: The fused parameter.
        parts: Those of its parts, in the order that the layout's numbers mean; for a part that has
            none, how many rows of zeros stand for it.
        is_join: Whether the fused one is the candidate's.
    """
    placed = [parts[place] for place in layout.order]
    ordered = [part for part in placed if not isinstance(part, int)]
    inner = {part.rule.inverse for part in ordered}
    before = inner.pop()
    if inner or before is None:
        return None
    for place, part in enumerate(placed):
        if isinstance(part, int):
            before = before.then(Rule((Step(Verb.ZEROS, (place, part)),)))
    whole = before.then(layout.join).then(entry.rule)
    shapes = [part.shape for part in ordered]
    if not whole.fits(shapes, entry.shape):
        return None
    ids = tuple(part.record.id for part in ordered)
    if is_join:
        return [_pair(ids, entry, whole)]
    rules = whole.inverses(shapes, entry.shape)
    if rules is None:
        return None
    return [
        _pair((entry.record.id,), part, rule) for part, rule in zip(ordered, rules, strict=True)
    ]


def _pair(reference: tuple[int, ...], entry: Entry, rule: Rule) -> WeightPair:
    return WeightPair(
        reference=reference, candidate=entry.record.id, rule=rule, paired_by=PairedBy.STRUCTURE
    )


def doubted(
    made: Sequence[WeightPair], others: Sequence[Sequence[WeightPair]], trust: float
) -> list[WeightPair]:
    """Give pairs with what else they could be, the usual order of the parts first."""
    found = []
    for pair in made:
        options = {
            (option.reference, option.rule)
            for other in others
            for option in other
            if option.candidate == pair.candidate
        }
        shown = sorted(
            options - {(pair.reference, pair.rule)},
            key=lambda option: (option[0] != pair.reference, len(str(option[1])), str(option)),
        )
        found.append(
            replace(
                pair,
                confidence=trust,
                alternatives=tuple(Alternative(reference=r, rule=rule) for r, rule in shown[:8]),
                note=UNTOLD,
            )
        )
    return found
