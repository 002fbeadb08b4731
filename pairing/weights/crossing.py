"""Pairs that leave partner containers: what the order of two runs suggests, and structure denies.

Two containers that are partners and hold as many units of a kind hold partners: a norm of one
block is not the norm of another, however the two runs line up.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Mapping, Sequence

    from .inventory import Inventory, Unit, UnitPair
    from .unit_keys import Key

__all__ = ["without_crossing"]


def without_crossing(
    sides: tuple[Inventory, Inventory],
    pairs: Sequence[UnitPair],
    scopes: tuple[Mapping[int, int], Mapping[int, int]],
    key: Key,
) -> list[UnitPair]:
    """Drop the pairs that leave a container whose partner has as many units of their kind.

    With them go the others of this kind inside: where one left, the order has shifted.

    Args:
        sides: Reference and candidate.
        pairs: Pairs to look at.
        scopes: Number of each container that has a partner, on each side.
        key: What two units must have in common to be partners.
    """
    above = [_Above(side, table) for side, table in zip(sides, scopes, strict=True)]
    around = [
        (key(sides[0], pair.reference), above[0].of(pair.reference), above[1].of(pair.candidate))
        for pair in pairs
    ]
    crossing = {
        (number, kind)
        for kind, ours, theirs in around
        if ours != theirs
        for number in ours ^ theirs
    }
    held = [one.count(key, crossing) if crossing else Counter() for one in above]
    left = {place for place in crossing if held[0].get(place, 0) == held[1].get(place, -1)}
    return [
        pair
        for pair, (kind, ours, theirs) in zip(pairs, around, strict=True)
        if not any((number, kind) in left for number in (ours | theirs if left else ()))
    ]


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
