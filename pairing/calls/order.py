"""Which layers provably ran before which: what the data flow of one side says about order.

A layer that is fed what another made ran after it, whoever wrote the model. Functions between
modules leave no trace, so this is a lower bound: nothing found here is wrong, but much may be
missing. Two assumptions are made: what a call makes anew depends on all layers that ran inside it,
and what is computed inside a call depends on what went into it.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import reduce
from itertools import islice
from typing import TYPE_CHECKING

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing.view import View

__all__ = [
    "Ancestors",
    "ancestors_of",
    "common",
    "has",
    "undecided",
    "undecided_near",
    "union",
]

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
    """Carries ancestors along the values of one side, in one pass over its calls."""

    def __init__(self, view: View, layers: Sequence[int]) -> None:
        self._view = view
        self._ranks = {call: rank for rank, call in enumerate(layers)}
        self._of: dict[int, Ancestors] = {}
        self._floor: dict[int, Ancestors] = {}
        """By open call: what all its large inputs depend on."""
        self._inside: dict[int, Ancestors] = {}
        """By open call: what its inputs depend on, and what ran inside."""
        self.found: list[Ancestors] = []

    def run(self) -> list[Ancestors]:
        open_: list[int] = []
        parents = self._view.parents
        for call, parent in enumerate(parents):
            while open_ and open_[-1] != parent:
                last = open_.pop()
                self._close(last, parents[last])
            self._open(call, parent)
            open_.append(call)
        return self.found

    def _open(self, call: int, parent: int | None) -> None:
        floor = _NONE if parent is None else self._floor[parent]
        known = {one: self._of.setdefault(one, floor) for one in self._values(call, Role.INPUT)}
        everything = lowest = reduce(union, known.values()) if known else floor
        if len(known) > 1:
            sizes = {one: self._view.values[one].size for one in known}
            largest = max(sizes.values())
            main = [known[one] for one, size in sizes.items() if size * _SMALL >= largest]
            lowest = reduce(common, main)
        self._floor[call], self._inside[call] = lowest, everything
        if call in self._ranks:
            self.found.append(everything)

    def _close(self, call: int, parent: int | None) -> None:
        rank, made, floor = self._ranks.get(call), self._inside.pop(call), self._floor.pop(call)
        outputs = self._values(call, Role.OUTPUT)
        fresh = [one for one in outputs if one not in self._of]
        if rank is not None:
            made = _made(made[0], made[1] | 1 << max(rank - made[0], 0))
            again = [one for one in outputs if one in self._of]
            given = self._values(call, Role.INPUT) if again else ()
            for value in again:
                if value not in given:  # made twice: who takes it may mean either
                    self._of[value] = common(self._of[value], made)
        is_whole = len(fresh) == 1 or rank is not None
        self._of.update(dict.fromkeys(fresh, made if is_whole else floor))
        if parent is not None:
            self._inside[parent] = union(self._inside[parent], made)

    def _values(self, call: int, role: Role) -> Sequence[int]:
        """Give the distinct values of a role that are no constants, which anything could make."""
        telling = self._view.telling
        values = [record.value for record in self._view.select(call, role)]
        if len(values) > 1:
            values = list(dict.fromkeys(values))
        return [value for value in values if value is not None and telling[value]]


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


def undecided(ancestors: Sequence[Ancestors], ranks: Sequence[int]) -> set[int]:
    """Find the layers of a group whose order nothing proves.

    What is known to be undecided is not looked at again but to find out about the next layer, for
    which one that is undecided is enough: of thousands that run side by side each takes few steps.

    Args:
        ancestors: Of all layers of a side.
        ranks: Those that are looked at, ascending.

    Returns:
        The ranks of all but those that provably ran after all before and before all after them.
    """
    found: set[int] = set()
    ordered: list[int] = []
    wide: list[tuple[int, int]] = []
    for place, rank in enumerate(ranks):
        known = ancestors[rank]
        start = bisect_left(ranks, known[0], 0, place)
        if place - start > _MAX_WINDOW:
            wide.append((start, place))
            continue
        first = bisect_left(ordered, known[0])
        lost = [other for other in ordered[first:] if not has(known, other)]
        if lost:
            found.update(lost)
            ordered[first:] = [other for other in ordered[first:] if has(known, other)]
        if lost or any(not has(known, ranks[at]) for at in range(place - 1, start - 1, -1)):
            found.add(rank)
        else:
            ordered.append(rank)
    reach = 0
    for start, stop in sorted(wide):
        found.update(ranks[max(start, reach) : stop + 1])
        reach = stop + 1
    return found


def undecided_near(
    ancestors: Sequence[Ancestors], ranks: Sequence[int], rank: int, count: int
) -> list[int]:
    """Give the nearest layers of a group that could as well have run before as after one of them.

    Args:
        ancestors: Of all layers of a side.
        ranks: Those of the group, ascending.
        rank: The one.
        count: How many before it, and how many after it, at most.
    """
    place, known = bisect_left(ranks, rank), ancestors[rank]
    start = bisect_left(ranks, known[0], 0, place)
    before: list[int] = []
    if place - start <= _MAX_WINDOW:
        open_ = (ranks[at] for at in range(place - 1, start - 1, -1))
        before += islice((other for other in open_ if not has(known, other)), count)
    later = range(place + 1, min(place + _MAX_WINDOW + 1, len(ranks)))
    after = (ranks[at] for at in later if _is_open(ancestors, ranks, at, rank))
    return [*before, *islice(after, count)]


def _is_open(ancestors: Sequence[Ancestors], ranks: Sequence[int], place: int, rank: int) -> bool:
    """Tell whether nothing proves that a layer ran after an earlier one of its group."""
    known = ancestors[ranks[place]]
    if rank < known[0] or has(known, rank):
        return False
    return place - bisect_left(ranks, known[0], 0, place) <= _MAX_WINDOW
