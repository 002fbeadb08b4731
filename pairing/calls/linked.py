"""Which calls without parameters are proven partners: by calls around them, or by outputs."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role
from padiff.pairing.tensors.sketch import alike_numbers, alikeness

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence, Set

    from padiff.pairing.view import View

    from .calls import CallPairs

__all__ = ["ALIKE", "Outputs", "prove_free"]

Places = npt.NDArray[np.int64]

ALIKE = 0.97
"""Outputs whose statistics are this near are those of partners."""
_NEAR = 0.02
"""Outputs that could be so alike have lengths no further apart, relatively."""
_REACH = 0.005
"""Nor extremes further apart, relative to the larger of the two."""
_CHUNK = 256
"""So many outputs are looked at at once: the first that is alike decides."""


class Outputs:
    """The outputs of some calls by kind and size."""

    def __init__(self, view: View, calls: Iterable[int]) -> None:
        """Sort the outputs that are no constants."""
        self._view = view
        rows: dict[Hashable, list[tuple[float, int]]] = defaultdict(list)
        self._keys: dict[int, Hashable] = {}
        for call in calls:
            value = view.told_made[call]
            length = None if value is None else view.values[value].statistics.l2
            if value is not None and length is not None:
                self._keys[call] = key = view.kind(call), view.values[value].size
                rows[key].append((length, call))
        self._groups = {key: _Group(view, sorted(found)) for key, found in rows.items()}

    def are_of(self, module: int, call: int, *, is_same: bool) -> bool:
        """Tell whether all outputs that could be that of a call are of one module.

        Args:
            module: The module.
            call: One of its calls.
            is_same: Whether the other side has the very values of its output, so that only outputs
                that are alike in their extremes too could be meant, not all that are as long.
        """
        if call not in self._keys:
            return False
        return not self._groups[self._keys[call]].has_rival(module, call, is_same=is_same)


class _Group:
    """Outputs of one kind and size, the shortest first."""

    def __init__(self, view: View, rows: list[tuple[float, int]]) -> None:
        """Take the outputs.

        Args:
            view: The side.
            rows: Length of each output, and its call.
        """
        self._places = {call: place for place, (_, call) in enumerate(rows)}
        self._modules = np.array([view.calls[call].module for _, call in rows], np.int64)
        made = (view.told_made[call] for _, call in rows)
        statistics = [view.values[value].statistics for value in made if value is not None]
        self._numbers = np.array(
            [(one.minimum or 0.0, one.maximum or 0.0, one.l2 or 0.0) for one in statistics]
        )
        changes = np.flatnonzero(np.diff(self._modules)) + 1
        ends = np.append(changes, len(rows))
        self._until = ends[np.searchsorted(changes, np.arange(len(rows)), side="right")]

    @cached_property
    def _as_long(self) -> tuple[list[int], list[int]]:
        """Of each output the first and the end of those that are about as long."""
        lengths = self._numbers[:, 2]
        is_long = ~np.isnan(lengths)
        start = np.searchsorted(lengths, lengths * (1 - _NEAR)) * is_long
        stop = np.searchsorted(lengths, lengths * (1 + _NEAR), side="right")
        return start.tolist(), np.where(is_long, stop, len(lengths)).tolist()

    @cached_property
    def _reached(self) -> list[tuple[Places, list[int], list[int]]]:
        """By each extreme the outputs in ascending order, and the span of those near each one."""
        slack = _REACH * np.abs(self._numbers[:, :2]).max(axis=1)
        found = []
        for own in self._numbers[:, :2].T:
            order = own.argsort(kind="stable")
            ascending = own[order]
            start = np.searchsorted(ascending, own - slack)
            stop = np.searchsorted(ascending, own + slack, side="right")
            found.append((order, start.tolist(), stop.tolist()))
        return found

    def has_rival(self, module: int, call: int, *, is_same: bool) -> bool:
        """Tell whether a call of another module has an output that could be meant."""
        place = self._places[call]
        start, stop = self._as_long[0][place], self._as_long[1][place]
        other = self._until[start] if self._modules[start] == module else start
        if other >= stop or not is_same:
            return bool(other < stop)
        near = self._near(place, start, stop)
        for first in range(0, near.size, _CHUNK):
            some = near[first : first + _CHUNK]
            some = some[(some >= start) & (some < stop) & (self._modules[some] != module)]
            if some.size and (
                (alike_numbers(self._numbers[place], self._numbers[some]) >= ALIKE).any()
            ):
                return True
        return False

    def _near(self, place: int, start: int, stop: int) -> Places:
        """Give outputs of which all that are alike are some: the fewest that are found at once."""
        spans = [
            (last[place] - first[place], axis)
            for axis, (_, first, last) in enumerate(self._reached)
        ]
        count, axis = min(spans)
        if count >= stop - start:
            return np.arange(start, stop)
        order, first, last = self._reached[axis]
        return order[first[place] : last[place]]


_ROUNDS = 3
"""What a proven call feeds may prove the next one, so many times."""
_MAX_RIVALS = 4
_EQUAL = 0.999
"""Outputs this near are the same values, but for rounding; they differ from what is not alike."""


def prove_free(
    views: tuple[View, View],
    calls: CallPairs,
    layers: Set[int],
    anchors: tuple[Sequence[int], Sequence[int]],
) -> FreeProofs:
    """Prove pairs of calls without parameters by what proven calls are around them.

    A call is known by what feeds it directly, by what it feeds, by the layers right before and
    after it, or by its output. Where one call on each side is known by the same and nothing
    contradicts it, the two are partners.

    Args:
        views: Both sides.
        calls: The paired calls.
        layers: Reference calls of layers whose partner is proven.
        anchors: All calls of layers of both sides, in execution order.
    """
    pairs = [
        (one, two)
        for one, two in calls
        if all(_is_free(view, call) for view, call in zip(views, (one, two), strict=True))
    ]
    free = tuple(
        [call for call in range(len(view.calls)) if _is_free(view, call)] for view in views
    )
    if not pairs:  # nothing can be proven, however many there are on either side
        return FreeProofs(
            proven=frozenset(), rivals={}, calls=(frozenset(free[0]), frozenset(free[1]))
        )
    proven = _alike(views, pairs, free)
    gaps = [_Gaps(side) for side in anchors]
    for _ in range(_ROUNDS):
        known = [(one, calls.ahead[one]) for one in sorted({*layers, *proven})]
        sets: dict[frozenset[int], int] = {}
        links = [
            _Links(view, [pair[side] for pair in known], sets) for side, view in enumerate(views)
        ]
        _drop_contrary(views, known, links)
        more = _linked(views, pairs, free, links, gaps, dict(known))
        if more <= proven:
            break
        proven |= more
    return FreeProofs(
        proven=frozenset(proven),
        rivals=_rivals(views[1], free[1], pairs, {calls.ahead[one] for one in proven}),
        calls=(frozenset(free[0]), frozenset(free[1])),
    )


def _rivals(
    view: View, free: Sequence[int], pairs: Sequence[tuple[int, int]], proven: Set[int]
) -> dict[int, tuple[int, ...]]:
    """Give for each pair the calls of its kind next to the candidate's that are not proven."""
    open_: dict[str | None, list[int]] = defaultdict(list)
    for call in free:
        if call not in proven:
            open_[view.kind(call)].append(call)
    found = {}
    for one, two in pairs:
        same = open_[view.kind(two)]
        place = bisect_left(same, two)
        near = same[max(0, place - _MAX_RIVALS // 2) : place + _MAX_RIVALS // 2 + 1]
        found[one] = tuple(other for other in near if other != two)
    return found


def _is_free(view: View, call: int) -> bool:
    return not (
        view.inner[call]
        or view.weights[view.calls[call].module]
        or view.children[view.calls[call].module]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeProofs:
    """What is known for sure about calls without parameters."""

    proven: frozenset[int]
    """Reference calls whose partner no other call could be."""
    rivals: dict[int, tuple[int, ...]]
    """Calls of the candidate that could as well be the partner, by reference call; some of them."""
    calls: tuple[frozenset[int], frozenset[int]]
    """All calls without parameters of both sides."""


class _Links:
    """What the proven calls of one side make and take; known by their number."""

    def __init__(self, view: View, known: Sequence[int], sets: dict[frozenset[int], int]) -> None:
        """Gather them.

        Args:
            view: The side.
            known: The proven calls.
            sets: Number of each set of calls that take one value, equal on both sides.
        """
        self.view = view
        self.makers: dict[int, int] = {}
        takers: dict[int, set[int]] = defaultdict(set)
        twice: set[int] = set()
        for number, call in enumerate(known):
            made, taken = view.told_made[call], view.told_given[call]
            if made is not None:
                if made != taken and made in self.makers:
                    twice.add(made)
                self.makers.setdefault(made, number)
            if taken is not None:
                takers[taken].add(number)
        for made in twice:
            del self.makers[made]
        self._feeds = {
            value: sets.setdefault(frozenset(found), len(sets)) for value, found in takers.items()
        }

    def fed_by(self, call: int) -> int | None:
        taken = self.view.told_given[call]
        return None if taken is None else self.makers.get(taken)

    def feeds(self, call: int) -> int | None:
        made = self.view.told_made[call]
        return None if made is None else self._feeds.get(made)


class _Gaps:
    """The layers right before and after each call of one side."""

    def __init__(self, anchors: Sequence[int]) -> None:
        self._anchors = anchors

    def around(self, call: int) -> tuple[int | None, int | None]:
        place = bisect_left(self._anchors, call)
        before = self._anchors[place - 1] if place else None
        return before, self._anchors[place] if place < len(self._anchors) else None


def _drop_contrary(
    views: tuple[View, View], known: Sequence[tuple[int, int]], links: Sequence[_Links]
) -> None:
    """Forget what calls make where only one of the two activates it: it is not the same value."""
    for number, pair in enumerate(known):
        made = [view.told_made[call] for view, call in zip(views, pair, strict=True)]
        signs = [
            None if value is None else (view.values[value].statistics.minimum or 0.0) < 0
            for view, value in zip(views, made, strict=True)
        ]
        if None in signs or signs[0] != signs[1]:
            for link, value in zip(links, made, strict=True):
                if value is not None and link.makers.get(value) == number:
                    del link.makers[value]


def _linked(
    views: tuple[View, View],
    pairs: Sequence[tuple[int, int]],
    free: Sequence[Sequence[int]],
    links: Sequence[_Links],
    gaps: Sequence[_Gaps],
    known: Mapping[int, int],
) -> set[int]:
    keys: list[dict[int, list[Hashable]]] = [{}, {}]
    groups: list[dict[Hashable, list[int]]] = [defaultdict(list), defaultdict(list)]
    for side in (0, 1):
        for call in free[side]:
            kind, fed = views[side].kind(call), links[side].fed_by(call)
            feeds = links[side].feeds(call)
            around = gaps[side].around(call)
            if side == 0:
                around = _image(around[0], known), _image(around[1], known)
            told: list[Hashable] = [] if fed is None else [("fed", kind, fed)]
            told += [] if feeds is None else [("feeds", kind, feeds)]
            told.append(("gap", kind, fed, around))
            keys[side][call] = told
            for key in told:
                groups[side][key].append(call)
    found = set()
    for one, two in pairs:
        is_same = links[0].fed_by(one) == links[1].fed_by(two)
        shared = set(keys[0][one]) & set(keys[1][two]) if is_same else ()
        for key in shared:
            mine, theirs = groups[0][key], groups[1][key]
            if len(mine) == len(theirs) == 1:
                found.add(one)
    return found


def _alike(
    views: tuple[View, View], pairs: Sequence[tuple[int, int]], free: Sequence[Sequence[int]]
) -> set[int]:
    """Give the reference calls whose output only one call of the other side has, and vice versa."""
    lengths = [Outputs(view, side) for view, side in zip(views, free, strict=True)]
    found = set()
    for one, two in pairs:
        known, other = (
            view.main(call, Role.OUTPUT) for view, call in zip(views, (one, two), strict=True)
        )
        if known is None or other is None:
            continue
        near = alikeness(views[0], known, views[1], other)
        if near is None or near < ALIKE:
            continue
        modules = views[0].calls[one].module, views[1].calls[two].module
        is_same = near >= _EQUAL
        if not is_same and _are_given_others(views, one, two):
            continue  # alike by chance
        if all(
            side.are_of(module, call, is_same=is_same)
            for side, module, call in zip(lengths, modules, (one, two), strict=True)
        ):
            found.add(one)
    return found


def _are_given_others(views: tuple[View, View], one: int, two: int) -> bool:
    """Tell whether two calls are given what is not alike."""
    known, other = (
        view.main(call, Role.INPUT) for view, call in zip(views, (one, two), strict=True)
    )
    if known is None or other is None:
        return False
    near = alikeness(views[0], known, views[1], other)
    return near is not None and near < ALIKE


def _image(call: int | None, known: Mapping[int, int]) -> int | None:
    """Give the proven partner of a call, -1 if it has none."""
    return None if call is None else known.get(call, -1)
