"""Pairs that leave partner containers: what the order of two runs suggests, and structure denies.

Two containers that are partners and hold as many units of a kind hold partners: a norm of one
block is not the norm of another, however the two runs line up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

    from padiff.dumpfile import ModuleInfo

    from .inventory import Inventory, Unit, UnitPair
    from .unit_keys import Key

__all__ = ["by_stride", "stride_of", "told_strides", "without_crossing"]

Scopes = tuple["Mapping[int, int]", "Mapping[int, int]"]


def without_crossing(
    sides: tuple[Inventory, Inventory],
    pairs: Sequence[UnitPair],
    scopes: Scopes,
    key: Key,
    strides: Container[Hashable],
) -> list[UnitPair]:
    """Drop the pairs that leave a container whose partner has as many units of their kind.

    With them go the others of this kind inside: where one left, the order has shifted.
    Dropped too are pairs of different strides, where both sides have as many units of each.

    Args:
        sides: Reference and candidate.
        pairs: Pairs to look at.
        scopes: Number of each container that has a partner, on each side.
        key: What two units must have in common to be partners.
        strides: The kinds of which both sides have as many units of each stride.
    """
    held = [_held(side, table, key) for side, table in zip(sides, scopes, strict=True)]
    around = [
        (
            key(sides[0], pair.reference),
            frozenset(_above(sides[0], pair.reference, scopes[0])),
            frozenset(_above(sides[1], pair.candidate, scopes[1])),
        )
        for pair in pairs
    ]
    left = {
        (number, kind)
        for kind, ours, theirs in around
        for number in ours ^ theirs
        if held[0].get((number, kind), 0) == held[1].get((number, kind), -1)
    }
    return [
        pair
        for pair, (kind, ours, theirs) in zip(pairs, around, strict=True)
        if not any((number, kind) in left for number in ours | theirs)
        if kind not in strides
        or stride_of(pair.reference.module) == stride_of(pair.candidate.module)
    ]


def _held(
    side: Inventory, table: Mapping[int, int], key: Key
) -> Mapping[tuple[int, Hashable], int]:
    """Count the units of each kind in each container that has a partner."""
    counts: Counter[tuple[int, Hashable]] = Counter()
    for unit in side.units:
        kind = key(side, unit)
        for number in _above(side, unit, table):
            counts[number, kind] += 1
    return counts


def _above(side: Inventory, unit: Unit, table: Mapping[int, int]) -> list[int]:
    """Give the numbers of the containers around a unit, the innermost first."""
    return [table[outer] for outer in side.around(unit) if outer in table]


def by_stride(units: Iterable[Unit]) -> dict[str, list[Unit]]:
    """Group units by the stride that their modules state."""
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        groups.setdefault(stride_of(unit.module), []).append(unit)
    return groups


def stride_of(module: ModuleInfo) -> str:
    """Give the stride that a module states, ``None`` as text where it states none."""
    return str(module.attributes.get("stride"))


def told_strides(sides: tuple[Inventory, Inventory], key: Key) -> frozenset[Hashable]:
    """Give the kinds of which both sides have as many units of each stride."""
    counts = [
        Counter((key(side, unit), stride_of(unit.module)) for unit in side.units) for side in sides
    ]
    kinds = {kind for kind, _ in (*counts[0], *counts[1])}
    unlike = {
        kind
        for kind, stride in (*counts[0], *counts[1])
        if counts[0][kind, stride] != counts[1][kind, stride]
    }
    return frozenset(kinds - unlike)
