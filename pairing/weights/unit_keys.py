"""Keys under which units of both sides meet: what two units must have in common to be partners."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from padiff.pairing.result import SideName

from .inventory import Entry, Inventory, Unit
from .standing import unnumbered

if TYPE_CHECKING:
    from padiff.dumpfile import ModuleInfo

Key = Callable[[Inventory, Unit], Any]
"""Returns something hashable; None for units that have no partner by it."""
_MATRIX = 2
_FLATTENED = frozenset({"layer_norm", "bilinear"})
"""Kinds whose parameters one framework keeps flat."""


def value_key(inventory: Inventory, entry: Entry) -> Hashable | None:
    """Return a key of the content that no change of layout moves; None where it says nothing."""
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
    """Return whether a user's own class keeps more than a matrix: one with an axis of heads."""
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
            extremes = extremes_of(inventory, unit.entries)
            size = sum(prod(entry.shape) for entry in unit.entries)
            return None if extremes is None else (base, size, extremes)
        values = value_key(inventory, unit.main)
        return None if values is None else (base, values)

    return remembered(with_value)


def extremes_of(inventory: Inventory, entries: Sequence[Entry]) -> tuple[float, float] | None:
    """Return the extremes of all of some entries, None where not known or all the same."""
    known = [value.statistics for one in entries if (value := inventory.value(one)) is not None]
    lows = [one.minimum for one in known if one.minimum is not None]
    highs = [one.maximum for one in known if one.maximum is not None]
    if not 0 < len(lows) == len(highs) == len(entries) or min(lows) == max(highs):
        return None
    return min(lows), max(highs)


def by_content(key: Key, content: Key, sides: tuple[Inventory, Inventory]) -> Key:
    """Ask for the same content too, where both sides hold it.

    Who holds it is a partner only of others that hold the same.
    """
    shared: list[set[Hashable]] = []

    def with_content(inventory: Inventory, unit: Unit) -> Hashable | None:
        base = key(inventory, unit)
        if base is None:
            return None
        if not shared:
            held = [{content(side, one) for one in side.units} for side in sides]
            shared.append(held[0] & held[1])
        own = content(inventory, unit)
        return base, own if own in shared[0] else None

    return remembered(with_content)


def paths_of(sides: tuple[Inventory, Inventory]) -> Key:
    """Return what gives a unit's path below the wrappers of its side, and that without numbers."""
    depths: dict[SideName, int] = {}

    def path_of(inventory: Inventory, unit: Unit) -> tuple[str, str]:
        if not depths:
            depths.update({side.name: trim([one.path for one in side.units]) for side in sides})
        path = unit.path.split(".", depths[inventory.name])[-1]
        return path, unnumbered(path)

    return remembered(path_of)


def by_path(key: Key, paths: Key, sides: tuple[Inventory, Inventory]) -> Key:
    """Ask for the same path too, below the wrappers of each side.

    Numbers count only where both sides have the same: ``net.2`` is not ``layers.2`` where the one
    has 0, 2, 4 and the other 0, 1, 2.
    """
    counted: list[set[Hashable]] = []

    def with_path(inventory: Inventory, unit: Unit) -> Hashable | None:
        if not counted:
            counted.append(_counted(key, paths, sides))
        base, (path, form) = key(inventory, unit), paths(inventory, unit)
        return None if base is None or (base, form) in counted[0] else (base, path)

    return with_path


def _counted(key: Key, paths: Key, sides: tuple[Inventory, Inventory]) -> set[Hashable]:
    """Return the keys of the units whose paths differ by numbers, not the same on both sides."""
    said: list[dict[Hashable, set[str]]] = [{}, {}]
    for known, inventory in zip(said, sides, strict=True):
        for unit in inventory.units:
            path, form = paths(inventory, unit)
            known.setdefault((key(inventory, unit), form), set()).add(path)
    return {
        place
        for place in said[0].keys() & said[1].keys()
        if said[0][place] != said[1][place] and len(said[0][place]) == len(said[1][place])
    }


def stride_of(module: ModuleInfo) -> str:
    """Return the stride that a module states, ``None`` as text where it states none."""
    return str(module.attributes.get("stride"))


def told_strides(sides: tuple[Inventory, Inventory], key: Key) -> frozenset[Hashable]:
    """Return the kinds that state strides, and of which both sides have as many of each.

    Where all modules of a kind are called the same on both sides, a name tells more than a stride:
    another one is what is wrong there.
    """
    strides: list[dict[Hashable, dict[str, str]]] = [defaultdict(dict), defaultdict(dict)]
    for known, side in zip(strides, sides, strict=True):
        for unit in side.units:
            if unit.module.attributes.get("stride") is not None:
                known[key(side, unit)][unit.module.path] = stride_of(unit.module)
    return frozenset(
        kind
        for kind, ours in strides[0].items()
        if Counter(ours.values()) == Counter((theirs := strides[1].get(kind, {})).values())
        if ours.keys() != theirs.keys() or ours == theirs
    )


def by_stride(key: Key, kind: Key, told: Collection[Hashable]) -> Key:
    """Ask for the same stride too, of kinds of which both sides have as many of each."""
    if not told:
        return key

    def with_stride(inventory: Inventory, unit: Unit) -> Hashable | None:
        base = key(inventory, unit)
        is_told = base is not None and kind(inventory, unit) in told
        return (base, stride_of(unit.module)) if is_told else base

    return remembered(with_stride)


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
    """Return the number of the innermost scope around a unit, None outside all of them."""
    return next((table[outer] for outer in inventory.around(unit) if outer in table), None)
