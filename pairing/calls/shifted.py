"""Pairs that may be one off: between layers of their kind that stayed alone on either side."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from padiff.pairing.view import View

__all__ = ["shifted"]


def shifted(
    views: tuple[View, View],
    pairs: Sequence[tuple[int, int]],
    jobs: tuple[Sequence[Hashable], Sequence[Hashable]],
) -> frozenset[int]:
    """Find the pairs of layers that another alignment of the same order would pair otherwise.

    Where a layer stayed alone on one side and, further on, one of the same job on the other side,
    each layer between the two could as well be the partner of the next one of its kind.

    Args:
        views: Both sides.
        pairs: Paired modules, reference and candidate.
        jobs: What each module of each side does.

    Returns:
        The reference modules of such pairs.
    """
    layers = [
        [m for m, ran in enumerate(view.executed) if ran and view.weights[m]] for view in views
    ]
    partner = dict(pairs)
    taken = frozenset(partner), frozenset(partner.values())
    known = [pair for pair in pairs if views[0].executed[pair[0]] and views[1].executed[pair[1]]]
    known = [pair for pair in known if views[0].weights[pair[0]]]
    starts = [
        sorted(view.executed[pair[side]][0] for pair in known) for side, view in enumerate(views)
    ]

    def place(side: int, module: int) -> int:
        return bisect_left(starts[side], views[side].executed[module][0])

    alone: list[dict[Hashable, list[int]]] = [defaultdict(list), defaultdict(list)]
    for side in (0, 1):
        for module in layers[side]:
            if module not in taken[side]:
                alone[side][jobs[side][module]].append(place(side, module))
    changes = [0] * (len(known) + 2)
    for job, mine in alone[0].items():
        theirs = alone[1].get(job, [])
        for start, stop in (*_nearest(mine, theirs), *_nearest(theirs, mine)):
            changes[min(start, stop)] += 1
            changes[max(start, stop)] -= 1
    depths = list(accumulate(changes))
    return frozenset(
        one for one, two in known if depths[place(0, one)] > 0 or depths[place(1, two)] > 0
    )


def _nearest(places: Iterable[int], others: Sequence[int]) -> Iterable[tuple[int, int]]:
    ordered = sorted(others)
    for place in places:
        at = bisect_left(ordered, place)
        near = ordered[max(0, at - 1) : at + 1]
        if near:
            yield place, min(near, key=lambda other: abs(other - place))
