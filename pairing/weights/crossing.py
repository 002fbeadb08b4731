"""Pairs that leave partner containers: what the order of two runs suggests, and structure denies.

Two containers that are partners and hold as many units of a kind hold partners: a norm of one
block is not the norm of another, however the two runs line up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Hashable, Iterable, Mapping, Sequence

    from padiff.dumpfile import ModuleInfo

    from .inventory import Inventory, Unit, UnitPair
    from .unit_keys import Key

__all__ = ["by_stride", "is_strided", "stride_of", "told_strides", "without_crossing"]

Scopes = tuple["Mapping[int, int]", "Mapping[int, int]"]


def without_crossing(
    sides: tuple[Inventory, Inventory],
    pairs: Sequence[UnitPair],
    scopes: Scopes,
    key: Key,
    strides: Collection[Hashable],
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
    above = [_Above(side, table) for side, table in zip(sides, scopes, strict=True)]
    around = [(above[0].of(pair.reference), above[1].of(pair.candidate)) for pair in pairs]
    crossing = {
        (number, key(sides[0], pair.reference))
        for pair, (ours, theirs) in zip(pairs, around, strict=True)
        if ours != theirs
        for number in ours ^ theirs
    }
    held = [one.count(key, crossing) for one in above] if crossing else [Counter(), Counter()]
    left = {place for place in crossing if held[0].get(place, 0) == held[1].get(place, -1)}
    if not left and not strides:
        return list(pairs)
    kept = []
    for pair, (ours, theirs) in zip(pairs, around, strict=True):
        kind = key(sides[0], pair.reference)
        is_left = left and any((number, kind) in left for number in ours | theirs)
        is_told = kind in strides
        modules = pair.reference.module, pair.candidate.module
        if not is_left and not (is_told and stride_of(modules[0]) != stride_of(modules[1])):
            kept.append(pair)
    return kept


class _Above:
    """The containers with partners around the units of one side."""

    def __init__(self, side: Inventory, table: Mapping[int, int]) -> None:
        self._side = side
        self._table = table
        self._known: dict[int | None, frozenset[int]] = {}

    def of(self, unit: Unit) -> frozenset[int]:
        """Give the numbers of those around a unit."""
        found = self._known.get(unit.holder)
        if found is None:
            numbers = (self._table.get(outer) for outer in self._side.around(unit))
            found = frozenset(number for number in numbers if number is not None)
            self._known[unit.holder] = found
        return found

    def count(
        self, key: Key, wanted: Container[tuple[int, Hashable]]
    ) -> Counter[tuple[int, Hashable]]:
        """Count the units of wanted kinds in wanted containers."""
        return Counter(
            place
            for unit in self._side.units
            for number in self.of(unit)
            if (place := (number, key(self._side, unit))) in wanted
        )


def by_stride(units: Iterable[Unit]) -> dict[str, list[Unit]]:
    """Group units by the stride that their modules state."""
    groups: dict[str, list[Unit]] = {}
    for unit in units:
        groups.setdefault(stride_of(unit.module), []).append(unit)
    return groups


def stride_of(module: ModuleInfo) -> str:
    """Give the stride that a module states, ``None`` as text where it states none."""
    return str(module.attributes.get("stride"))


def is_strided(unit: Unit) -> bool:
    """Tell whether the module of a unit states a stride."""
    return unit.module.attributes.get("stride") is not None


def told_strides(sides: tuple[Inventory, Inventory], key: Key) -> frozenset[Hashable]:
    """Give the kinds that state strides, and of which both sides have as many of each."""
    stated = {key(side, unit) for side in sides for unit in side.units if is_strided(unit)}
    if not stated:
        return frozenset()
    counts = [
        Counter(
            (kind, stride_of(unit.module))
            for unit in side.units
            if (kind := key(side, unit)) in stated
        )
        for side in sides
    ]
    unlike = {
        kind
        for kind, stride in (*counts[0], *counts[1])
        if counts[0][kind, stride] != counts[1][kind, stride]
    }
    return frozenset(stated - unlike)
