"""Pairs of layers that nothing but the data flow decides, and decides for sure.

Two authors write the same computation. What feeds a layer directly on one side feeds its partner
directly on the other; a layer that provably runs after some of its size and before all others
has a partner of the same rank, if there are as many on both sides; and a layer needs before it
what its partner needs (``sole.py``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from .anchors import token_of
from .groups import fit
from .order import Order, ancestors_of
from .sole import sole_partners

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.view import View

    from .groups import Token
    from .likeweights import Places

__all__ = ["Forced", "force", "weight_groups"]

_ROUNDS = 5
"""What links prove may settle ranks, and the other way round, so many times."""
_MAX_RIVALS = 4


class _Flow:
    """The layers of one side: their sizes, what they take and make, and what ran before."""

    def __init__(self, view: View, layers: Sequence[int], groups: Mapping[int, Hashable]) -> None:
        self._view = view
        self.ancestors = ancestors_of(view, layers)
        self.tokens: list[Token] = [token_of(view, call) for call in layers]
        self.sizes = [prod(token[1]) for token in self.tokens]
        self.groups = [groups.get(rank, size) for rank, size in enumerate(self.sizes)]
        self.taken = [view.told_given[call] for call in layers]
        self.made = [view.told_made[call] for call in layers]
        self._makers: dict[int | None, int] = {}
        self._takers: dict[int | None, list[int]] = defaultdict(list)
        twice: set[int | None] = set()
        for rank, (taken, made) in enumerate(zip(self.taken, self.made, strict=True)):
            if made != taken and made in self._makers:
                twice.add(made)  # two fresh norms of one tensor: who takes it tells of neither
            self._makers.setdefault(made, rank)
            self._takers[taken].append(rank)
        for made in twice:
            del self._makers[made]

    def maker(self, rank: int) -> int | None:
        """Give the layer whose output a layer takes as it is."""
        taken = self.taken[rank]
        return None if taken is None else self._makers.get(taken)

    def takers(self, rank: int) -> dict[int, list[int]]:
        """Give the layers that take the output of a layer as it is, by their size."""
        found: dict[int, list[int]] = defaultdict(list)
        made = self.made[rank]
        if made is not None and self._makers.get(made) == rank:
            for one in self._takers.get(made, ()):
                found[self.sizes[one]].append(one)
        return found

    def is_signed(self, rank: int) -> bool | None:
        """Tell whether a layer makes negative elements; None where that is not known."""
        made = self.made[rank]
        low = None if made is None else self._view.values[made].statistics.minimum
        return None if low is None else low < 0


class Forced:
    """Grows the pairs that are forced, by rank among the layers of each side."""

    def __init__(self, flows: tuple[_Flow, _Flow]) -> None:
        self._flows = flows
        self.pairs: dict[int, int] = {}
        """Rank of the candidate's layer by that of the reference's."""
        self._back: dict[int, int] = {}
        self._groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        self._orders: tuple[dict[Hashable, Order], dict[Hashable, Order]] = ({}, {})

    def take(self, known: Iterable[tuple[int, int]]) -> None:
        """Start from known pairs."""
        for one, two in known:
            self._add(one, two)

    def grow(self) -> None:
        """Add what follows from what is known."""
        fresh = list(self.pairs.items())
        for _ in range(_ROUNDS):
            self._link(fresh)
            fresh = self._rank() or self._rule_out()
            if not fresh:
                break

    def rivals(self, one: int, two: int) -> list[int]:
        """Give some layers of the candidate that could be the partner, the nearest first."""
        mine, theirs = self._groups.get(self._flows[0].groups[one], ([], []))
        found: set[int] = set()
        order = self._orders[1].get(self._flows[1].groups[two])
        if order is not None and two in order.undecided:
            found.update(order.near(two, _MAX_RIVALS))
        place, other = bisect_left(mine, one), bisect_left(theirs, two)
        places = (place, other - 1, other, other + 1)
        found |= {theirs[p] for p in places if 0 <= p < len(theirs)}
        return sorted(found - {two}, key=lambda rank: (abs(rank - two), rank))[:_MAX_RIVALS]

    def is_contradicted(self, one: int, two: int) -> bool:
        """Tell whether two layers are paired that should have others, or stand at other ranks."""
        if self.pairs.get(one, two) != two or self._back.get(two, one) != one:
            return True
        mine, theirs = self._groups.get(self._flows[0].groups[one], ([], []))
        is_even = len(mine) == len(theirs)
        return is_even and bisect_left(mine, one) != bisect_left(theirs, two)

    def _add(self, one: int, two: int) -> bool:
        if one in self.pairs or two in self._back:
            return False
        self.pairs[one] = two
        self._back[two] = one
        return True

    def _link(self, fresh: list[tuple[int, int]]) -> None:
        """Follow the values that go from layer to layer with nothing between."""
        todo = list(fresh)
        while todo:
            one, two = todo.pop()
            linked = self._linked(one, two)
            todo.extend(pair for pair in linked if self._fits(*pair) and self._add(*pair))

    def _linked(self, one: int, two: int) -> Iterator[tuple[int, int]]:
        makers = self._flows[0].maker(one), self._flows[1].maker(two)
        if makers[0] is not None and makers[1] is not None:
            yield makers[0], makers[1]
        signs = self._flows[0].is_signed(one), self._flows[1].is_signed(two)
        if signs[0] is None or signs[0] != signs[1]:
            return  # one of the two may apply an activation
        mine, theirs = self._flows[0].takers(one), self._flows[1].takers(two)
        for size, takers in mine.items():
            others = theirs.get(size, [])
            if len(takers) != len(others):
                continue
            rest = set(takers) - {self._back.get(rank) for rank in others}
            open_ = set(others) - {self.pairs.get(rank) for rank in takers}
            if len(rest) == len(open_) == 1:
                yield rest.pop(), open_.pop()

    def _rank(self) -> list[tuple[int, int]]:
        """Count the layers of each group that are not paired yet, where their order is certain."""
        groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, taken in enumerate((self.pairs, self._back)):
            for rank, group in enumerate(self._flows[side].groups):
                if rank not in taken:
                    groups[group][side].append(rank)
        self._groups = dict(groups)
        for flow, orders, side in zip(self._flows, self._orders, (0, 1), strict=True):
            orders.clear()
            orders.update({key: Order(flow.ancestors, of[side]) for key, of in groups.items()})
        found: list[tuple[int, int]] = []
        for key, ranks in groups.items():
            if len(ranks[0]) == len(ranks[1]):
                open_ = self._orders[0][key].undecided, self._orders[1][key].undecided
                found += [
                    (one, two)
                    for one, two in zip(*ranks, strict=True)
                    if one not in open_[0] or two not in open_[1]
                ]
        return [pair for pair in found if self._fits(*pair) and self._add(*pair)]

    def _rule_out(self) -> list[tuple[int, int]]:
        """Pair the layers of which what must run before leaves no other partner."""
        groups = self._groups.items()
        even = {key: ranks for key, ranks in groups if len(ranks[0]) == len(ranks[1])}
        doubtful = [ranks for key, ranks in even.items() if self._orders[0][key].undecided]
        if not doubtful:
            return []
        numbers = [np.full(len(flow.groups), -1, np.int64) for flow in self._flows]
        for number, (one, two) in enumerate(self.pairs.items()):
            numbers[0][one] = numbers[1][two] = number
        for number, (mine, theirs) in enumerate(even.values(), len(self.pairs)):
            numbers[0][mine] = numbers[1][theirs] = number
        ancestors = self._flows[0].ancestors, self._flows[1].ancestors
        found = sole_partners(ancestors, (numbers[0], numbers[1]), doubtful)
        return [pair for pair in found if self._fits(*pair) and self._add(*pair)]

    def _fits(self, one: int, two: int) -> bool:
        """Tell whether two layers can be partners: not if what feeds them is known to be none."""
        makers = self._flows[0].maker(one), self._flows[1].maker(two)
        if makers[0] is not None and makers[1] is not None:
            partner, back = self.pairs.get(makers[0]), self._back.get(makers[1])
            if partner is not None and back is not None and partner != makers[1]:
                return False
        return fit(self._flows[0].tokens[one], self._flows[1].tokens[two]) > 0


def force(
    views: tuple[View, View],
    layers: tuple[Sequence[int], Sequence[int]],
    known: Iterable[tuple[int, int]],
    groups: tuple[Mapping[int, Hashable], Mapping[int, Hashable]] = ({}, {}),
) -> Forced:
    """Find the pairs of layers that data flow forces.

    Args:
        views: Both sides.
        layers: Calls of layers of both sides, in execution order; positions are ranks.
        known: Pairs of ranks that names or values single out.
        groups: By rank on each side, what the layer shares with its partner and no other has, such
            as its weights; layers without a group are those of their size.
    """
    flows = [_Flow(view, calls, of) for view, calls, of in zip(views, layers, groups, strict=True)]
    found = Forced((flows[0], flows[1]))
    found.take(known)
    found.grow()
    return found


def weight_groups(
    numbers: tuple[Places, Places],
) -> tuple[dict[int, Hashable], dict[int, Hashable]]:
    """Group the layers of equal weights, where both sides run as many."""
    counts = [Counter(side.tolist()) for side in numbers]
    found: tuple[dict[int, Hashable], dict[int, Hashable]] = ({}, {})
    for groups, side in zip(found, numbers, strict=True):
        for rank, number in enumerate(side.tolist()):
            if number >= 0 and counts[0][number] == counts[1][number]:
                groups[rank] = ("weights", number)
    return found
