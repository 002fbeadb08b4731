"""Which units of the other side lie side by side in a fused one: by their values, names or sizes.

A part may lack what the others have: the key of Whisper, BEIT and Swin v2 has no bias, its query
and value have one. Fused they have one bias; what the key lacks is zeros there. That is so only
where it is meant: a bias that went missing is told from one that never was by layers alike, and by
what lies beside.
"""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpError
from padiff.pairing.names import words_of

from .fused_layouts import GATED, MANY_PARTS, Parts, rows_of
from .standing import unnumbered
from .unit_keys import extremes_of, nearest

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.rule import Rule

    from .inventory import Entry, Inventory, Unit

    Sized = tuple[Unit, int]
    Size = tuple[int, tuple[int, ...]]
    Side = tuple[Inventory, Sequence[Unit], Mapping[int, int]]

__all__ = ["NOT_EMPTY", "Lacking", "filled", "is_empty", "zeros_note"]

_ROLES = (
    (("q", "k", "v"), ("q", "k", "v")),
    (GATED, GATED),
    (("w1", "w3"), GATED),
    (("k", "v"), ("k", "v")),
)
"""Words of the parts that authors fuse, in the usual order, and what they mean."""
_UNSAID = ("k", "v")
"""Parts that are so many only where the name of the fused one says so."""


def filled(wholes: Side, others: Side) -> list[tuple[Unit, Parts]]:
    """Return the units of one side that several of the other fill, with these, each other once.

    What values tell comes first. Of what names and sizes tell, as many fused units of a size and a
    name in a scope as there are groups that fill them belong together in their order.

    Args:
        wholes: A side, its lone units, and a number of each module that has a partner.
        others: The other one.
    """
    groups = _groups(*others)
    taken: set[int] = set()
    found: list[tuple[Unit, Parts]] = []

    def free(possible: Iterable[Parts]) -> list[Parts]:
        return [one for one in possible if taken.isdisjoint(map(id, one.units))]

    peers: dict[tuple[int | None, Size, str], list[Unit]] = defaultdict(list)
    for unit in wholes[1]:
        size, extremes = rows_of(unit), extremes_of(wholes[0], [unit.main])
        if size is None:
            continue
        told = free(groups.get((size, extremes), ()) if extremes else ())
        if len(told) == 1:
            taken.update(map(id, told[0].units))
            found.append((unit, told[0]))
        else:
            peers[nearest(wholes[0], unit, wholes[2]), size, unit.leaf].append(unit)
    for (scope, size, _), units in peers.items():
        fitting = [
            one for one in free(groups.get((scope, size), ()))
            if one.roles != _UNSAID or units[0].words.issuperset(_UNSAID)
        ]  # fmt: skip
        named = [one for one in fitting if one.roles] or fitting
        if len(named) == len(units):
            for unit, parts in zip(units, named, strict=True):
                if taken.isdisjoint(map(id, parts.units)):
                    taken.update(map(id, parts.units))
                    found.append((unit, parts))
    return found


def _groups(
    side: Inventory, units: Sequence[Unit], table: Mapping[int, int]
) -> dict[Hashable, list[Parts]]:
    """Return what could be the parts of one, by what they fill: scope and size, size and values."""
    families: dict[tuple[str, tuple[int, ...]], list[Sized]] = defaultdict(list)
    for unit in units:
        size = rows_of(unit)
        if size is not None:
            families[unit.path.rpartition(".")[0], size[1]].append((unit, size[0]))
    found: dict[Hashable, list[Parts]] = defaultdict(list)
    for (_, columns), members in families.items():
        for parts, rows in _possible(members):
            size, extremes = (rows, columns), extremes_of(side, [one.main for one in parts.units])
            found[nearest(side, parts.units[0], table), size].append(parts)
            if extremes is not None:
                found[size, extremes].append(parts)
    return found


def _possible(members: Sequence[Sized]) -> Iterator[tuple[Parts, int]]:
    """Give the siblings of some roles, and all that there are, with their rows."""
    words = [words_of(unit.leaf) | {unit.leaf.lower()} for unit, _ in members]
    is_told = not 1 < len(members) <= MANY_PARTS
    for names, meaning in _ROLES:
        chosen = [[one for one, said in zip(members, words, strict=True) if name in said]
                  for name in names]  # fmt: skip
        if all(len(fitting) == 1 for fitting in chosen):
            units, rows = zip(*(fitting[0] for fitting in chosen), strict=True)
            is_told = is_told or len(units) == len(members)
            yield Parts(units=units, roles=meaning), sum(rows)
    if not is_told:
        units, rows = zip(*members, strict=True)
        yield Parts(units=units), sum(rows)


NOT_EMPTY = "its part for a layer that has none on the other side is not zero"
"""Why a fused vector of the reference has no partner."""


class Lacking:
    """Tells what the parts of one side lack, and whether that is meant."""

    def __init__(self, side: Inventory, lone: Iterable[Unit]) -> None:
        """Take the side of the parts, and its lone units."""
        self._lone = list(lone)
        self._have: dict[str, set[str]] = defaultdict(set)
        for one in side.units:
            self._have[unnumbered(one.path)].update(n for entry in one.entries for n in entry.atoms)

    def is_meant(self, unit: Unit, atom: str) -> bool:
        """Return whether a layer is one of those that have no such parameter.

        No layer of its name in another block has it, and no lone vector of its size lies beside.

        Args:
            unit: The layer.
            atom: Neutral name of the parameter: ``bias``.
        """
        return atom not in self._have[unnumbered(unit.path)] and not self._is_beside(unit)

    def _is_beside(self, unit: Unit) -> bool:
        rows, holders = rows_of(unit), {unit.holder, unit.module.id, unit.module.parent}
        return rows is None or any(
            prod(entry.shape) == rows[0] and not entry.is_buffer
            for one in self._lone
            if one.module.id in holders and not one.is_laid_out
            for entry in one.needed
        )


def is_empty(side: Inventory, join: Rule, entry: Entry, parts: Sequence[Entry | int]) -> bool:
    """Return whether a fused vector holds nothing but zeros where parts have none.

    Args:
        side: The side of the fused one.
        join: Makes it of the parts.
        entry: The fused vector.
        parts: What it holds, one after the other; of a part that lacks it, the rows.
    """
    if side.value(entry) is None:
        return False
    shapes = [(part,) if isinstance(part, int) else part.shape for part in parts]
    rules = join.then(entry.rule).inverses(shapes, entry.shape) or ()
    try:
        array = side.side.array(entry.record)
    except DumpError:
        return False
    gaps = [rule for rule, part in zip(rules, parts, strict=True) if isinstance(part, int)]
    return not any(np.any(rule.apply([array])) for rule in gaps)


def zeros_note(whole: Unit, parts: Sequence[Unit], *, is_join: bool) -> str:
    """Say that a fused vector has zeros where a part has none; alike for like layers.

    Args:
        whole: The fused layer.
        parts: Those that lack it.
        is_join: Whether the fused one is the candidate's.
    """
    names = " and ".join(repr(unnumbered(one.path)) for one in parts)
    have = "has" if len(parts) == 1 else "have"
    fused = repr(unnumbered(whole.path))
    done = "gets zeros for it" if is_join else "holds zeros for it, which go nowhere"
    side = "reference" if is_join else "candidate"
    return f"{names} of the {side} {have} no bias, unlike what is fused with it: {fused} {done}"
