"""Pairs of layers that nothing but the data flow decides, and decides for sure.

Two authors write the same computation. What feeds a layer directly on one side feeds its partner
directly on the other; a layer that provably runs after some of its size and before all others
has a partner of the same rank, if there are as many on both sides.

A layer also needs before it what its partner needs (``sole_partners``): what it provably depends
on, its partner depends on too, and ran after it. So a layer before which nothing of a size ran is
not the partner of one that needs a layer of that size. Of two branches that start in one place,
``depthwise`` and ``pointwise, depthwise``, this tells the two depthwise layers apart wherever the
shorter branch runs first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .anchors import token_of
from .likeness import fit
from .order import Order, ancestors_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.view import View

    from .likeness import Token
    from .likeweights import Places
    from .order import Ancestors

__all__ = ["Forced", "LayerFlow", "force", "sole_partners", "weight_groups"]

Numbers = npt.NDArray[np.int64]
_LEAST = 8
"""Counting what is before a layer takes as long as so many comparisons, about."""
_MAX_CELLS = 20_000_000
"""So many counts are compared, about; groups for which none are left stay in doubt."""


def sole_partners(
    ancestors: tuple[Sequence[Ancestors], Sequence[Ancestors]],
    numbers: tuple[Numbers, Numbers],
    groups: Iterable[tuple[Sequence[int], Sequence[int]]],
) -> Iterator[tuple[int, int]]:
    """Give the pairs of which one can have no other partner in its group.

    Args:
        ancestors: Of all layers of each side.
        numbers: For each layer of each side the number of its group, of which both sides have as
            many layers; -1 outside of such groups.
        groups: Ranks of the layers of some groups on each side, as many on both.
    """
    kinds = int(max(side.max(initial=-1) for side in numbers)) + 1
    spent = 0
    for ranks in sorted(groups, key=lambda sides: len(sides[0])):
        spent += len(ranks[0]) * max(len(ranks[1]), _LEAST) * kinds
        if spent > _MAX_CELLS:
            break
        for row, column in _forced(_possible(ancestors, numbers, ranks, kinds)):
            yield ranks[0][row], ranks[1][column]


def _forced(can: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Give what every way to pair all rows with all columns has in common, one after the other."""
    counts = can.sum(axis=1), can.sum(axis=0)
    if not (counts[0].all() and counts[1].all()):
        return  # the two groups are not of the same layers
    rest = can.copy()
    sole = [(row, int(rest[row].argmax())) for row in np.flatnonzero(counts[0] == 1).tolist()]
    sole += [(int(rest[:, at].argmax()), at) for at in np.flatnonzero(counts[1] == 1).tolist()]
    heapify(sole)
    while sole:
        row, column = heappop(sole)
        if not rest[row, column]:
            continue
        yield row, column
        emptied = rest[:, column].copy(), rest[row].copy()
        rest[row] = rest[:, column] = False
        for side in (0, 1):
            counts[side][emptied[side]] -= 1
            for at in np.flatnonzero(emptied[side] & (counts[side] == 1)).tolist():
                other = int((rest[at] if side == 0 else rest[:, at]).argmax())
                heappush(sole, (at, other) if side == 0 else (other, at))


def _possible(
    ancestors: tuple[Sequence[Ancestors], Sequence[Ancestors]],
    numbers: tuple[Numbers, Numbers],
    ranks: tuple[Sequence[int], Sequence[int]],
    kinds: int,
) -> npt.NDArray[np.bool_]:
    """Tell which layers of a group can be partners: neither needs more before it than ran."""
    least = [
        _counts(side, [known[rank] for rank in of], kinds)
        for side, known, of in zip(numbers, ancestors, ranks, strict=True)
    ]
    most = [
        _counts(side, [(rank, 0) for rank in of], kinds)
        for side, of in zip(numbers, ranks, strict=True)
    ]
    # Of most kinds enough ran before each of them, whatever any of the others needs.
    short = [(least[n].max(axis=0) > most[1 - n].min(axis=0)).nonzero()[0] for n in (0, 1)]
    low, high = least[0][:, short[0]], most[0][:, short[1]]
    enough, needed = most[1][:, short[0]], least[1][:, short[1]]
    return np.array(
        [
            (one <= enough).all(axis=1) & (needed <= other).all(axis=1)
            for one, other in zip(low, high, strict=True)
        ]
    )


def _counts(numbers: Numbers, known: Sequence[Ancestors], kinds: int) -> Numbers:
    """Count the layers of each number in some sets of ranks, shape (sets, kinds)."""
    found = np.empty((len(known), kinds), np.int64)
    below, reach = np.zeros(kinds, np.int64), 0
    for place in sorted(range(len(known)), key=lambda one: known[one][0]):
        prefix, bits = known[place]
        if prefix > reach:
            below, reach = below + _count(numbers[reach:prefix], kinds), prefix
        found[place] = below
        if bits:
            octets = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
            above = prefix + np.flatnonzero(np.unpackbits(octets, bitorder="little"))
            found[place] += _count(numbers[above], kinds)
    return found


def _count(numbers: Numbers, kinds: int) -> Numbers:
    return np.bincount(numbers[numbers >= 0], minlength=kinds)


_ROUNDS = 5
"""What links prove may settle ranks, and the other way round, so many times."""
_MAX_RIVALS = 4


class LayerFlow:
    """The layers of one side: their sizes, what they take and make, and what ran before."""

    def __init__(self, view: View, layers: Sequence[int]) -> None:
        self._values = view.values  # and not the view, which keeps this: a cycle
        self.ancestors = ancestors_of(view, layers)
        self.tokens: list[Token] = [token_of(view, call) for call in layers]
        self.sizes = [prod(token[1]) for token in self.tokens]
        self._made = [view.told_made[call] for call in layers]
        taken = [view.told_given[call] for call in layers]
        makers: dict[int | None, int] = {}
        self._takers: dict[int | None, list[int]] = defaultdict(list)
        twice: set[int | None] = {None}
        for rank, (given, made) in enumerate(zip(taken, self._made, strict=True)):
            if made != given and made in makers:
                twice.add(made)  # two fresh norms of one tensor: who takes it tells of neither
            makers.setdefault(made, rank)
            self._takers[given].append(rank)
        for value in twice:
            makers.pop(value, None)
        self._makers = makers
        self.maker: list[int | None] = [makers.get(value) for value in taken]
        """The layer whose output each layer takes as it is."""

    def takers(self, rank: int) -> Sequence[int]:
        """Give the layers that take the output of a layer as it is."""
        made = self._made[rank]
        return self._takers.get(made, ()) if self._makers.get(made) == rank else ()

    def is_signed(self, rank: int) -> bool | None:
        """Tell whether a layer makes negative elements; None where that is not known."""
        made = self._made[rank]
        low = None if made is None else self._values[made].statistics.minimum
        return None if low is None else low < 0


def flow_of(view: View, layers: Sequence[int]) -> LayerFlow:
    """Give what is known of the layers of a side; it is gathered once."""
    key = tuple(layers)
    if key not in view.flows:
        view.flows[key] = LayerFlow(view, layers)
    return view.flows[key]


class Forced:
    """Grows the pairs that are forced, by rank among the layers of each side."""

    def __init__(
        self,
        views: tuple[View, View],
        layers: tuple[Sequence[int], Sequence[int]],
        groups: tuple[Mapping[int, Hashable], Mapping[int, Hashable]] = ({}, {}),
    ) -> None:
        self._views = views
        self._layers = layers
        self._given_groups = groups
        self.pairs: dict[int, int] = {}
        """Rank of the candidate's layer by that of the reference's."""
        self._back: dict[int, int] = {}
        self._groups: dict[Hashable, tuple[list[int], list[int]]] = {}
        self._orders: tuple[dict[Hashable, Order], dict[Hashable, Order]] = ({}, {})

    @cached_property
    def _flows(self) -> tuple[LayerFlow, LayerFlow]:
        """What is known of the layers of both sides, once something has to follow from it."""
        return flow_of(self._views[0], self._layers[0]), flow_of(self._views[1], self._layers[1])

    @cached_property
    def _group(self) -> list[list[Hashable]]:
        """What each layer shares with those of which one may be its partner."""
        return [
            [of.get(rank, size) for rank, size in enumerate(flow.sizes)] if of else [*flow.sizes]
            for flow, of in zip(self._flows, self._given_groups, strict=True)
        ]

    def take(self, known: Iterable[tuple[int, int]]) -> None:
        """Start from known pairs."""
        for one, two in known:
            self._add(one, two)

    def grow(self) -> None:
        """Add what follows from what is known; nothing where every layer is known."""
        if len(self.pairs) == len(self._layers[0]) == len(self._layers[1]):
            return
        fresh = list(self.pairs.items())
        for _ in range(_ROUNDS):
            self._link(fresh)
            fresh = self._rank() or self._rule_out()
            if not fresh:
                break

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
        makers = self._flows[0].maker[one], self._flows[1].maker[two]
        if makers[0] is not None and makers[1] is not None:
            yield makers[0], makers[1]
        both = self._flows[0].takers(one), self._flows[1].takers(two)
        if not both[0] or not both[1]:
            return
        signs = self._flows[0].is_signed(one), self._flows[1].is_signed(two)
        if signs[0] is None or signs[0] != signs[1]:
            return  # one of the two may apply an activation
        mine, theirs = self._by_size(0, both[0]), self._by_size(1, both[1])
        for size, takers in mine.items():
            others = theirs.get(size, [])
            if len(takers) != len(others):
                continue
            rest = set(takers) - {self._back.get(rank) for rank in others}
            open_ = set(others) - {self.pairs.get(rank) for rank in takers}
            if len(rest) == len(open_) == 1:
                yield rest.pop(), open_.pop()

    def _by_size(self, side: int, ranks: Iterable[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for rank in ranks:
            found.setdefault(self._flows[side].sizes[rank], []).append(rank)
        return found

    def _order(self, side: int, group: Hashable) -> Order:
        """Give the order of the layers of a group of one side; it is found when it is asked for."""
        known = self._orders[side]
        if group not in known:
            known[group] = Order(self._flows[side].ancestors, self._groups[group][side])
        return known[group]

    def _rank(self) -> list[tuple[int, int]]:
        """Count the layers of each group that are not paired yet, where their order is certain."""
        groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, taken in enumerate((self.pairs, self._back)):
            for rank, group in enumerate(self._group[side]):
                if rank not in taken:
                    groups[group][side].append(rank)
        self._groups = dict(groups)
        self._orders = {}, {}
        found: list[tuple[int, int]] = []
        for key, ranks in groups.items():
            if len(ranks[0]) == len(ranks[1]) == 1:
                found.append((ranks[0][0], ranks[1][0]))
            elif len(ranks[0]) == len(ranks[1]):
                open_ = self._order(0, key).undecided, self._order(1, key).undecided
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
        doubtful = [
            ranks
            for key, ranks in even.items()
            if len(ranks[0]) > 1 and self._order(0, key).undecided
        ]
        if not doubtful:
            return []
        numbers = [np.full(len(side), -1, np.int64) for side in self._group]
        for number, (one, two) in enumerate(self.pairs.items()):
            numbers[0][one] = numbers[1][two] = number
        for number, (mine, theirs) in enumerate(even.values(), len(self.pairs)):
            numbers[0][mine] = numbers[1][theirs] = number
        ancestors = self._flows[0].ancestors, self._flows[1].ancestors
        found = sole_partners(ancestors, (numbers[0], numbers[1]), doubtful)
        return [pair for pair in found if self._fits(*pair) and self._add(*pair)]

    def _fits(self, one: int, two: int) -> bool:
        """Tell whether two layers can be partners: not if what feeds them is known to be none."""
        makers = self._flows[0].maker[one], self._flows[1].maker[two]
        if makers[0] is not None and makers[1] is not None:
            partner, back = self.pairs.get(makers[0]), self._back.get(makers[1])
            if partner is not None and back is not None and partner != makers[1]:
                return False
        tokens = self._flows[0].tokens[one], self._flows[1].tokens[two]
        return tokens[0] == tokens[1] or fit(*tokens) > 0


def force(
    views: tuple[View, View],
    layers: tuple[Sequence[int], Sequence[int]],
    known: Iterable[tuple[int, int]],
    groups: tuple[Mapping[int, Hashable], Mapping[int, Hashable]] = ({}, {}),
) -> Mapping[int, int]:
    """Find the pairs of layers that data flow forces, the candidate's rank by the reference's.

    Args:
        views: Both sides.
        layers: Calls of layers of both sides, in execution order; positions are ranks.
        known: Pairs of ranks that names or values single out.
        groups: By rank on each side, what the layer shares with its partner and no other has, such
            as its weights; layers without a group are those of their size.
    """
    found = Forced(views, layers, groups)
    found.take(known)
    found.grow()
    return found.pairs


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
