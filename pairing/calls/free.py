"""Pair calls without parameters by the paired calls around them, the nearest ones first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from padiff.pairing.result import PairedBy

from .align import align_all

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Sequence

    import numpy.typing as npt

    from padiff.pairing.view import View
    from padiff.pairing.weights.matching import Matching

    from .likeness import CallLikeness

    Places = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

__all__ = ["pair_free"]

Place = tuple[int | None, int | None, int | None]
_NEAR: tuple[Callable[[Place], Hashable], ...] = (
    lambda place: place,
    lambda place: ("between", place[0], place[1]),
)
"""Between the same two calls; there a fault may have made the output of one larger."""
_FAR: tuple[Callable[[Place], Hashable], ...] = (
    lambda place: ("after", place[0], place[2]),
    lambda place: ("before", place[1], place[2]),
    lambda place: ("after", place[0]),
    lambda place: ("before", place[1]),
    lambda place: ("inside", place[2]),
)
"""Farther apart, only outputs of equal size are of one job."""


def pair_free(
    alike: CallLikeness,
    pairs: Matching,
    anchors: tuple[Sequence[int], Sequence[int]],
    limits: tuple[int | None, int | None],
) -> None:
    """Pair what has no parameters: by the paired calls around it, the nearest ones first."""
    reference, candidate = alike.views
    regions = [
        range(len(view.calls)) if limit is None else view.inside(limit)
        for view, limit in zip((reference, candidate), limits, strict=True)
    ]
    free = (
        _free(reference, pairs.ahead, anchors[0], regions[0]),
        _free(candidate, pairs.back, anchors[1], regions[1]),
    )
    places = (
        _places(reference, pairs.ahead, free[0], regions[0], {}),
        _places(candidate, pairs.back, free[1], regions[1], pairs.back),
    )

    def far(rows: Places, columns: Places) -> Floats:
        is_likely = alike.is_same_size(rows, columns)
        return np.where(is_likely, alike.free(rows, columns), -1.0)

    tried: set[tuple[int, ...]] = set()
    for choose in (*_NEAR, *_FAR):
        groups: list[dict[Hashable, list[int]]] = [defaultdict(list), defaultdict(list)]
        for side in (0, 1):
            taken = pairs.ahead if side == 0 else pairs.back
            for call in free[side]:
                if call not in taken:
                    groups[side][choose(places[side][call])].append(call)
        met = [(mine, groups[1][key]) for key, mine in groups[0].items() if key in groups[1]]
        # What found no partner between its nearest neighbours finds none among the same calls.
        met = [(mine, theirs) for mine, theirs in met if (*mine, -1, *theirs) not in tried]
        for found in align_all(met, alike.free if choose in _NEAR else far):
            for one, two in found:
                pairs.add(one, two, PairedBy.POSITION)
        tried.update((*mine, -1, *theirs) for mine, theirs in met)


def _free(view: View, taken: Container[int], anchors: Sequence[int], region: range) -> list[int]:
    """List the calls of a region that have no partner and neither hold nor are in an anchor."""
    holds = set(anchors)
    for anchor in anchors:
        for around in view.ancestors(anchor):
            if around in holds:
                break
            holds.add(around)
    inside = set(anchors)
    found = []
    for call in region:
        if view.calls[call].parent in inside:
            inside.add(call)
        elif call not in view.hidden and call not in holds and call not in taken:
            found.append(call)
    return found


def _places(
    view: View,
    paired: Container[int],
    calls: Sequence[int],
    region: range,
    image: dict[int, int],
) -> dict[int, Place]:
    """Say between which paired leaves and in which paired call each call ran, as reference ids."""
    leaves = [call for call in region if call in paired and not view.inner[call]]
    outer: dict[int, int | None] = {}
    for call in region:
        parent = view.calls[call].parent
        is_seen = parent is None or parent in paired
        outer[call] = parent if is_seen or parent is None else outer.get(parent)
    found: dict[int, Place] = {}
    position = 0
    for call in calls:
        while position < len(leaves) and leaves[position] < call:
            position += 1
        before = leaves[position - 1] if position else None
        after = leaves[position] if position < len(leaves) else None
        around = _image(outer[call], image)
        found[call] = _image(before, image), _image(after, image), around
    return found


def _image(call: int | None, image: dict[int, int]) -> int | None:
    return call if call is None else image.get(call, call)
