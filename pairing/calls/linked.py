"""Which calls without parameters are proven partners: by the proven calls they are linked to."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.dumpfile import Role
from padiff.pairing.tensors.sketch import alikeness

from .outputs import ALIKE, Outputs

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence, Set

    from padiff.pairing.view import View

    from .calls import CallPairs

__all__ = ["FreeProofs", "prove_free"]

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
    gaps = [_Gaps(view, side) for view, side in zip(views, anchors, strict=True)]
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

    def __init__(self, view: View, anchors: Sequence[int]) -> None:
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
