"""Which layers provably ran before which: what the data flow of one side says about order.

A layer that is fed what another made ran after it, whoever wrote the model. Functions between
modules leave no trace, so this is a lower bound: nothing found here is wrong, but much may be
missing. Two assumptions are made: what a call makes anew depends on all layers that ran inside it,
and what is computed inside a call depends on what went into it.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import reduce
from typing import TYPE_CHECKING

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing.view import View

__all__ = ["Ancestors", "Order", "ancestors_of", "common", "has", "union"]

_MAX_BITS = 4096
"""So many layers above the first one that is not known to be an ancestor are remembered."""
_ALL_BITS = (1 << _MAX_BITS) - 1
_SMALL = 4
"""Inputs of less than a fourth of the largest one are masks and tables: no data flow."""
_MAX_WINDOW = 256
"""More layers of unknown order than this are all taken to be undecided."""

Ancestors = tuple[int, int]
"""A set of ranks: all below the first number, and those above it as the bits of the second."""
_NONE: Ancestors = (0, 0)
_MAIN = frozenset({Role.INPUT, Role.OUTPUT})


def _made(prefix: int, bits: int) -> Ancestors:
    """Give the set in the shortest form."""
    if not bits & 1:
        return prefix, bits & _ALL_BITS
    ones = ((bits + 1) & ~bits).bit_length() - 1
    return prefix + ones, (bits >> ones) & _ALL_BITS


def union(one: Ancestors, two: Ancestors) -> Ancestors:
    """Give what is in one of two sets or in both."""
    if one == two:
        return one
    prefix = max(one[0], two[0])
    return _made(prefix, one[1] >> (prefix - one[0]) | two[1] >> (prefix - two[0]))


def common(one: Ancestors, two: Ancestors) -> Ancestors:
    """Give what is in both of two sets."""
    low, high = sorted((one, two))
    ahead = high[0] - low[0]
    return _made(low[0], low[1] & (((1 << min(ahead, _MAX_BITS)) - 1) | high[1] << ahead))


def has(ancestors: Ancestors, rank: int) -> bool:
    """Tell whether a rank is in the set."""
    prefix, bits = ancestors
    return rank < prefix or bool(bits >> (rank - prefix) & 1)


class _Flow:
    """Carries ancestors along the values of one side, in one pass over the calls around layers."""

    def __init__(self, view: View, layers: Sequence[int]) -> None:
        self._view = view
        self._ranks = {call: rank for rank, call in enumerate(layers)}
        self._calls = _around(view, layers)
        self._met = _met(view) if self._calls.start else None
        self._given, self._made = _told(view, Role.INPUT), _told(view, Role.OUTPUT)
        self._of: dict[int, Ancestors] = {}
        self._floor: dict[int, Ancestors] = {}
        """By open call: what all its large inputs depend on."""
        self._inside: dict[int, Ancestors] = {}
        """By open call: what its inputs depend on, and what ran inside."""
        self.found: list[Ancestors] = []

    def run(self) -> list[Ancestors]:
        open_: list[int] = []
        parents = self._view.parents
        for call in self._calls:
            parent = parents[call]
            while open_ and open_[-1] != parent:
                last = open_.pop()
                self._close(last, parents[last])
            self._open(call, parent)
            open_.append(call)
        return self.found

    def _open(self, call: int, parent: int | None) -> None:
        floor = _NONE if parent is None else self._floor.get(parent, _NONE)
        values = self._given[call]
        known = [self._taken(value, floor) for value in values]
        everything = lowest = known[0] if known else floor
        if len(known) > 1:
            everything = reduce(union, known)
            sizes = [self._view.values[value].size for value in values]
            largest = max(sizes)
            main = [of for of, size in zip(known, sizes, strict=True) if size * _SMALL >= largest]
            lowest = reduce(common, main)
        self._floor[call], self._inside[call] = lowest, everything
        if call in self._ranks:
            self.found.append(everything)

    def _close(self, call: int, parent: int | None) -> None:
        rank, made, floor = self._ranks.get(call), self._inside.pop(call), self._floor.pop(call)
        outputs = self._made[call]
        fresh = [one for one in outputs if one not in self._of and not self._is_before(one)]
        if rank is not None:
            made = _made(made[0], made[1] | 1 << max(rank - made[0], 0))
            again = [one for one in outputs if len(fresh) < len(outputs) and one not in fresh]
            for value in again:
                if value not in self._given[call]:  # made twice: who takes it may mean either
                    self._of[value] = common(self._taken(value, _NONE), made)
        of = made if len(fresh) == 1 or rank is not None else floor
        for value in fresh:
            self._of[value] = of
        if parent in self._inside:
            self._inside[parent] = union(self._inside[parent], made)

    def _taken(self, value: int, floor: Ancestors) -> Ancestors:
        """Give what a value depends on; of one that nothing is known of, from now on the floor."""
        known = self._of.get(value)
        if known is None:
            known = self._of[value] = _NONE if self._is_before(value) else floor
        return known

    def _is_before(self, value: int) -> bool:
        """Tell whether a value was there before: no layer made it."""
        return self._met is not None and self._met[value] < self._calls.start


def _told(view: View, role: Role) -> Sequence[Sequence[int]]:
    """Give for each call the distinct values of a role but constants, which anything could make."""
    if role not in view.told:
        found: list[Sequence[int]] = [()] * len(view.calls)
        several: dict[int, list[int]] = {}
        for record in view.records:
            call, value = record.call, record.value
            if record.role is not role or call is None or value is None or not view.telling[value]:
                continue
            if found[call]:
                several.setdefault(call, [*found[call]]).append(value)
            else:
                found[call] = (value,)
        for call, values in several.items():
            found[call] = tuple(dict.fromkeys(values))
        view.told[role] = found
    return view.told[role]


def _around(view: View, layers: Sequence[int]) -> range:
    """Give the calls from the innermost one that holds some layers up to the last of these."""
    if not layers:
        return range(0)
    start: int | None = layers[0]
    while start is not None and view.last[start] < layers[-1]:
        start = view.parents[start]
    return range(0 if start is None else start, layers[-1] + 1)


def _met(view: View) -> Sequence[int]:
    """Give for each value the last call that began before it was first taken or made."""
    if not view.met:
        found = [len(view.calls)] * len(view.values)
        for record in view.records:
            if record.call is not None and record.value is not None:
                call = record.call if record.role is Role.INPUT else view.last[record.call]
                if record.role in _MAIN and call < found[record.value]:
                    found[record.value] = call
        view.met.extend(found)
    return view.met


def ancestors_of(view: View, layers: Sequence[int]) -> list[Ancestors]:
    """Give for each layer the ranks of those that provably ran before.

    Args:
        view: The side.
        layers: Calls in execution order; their positions are the ranks.
    """
    key = tuple(layers)
    if key not in view.before:
        view.before[key] = _Flow(view, layers).run()
    return view.before[key]


class Order:
    """What is proven about the order of some layers of a side."""

    def __init__(self, ancestors: Sequence[Ancestors], ranks: Sequence[int]) -> None:
        """Find those whose order nothing proves.

        What is known to be undecided is not looked at again but to find out about the next layer,
        for which one that is undecided is enough: of thousands that run side by side each takes
        few steps.

        Args:
            ancestors: Of all layers of the side.
            ranks: Those that are looked at, ascending.
        """
        self.undecided: set[int] = set()
        """All but those that provably ran after all before and before all after them."""
        ordered: list[int] = []
        wide: list[tuple[int, int]] = []
        for place, rank in enumerate(ranks):
            known = ancestors[rank]
            if not place or ranks[place - 1] < known[0]:  # after all before it
                ordered.append(rank)
                continue
            start = bisect_left(ranks, known[0], 0, place)
            if place - start > _MAX_WINDOW:
                wide.append((start, place))
                continue
            first = bisect_left(ordered, known[0])
            lost = [other for other in ordered[first:] if not has(known, other)]
            if lost:
                self.undecided.update(lost)
                ordered[first:] = [other for other in ordered[first:] if has(known, other)]
            if lost or any(not has(known, ranks[at]) for at in range(place - 1, start - 1, -1)):
                self.undecided.add(rank)
            else:
                ordered.append(rank)
        reach = 0
        for start, stop in sorted(wide):
            self.undecided.update(ranks[max(start, reach) : stop + 1])
            reach = stop + 1
