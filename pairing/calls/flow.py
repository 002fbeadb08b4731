"""Pairs of layers that data flow decides, where neither weights nor names do.

Two authors write the same computation. Layers that could do one job are one class, and a class of
which both sides run as many is refined until nothing changes:

- by what its layers take and what their outputs are read for (``expressed.py``);
- by rank: a layer that provably runs after some of its class and before all others has the partner
  of the same rank;
- by need: what a layer provably needs, its partner needs, too, and ran after it. So of two branches
  that start in one place, ``depthwise`` and ``pointwise, depthwise``, the depthwise layers are told
  apart wherever the shorter branch runs first.

What is alone in its class on both sides is paired; siblings that nothing tells apart stay a class.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .anchors import token_of
from .expressed import flows_of
from .likeness import fit
from .needs import members_of, needs_of, unordered

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.view import View

    from .expressed import Places
    from .needs import Ranks

    Pair = tuple[int, int]
    Both = tuple[Sequence[int], Sequence[int]]

Numbers = npt.NDArray[np.int64]
_ROUNDS = 5
"""So many times what is paired may refine the classes of what is not."""
_MAX_CELLS = 4_000_000
"""What so many layers need of so many others is looked at, about; larger classes are left out."""


def refine(
    views: tuple[View, View],
    layers: Both,
    known: Iterable[Pair],
    weights: tuple[Places, Places],
    groups: Iterable[tuple[int, int, Hashable]] = (),
    *,
    is_whole: bool = True,
) -> Mapping[int, int]:
    """Find the pairs of layers that data flow decides, the candidate's rank by the reference's.

    Args:
        views: Both sides.
        layers: Calls of layers of both sides, in execution order; positions are ranks.
        known: Pairs of ranks that names or values single out.
        weights: Numbers of what the layers hold, as ``weight_numbers`` gives them.
        groups: Pairs of ranks that share what no other layer has, and a key for it.
        is_whole: Whether they are those of all that ran: what they take is looked at then.
    """
    found = _Refinement(views, layers, _jobs(views, layers, weights, groups))
    found.add(known)
    for _ in range(_ROUNDS):
        if len(found.pairs) == len(layers[0]) == len(layers[1]):
            break
        is_told = found.follow() | (is_whole and found.express())
        if not (found.rank() or found.rule_out() or is_told):
            break
    return found.pairs


def _jobs(
    views: tuple[View, View],
    layers: Both,
    weights: tuple[Places, Places],
    groups: Iterable[tuple[int, int, Hashable]],
) -> tuple[list[Hashable], list[Hashable]]:
    """Return the class of each layer: its weights, if both sides run as many; else its size.

    It is alone in its class if the other side has its weights in a module that no call runs.
    """
    counts = [Counter(side.tolist()) for side in weights]
    few = {held for held in counts[0] | counts[1] if 0 in (counts[0][held], counts[1][held])}
    found: list[list[Hashable]] = [
        [
            ("weights", held)
            if held >= 0 and (held in few or counts[0][held] == counts[1][held])
            else prod(token_of(view, call)[1])
            for call, held in zip(calls, side.tolist(), strict=True)
        ]
        for view, calls, side in zip(views, layers, weights, strict=True)
    ]
    for one, two, key in groups:
        if isinstance(found[0][one], int) and isinstance(found[1][two], int):
            found[0][one] = found[1][two] = key
    return found[0], found[1]


class _Links:
    """Which layer's output each layer of a side takes as it is."""

    def __init__(self, view: View, layers: Sequence[int]) -> None:
        self._view, self._layers = view, layers
        self.makers: dict[int | None, int | None] = {}
        """The layer that makes a value; None for a value that two make."""
        self.takers: dict[int | None, list[int]] = defaultdict(list)
        for rank, call in enumerate(layers):
            given, made = view.told_given[call], view.told_made[call]
            is_again = made != given and made in self.makers
            self.makers[made] = None if is_again else self.makers.get(made, rank)
            self.takers[given].append(rank)
        self.makers[None] = None

    def maker(self, rank: int) -> int | None:
        """Return the layer whose output a layer takes as it is; None where there is not one."""
        return self.makers.get(self._view.told_given[self._layers[rank]])

    def taken_by(self, rank: int) -> tuple[bool | None, Sequence[int]]:
        """Return whether a layer's output has negative elements, and the layers that take it."""
        made = self._view.told_made[self._layers[rank]]
        low = None if made is None else self._view.values[made].statistics.minimum
        takers = self.takers.get(made, ()) if self.makers.get(made) == rank else ()
        return (None if low is None else low < 0), takers


class _Refinement:
    """Classes of layers of both sides, and the pairs that are alone in theirs."""

    def __init__(
        self, views: tuple[View, View], layers: Both, jobs: tuple[list[Hashable], list[Hashable]]
    ) -> None:
        self._views, self._layers, self._jobs = views, layers, jobs
        self._links = [_Links(view, calls) for view, calls in zip(views, layers, strict=True)]
        self.pairs: dict[int, int] = {}
        """Rank of the candidate's layer by that of the reference's."""
        self._back: dict[int, int] = {}

    def add(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Add the pairs of which neither has a partner yet, and return them."""
        found = []
        for one, two in pairs:
            if one not in self.pairs and two not in self._back:
                self.pairs[one], self._back[two] = two, one
                found.append((one, two))
        return found

    def _fit(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """Yield the pairs that are possible: of those that fit, fed by partners if by layers."""
        for one, two in pairs:
            makers = self._links[0].maker(one), self._links[1].maker(two)
            partner = None if makers[0] is None else self.pairs.get(makers[0])
            if partner is not None and partner != makers[1] and makers[1] in self._back:
                continue
            tokens = (
                token_of(v, c[r])
                for v, c, r in zip(self._views, self._layers, (one, two), strict=True)
            )
            if fit(*tokens) > 0:
                yield one, two

    def follow(self) -> bool:
        """Follow the values that go from layer to layer with nothing between."""
        fresh, before = list(self.pairs.items()), len(self.pairs)
        while fresh:
            fresh += self.add(self._fit(self._linked(*fresh.pop())))
        return len(self.pairs) > before

    def express(self) -> bool:
        """Pair what alone takes an expression, or alone is read for one, in its class."""
        partners = ((self._layers[0][one], self._layers[1][two]) for one, two in self.pairs.items())
        taken, read = flows_of(self._views, partners)
        found: list[Pair] = []
        for flows in ((taken, read), (taken,), (read,)):
            ranks: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
            for side, calls in enumerate(self._layers):
                for rank, call in enumerate(calls):
                    key = tuple([flow[side][call] for flow in flows])
                    if None not in key:
                        ranks[key][side].append(rank)
            for alike in ranks.values():
                found += self._alone(*alike)
        return bool(self.add(self._fit(found)))

    def _linked(self, one: int, two: int) -> Iterator[Pair]:
        makers = self._links[0].maker(one), self._links[1].maker(two)
        if makers[0] is not None and makers[1] is not None:
            yield makers[0], makers[1]
        (sign, mine), (other, theirs) = self._links[0].taken_by(one), self._links[1].taken_by(two)
        if sign is not None and sign == other:  # else one of the two may apply an activation
            yield from self._alone(mine, theirs)

    def _alone(self, mine: Iterable[int], theirs: Iterable[int]) -> Iterator[Pair]:
        """Yield the layers that are the only ones of their class without partner, on both sides."""
        for ranks in self._classes(mine, theirs):
            rest = set(ranks[0]).difference(self._back.get(two, -1) for two in ranks[1])
            open_ = set(ranks[1]).difference(self.pairs.get(one, -1) for one in ranks[0])
            if len(rest) == len(open_) == 1:
                yield rest.pop(), open_.pop()

    def _classes(
        self, mine: Iterable[int], theirs: Iterable[int]
    ) -> list[tuple[list[int], list[int]]]:
        """Return the classes of some layers, of which both sides have as many."""
        found: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, ranks in enumerate((mine, theirs)):
            for rank in ranks:
                found[self._jobs[side][rank]][side].append(rank)
        return [ranks for ranks in found.values() if len(ranks[0]) == len(ranks[1])]

    def _open(self) -> list[tuple[list[int], list[int]]]:
        mine = (rank for rank in range(len(self._layers[0])) if rank not in self.pairs)
        theirs = (rank for rank in range(len(self._layers[1])) if rank not in self._back)
        return self._classes(mine, theirs)

    @cached_property
    def _needs(self) -> list[tuple[Sequence[Ranks], list[int]]]:
        """What layers need, in ranks among all layers of their side, and the ranks of these."""
        found: list[tuple[Sequence[Ranks], list[int]]] = []
        for view, calls in zip(self._views, self._layers, strict=True):
            ranks, needs = needs_of(view)
            found.append((needs, [ranks[call] for call in calls]))
        return found

    def rank(self) -> bool:
        """Pair by rank where data flow proves a layer's on either side."""
        found: list[Pair] = []
        for ranks in self._open():
            if len(ranks[0]) > 1:
                lost = [
                    unordered([needs[of[rank]] for rank in side], [of[rank] for rank in side])
                    for (needs, of), side in zip(self._needs, ranks, strict=True)
                ]
                both = zip(*ranks, *lost, strict=True)
                found += [(one, two) for one, two, *is_lost in both if not all(is_lost)]
            else:
                found.append((ranks[0][0], ranks[1][0]))
        return bool(self.add(self._fit(found)))

    def rule_out(self) -> bool:
        """Pair the layers of which what they need leaves no other partner."""
        open_ = self._open()
        if not open_:
            return False
        classes = [([one], [two]) for one, two in self.pairs.items()] + open_
        tables = [_Table([ranks[side] for ranks in classes]) for side in (0, 1)]
        found: list[Pair] = []
        spent = 0
        for ranks in sorted(open_, key=lambda ranks: len(ranks[0])):
            spent += len(ranks[0]) * max(map(len, self._layers))
            if spent > _MAX_CELLS:
                break
            if len(ranks[0]) > 1:
                last = [
                    [
                        tables[1 - side].reach(tables[side].count(needs[of[r]], of))
                        for r in ranks[side]
                    ]
                    for side, (needs, of) in enumerate(self._needs)
                ]
                can = np.less.outer(last[0], ranks[1]) & np.less.outer(last[1], ranks[0]).T
                found += [(ranks[0][one], ranks[1][two]) for one, two in _forced(can)]
        return bool(self.add(self._fit(found)))


class _Table:
    """The layers of one side by class, of which the other side has as many."""

    def __init__(self, classes: Sequence[Sequence[int]]) -> None:
        sizes = [len(ranks) for ranks in classes]
        self._ranks = np.array([rank for ranks in classes for rank in ranks], np.int64)
        self._numbers = np.repeat(np.arange(len(classes)), sizes)
        self._starts = np.cumsum([0, *sizes[:-1]])

    def count(self, needs: Ranks, of: Sequence[int]) -> Numbers:
        """Count for each class how many of it a layer needs."""
        is_needed = members_of(needs, of)[self._ranks]
        return np.bincount(self._numbers[is_needed], minlength=len(self._starts))

    def reach(self, counts: Numbers) -> int:
        """Return the last layer that ran before so many of each class had run, or -1."""
        some = np.flatnonzero(counts)
        return int(self._ranks[self._starts[some] + counts[some] - 1].max(initial=-1))


def _forced(can: npt.NDArray[np.bool_]) -> Iterator[Pair]:
    """Yield what every way to pair all rows with all columns has in common, one after the other."""
    counts = can.sum(axis=1), can.sum(axis=0)
    if not (counts[0].all() and counts[1].all()):
        return  # the two classes are not of the same layers
    while True:
        rows, columns = np.nonzero(can & ((can.sum(axis=1) == 1)[:, None] | (can.sum(axis=0) == 1)))
        if not rows.size:
            return
        row, column = int(rows[0]), int(columns[0])
        yield row, column
        can[row] = can[:, column] = False
