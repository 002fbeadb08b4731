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
from padiff.pairing.tensors.sketch import is_telling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.pairing.view import View

__all__ = ["Ancestors", "ancestors_of", "common", "has", "undecided", "union"]

_MAX_BITS = 4096
"""So many layers above the first one that is not known to be an ancestor are remembered."""
_SMALL = 4
"""Inputs of less than a fourth of the largest one are masks and tables: no data flow."""
_MAX_WINDOW = 256
"""More layers of unknown order than this are all taken to be undecided."""

Ancestors = tuple[int, int]
"""A set of ranks: all below the first number, and those above it as the bits of the second."""
_NONE: Ancestors = (0, 0)


def _made(prefix: int, bits: int) -> Ancestors:
    """Give the set in the shortest form."""
    ones = ((bits + 1) & ~bits).bit_length() - 1
    return prefix + ones, (bits >> ones) & ((1 << _MAX_BITS) - 1)


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
    """Carries ancestors along the values of one side, in one pass over its calls."""

    def __init__(self, view: View, layers: Sequence[int]) -> None:
        self._view = view
        self._ranks = {call: rank for rank, call in enumerate(layers)}
        self._is_telling = [is_telling(value.statistics) for value in view.values]
        self._of: dict[int, Ancestors] = {}
        self._floor: dict[int, Ancestors] = {}
        """By open call: what all its large inputs depend on."""
        self._inside: dict[int, Ancestors] = {}
        """By open call: what its inputs depend on, and what ran inside."""
        self.found: list[Ancestors] = []

    def run(self) -> list[Ancestors]:
        open_: list[int] = []
        for call in self._view.calls:
            while open_ and open_[-1] != call.parent:
                self._close(open_.pop())
            self._open(call.id, call.parent)
            open_.append(call.id)
        return self.found

    def _open(self, call: int, parent: int | None) -> None:
        floor = _NONE if parent is None else self._floor[parent]
        known = {one: self._of.setdefault(one, floor) for one in self._values(call, Role.INPUT)}
        everything = reduce(union, known.values()) if known else floor
        self._floor[call] = everything
        if len(known) > 1:
            sizes = {one: self._view.values[one].size for one in known}
            largest = max(sizes.values())
            main = [known[one] for one, size in sizes.items() if size * _SMALL >= largest]
            self._floor[call] = reduce(common, main)
        self._inside[call] = everything
        if call in self._ranks:
            self.found.append(everything)

    def _close(self, call: int) -> None:
        rank, made = self._ranks.get(call), self._inside.pop(call)
        if rank is not None:
            made = _made(made[0], made[1] | 1 << max(rank - made[0], 0))
        given = set(self._values(call, Role.INPUT)) if rank is not None else set()
        outputs = list(self._values(call, Role.OUTPUT))
        for value in outputs if rank is not None else ():
            if value in self._of and value not in given:  # made twice: who takes it may mean either
                self._of[value] = common(self._of[value], made)
        fresh = [one for one in outputs if one not in self._of]
        is_whole = len(fresh) == 1 or rank is not None
        for value in fresh:
            self._of[value] = made if is_whole else self._floor[call]
        parent = self._view.calls[call].parent
        if parent is not None:
            self._inside[parent] = union(self._inside[parent], made)
        del self._floor[call]

    def _values(self, call: int, role: Role) -> Iterable[int]:
        """Give the distinct values of a role that are no constants, which anything could make."""
        found = dict.fromkeys(record.value for record in self._view.select(call, role))
        return [value for value in found if value is not None and self._is_telling[value]]


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


def undecided(ancestors: Sequence[Ancestors], ranks: Sequence[int]) -> dict[int, set[int]]:
    """Find the layers of a group whose order nothing proves.

    Args:
        ancestors: Of all layers of a side.
        ranks: Those that are looked at, ascending.

    Returns:
        By rank some of the others that could as well have run before as after, at least one;
        absent for a layer that provably ran after all before and before all after it.
    """
    found: dict[int, set[int]] = {}
    wide: list[tuple[int, int]] = []
    for place, rank in enumerate(ranks):
        known = ancestors[rank]
        start = bisect_left(ranks, known[0], 0, place)
        if place - start > _MAX_WINDOW:
            wide.append((start, place))
            continue
        for other in ranks[start:place]:
            if not has(known, other):
                found.setdefault(rank, set()).add(other)
                found.setdefault(other, set()).add(rank)
    reach = -1
    for start, stop in sorted(wide):
        for place in range(max(start, reach + 1), stop + 1):
            found.setdefault(ranks[place], set()).add(ranks[place - 1 if place else 1])
        reach = max(reach, stop)
    return found
