"""Keys under which units of both sides meet: what two units must have in common to be partners."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from math import prod

from padiff.pairing.result import SideName

from .inventory import Entry, Inventory, Unit

__all__ = [
    "Contents",
    "Key",
    "Paths",
    "bulk",
    "by_path",
    "by_scope",
    "by_value",
    "is_own_stack",
    "loose",
    "nearest",
    "of_forms",
    "remembered",
    "strict",
    "value_key",
]

Key = Callable[[Inventory, Unit], Hashable | None]

_NUMBER = re.compile(r"\d+")
_MATRIX = 2
_FLATTENED = frozenset({"layer_norm", "bilinear"})
"""Kinds whose parameters one framework keeps flat."""


def value_key(inventory: Inventory, entry: Entry) -> Hashable | None:
    """Give a key of the content that no change of layout moves; None where it says nothing."""
    value = inventory.value(entry)
    if value is None or value.statistics.minimum == value.statistics.maximum:
        return None
    statistics = value.statistics
    return value.size, value.dtype, statistics.minimum, statistics.maximum, statistics.zeros


def trim(paths: Sequence[str]) -> int:
    """Count the leading components that all paths share: wrappers.

    >>> trim(["a.b.c", "a.b.d"]), trim(["a.bc", "a.bd"]), trim(["a.b.c"]), trim(["a.b", "a.b.c"])
    (2, 1, 2, 1)
    """
    low, high = min(paths, default=""), max(paths, default="")
    depth = 0
    for one, other in zip(low, high, strict=False):
        if one != other:
            break
        depth += one == "."
    return depth


def strict(_: Inventory, unit: Unit) -> Hashable | None:
    """Same kind, same parameters, same shapes in the neutral layout."""
    if unit.kind is None:
        shapes = sorted(tuple(sorted(entry.neutral_shape)) for entry in unit.needed)
        return (None, tuple(shapes)) if shapes else None
    needed = unit.needed or unit.entries
    shapes_by_atom: dict[str, tuple[int, ...]] = {}
    for entry in needed:
        size = entry.neutral_shape
        for atom in entry.atoms:
            if unit.kind in _FLATTENED or atom.endswith(":g"):
                shapes_by_atom[atom] = (prod(size),)
            else:
                share = (size[0] // len(entry.atoms),) if size else ()
                shapes_by_atom[atom] = (*share, *size[1:])
    return unit.kind, tuple(sorted(shapes_by_atom.items()))


def loose(_: Inventory, unit: Unit) -> Hashable | None:
    """Same sizes of the largest parameter, whatever the class."""
    main = unit.main
    if len(main.atoms) > 1:
        return None
    return tuple(sorted(length for length in main.shape if length != 1))


def bulk(_: Inventory, unit: Unit) -> Hashable | None:
    """As many elements in the largest parameter, of classes of users' own."""
    return prod(unit.main.shape) if unit.kind is None else None


def is_own_stack(unit: Unit) -> bool:
    """Tell whether a user's own class keeps more than a matrix: one with an axis of heads."""
    return unit.kind is None and len(unit.main.shape) > _MATRIX


def remembered(key: Key) -> Key:
    """Work a key out once for each unit."""
    known: dict[int, tuple[Unit, Hashable | None]] = {}

    def from_memory(inventory: Inventory, unit: Unit) -> Hashable | None:
        found = known.get(id(unit))
        if found is None:
            found = known[id(unit)] = unit, key(inventory, unit)
        return found[1]

    return from_memory


def of_forms(key: Key) -> Key:
    """Work a key out once for units of one form, and give a number for it.

    Args:
        key: What says the same of all units of a kind that hold the same in the same shapes.
    """
    known: dict[Hashable, tuple[Unit, int | None]] = {}
    numbers: dict[Hashable, int] = {}

    def from_form(inventory: Inventory, unit: Unit) -> Hashable | None:
        form = unit.kind, tuple([(id(one.held), one.record.shape) for one in unit.entries])
        found = known.get(form)
        if found is None:
            made = key(inventory, unit)
            number = None if made is None else numbers.setdefault(made, len(numbers))
            found = known[form] = unit, number  # with the unit, ids stay those of what it holds
        return found[1]

    return remembered(from_form)


def by_value(key: Key) -> Key:
    """Ask for equal extremes and zeros of the values too, which no layout changes."""

    def with_value(inventory: Inventory, unit: Unit) -> Hashable | None:
        base = key(inventory, unit)
        if base is None:
            return None
        if unit.kind == "attention":
            # Packed on one side only: the extremes of all parts together are still the same.
            return _extremes(inventory, unit, base)
        values = value_key(inventory, unit.main)
        return None if values is None else (base, values)

    return remembered(with_value)


def _extremes(inventory: Inventory, unit: Unit, base: Hashable) -> Hashable | None:
    values = [inventory.value(entry) for entry in unit.entries]
    known = [value.statistics for value in values if value is not None]
    low = [statistics.minimum for statistics in known if statistics.minimum is not None]
    high = [statistics.maximum for statistics in known if statistics.maximum is not None]
    if len(known) != len(unit.entries) or not low or not high or min(low) == max(high):
        return None
    return base, sum(prod(entry.shape) for entry in unit.entries), min(low), max(high)


class Contents:
    """What both sides hold: who holds it is a partner only of others that hold the same."""

    def __init__(self, key: Key, sides: tuple[Inventory, Inventory]) -> None:
        """Take what tells contents apart, and both sides with all their units."""
        self._shared = _Shared(key, sides)
        self._made: dict[Key, Key] = {}

    def of(self, key: Key) -> Key:
        """Ask for the same content too, where both sides hold it; one and the same for a key."""
        if key not in self._made:
            self._made[key] = _with_content(key, self._shared)
        return self._made[key]


class _Shared:
    """The contents that both sides hold, once that is asked."""

    def __init__(self, key: Key, sides: tuple[Inventory, Inventory]) -> None:
        self.key = key
        self._sides = sides

    @cached_property
    def all(self) -> frozenset[Hashable]:
        held = [{self.key(side, one) for one in side.units} for side in self._sides]
        return frozenset(held[0] & held[1])


def _with_content(key: Key, shared: _Shared) -> Key:
    """Ask for the same content too. No part of ``Contents``, which a cycle would keep alive."""

    def with_content(inventory: Inventory, unit: Unit) -> Hashable | None:
        base = key(inventory, unit)
        if base is None:
            return None
        content = shared.key(inventory, unit)
        return base, content if content in shared.all else None

    return remembered(with_content)


class Paths:
    """The paths of units below the wrappers of each side; each is read once."""

    def __init__(self, sides: tuple[Inventory, Inventory]) -> None:
        """Take both sides, with all their units."""
        self._sides = sides
        self._trims: dict[SideName, int] = {}
        self._known: dict[int, tuple[Unit, str, int]] = {}
        self._numbers: dict[str, int] = {}

    def of(self, inventory: Inventory, unit: Unit) -> tuple[str, int]:
        """Give the path, and a number that paths share which differ by their numbers only."""
        found = self._known.get(id(unit))
        if found is None:
            if not self._trims:
                self._trims = {
                    side.name: trim([one.path for one in side.units]) for side in self._sides
                }
            path = unit.path.split(".", self._trims[inventory.name])[-1]
            form = self._numbers.setdefault(_NUMBER.sub("#", path), len(self._numbers))
            found = self._known[id(unit)] = unit, path, form
        return found[1:]


def by_path(key: Key, paths: Paths, sides: tuple[Inventory, Inventory]) -> Key:
    """Ask for the same path too, below the wrappers of each side.

    Numbers count only where both sides have the same: ``net.2`` is not ``layers.2`` where the one
    has 0, 2, 4 and the other 0, 1, 2.

    Args:
        key: What else must be equal.
        paths: Of all units.
        sides: Both, with all their units.
    """
    counted: list[frozenset[Hashable]] = []

    def with_path(inventory: Inventory, unit: Unit) -> Hashable | None:
        if not counted:
            counted.append(_counted(key, paths, sides))
        base = key(inventory, unit)
        path, form = paths.of(inventory, unit)
        return None if base is None or (base, form) in counted[0] else (base, path)

    return with_path


def _counted(key: Key, paths: Paths, sides: tuple[Inventory, Inventory]) -> frozenset[Hashable]:
    """Give the keys of the units whose paths differ by numbers, not the same on both sides."""
    said: list[dict[Hashable, set[str]]] = [{}, {}]
    for known, inventory in zip(said, sides, strict=True):
        for unit in inventory.units:
            path, form = paths.of(inventory, unit)
            known.setdefault((key(inventory, unit), form), set()).add(path)
    return frozenset(
        place
        for place in said[0].keys() & said[1].keys()
        if said[0][place] != said[1][place] and len(said[0][place]) == len(said[1][place])
    )


def by_scope(key: Key, scopes: tuple[Mapping[int, int], Mapping[int, int]]) -> Key:
    """Ask for the same scope too: the nearest module around whose content is paired already.

    Args:
        key: What else must be equal.
        scopes: Number of the scope of each module of the reference, and of the candidate.
    """
    known: tuple[dict[int | None, int | None], ...] = ({}, {})

    def with_scope(inventory: Inventory, unit: Unit) -> Hashable | None:
        base, side = key(inventory, unit), int(inventory.name is SideName.CANDIDATE)
        if base is None:
            return None
        if unit.holder not in known[side]:
            known[side][unit.holder] = nearest(inventory, unit, scopes[side])
        scope = known[side][unit.holder]
        return None if scope is None else (base, scope)

    return with_scope


def nearest(inventory: Inventory, unit: Unit, table: Mapping[int, int]) -> int | None:
    """Give the number of the innermost scope around a unit, None outside all of them."""
    return next((table[outer] for outer in inventory.around(unit) if outer in table), None)
