"""Pair calls without parameters by the paired calls around them, the nearest ones first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from padiff.pairing.result import PairedBy

from .align import align_items
from .likeness import has_same_size, score_free

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Sequence

    from padiff.pairing.view import View
    from padiff.pairing.weights.matching import Matching

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
    reference: View,
    candidate: View,
    pairs: Matching,
    anchors: tuple[Sequence[int], Sequence[int]],
    limits: tuple[int | None, int | None],
) -> None:
    """Pair what has no parameters: by the paired calls around it, the nearest ones first."""
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

    def near(one: int, two: int) -> float:
        return score_free(reference, one, candidate, two)

    def far(one: int, two: int) -> float:
        is_likely = has_same_size(reference, one, candidate, two)
        return near(one, two) if is_likely else -1.0

    for choose in (*_NEAR, *_FAR):
        score = near if choose in _NEAR else far
        groups: list[dict[Hashable, list[int]]] = [defaultdict(list), defaultdict(list)]
        for side in (0, 1):
            taken = pairs.ahead if side == 0 else pairs.back
            for call in free[side]:
                if call not in taken:
                    groups[side][choose(places[side][call])].append(call)
        for key, mine in groups[0].items():
            theirs = groups[1].get(key, [])
            for one, two in align_items(mine, theirs, score):
                pairs.add(one, two, PairedBy.POSITION)


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
    found: dict[int, Place] = {}
    position = 0
    for call in calls:
        while position < len(leaves) and leaves[position] < call:
            position += 1
        before = leaves[position - 1] if position else None
        after = leaves[position] if position < len(leaves) else None
        around = next((outer for outer in view.ancestors(call) if outer in paired), None)
        found[call] = _image(before, image), _image(after, image), _image(around, image)
    return found


def _image(call: int | None, image: dict[int, int]) -> int | None:
    return call if call is None else image.get(call, call)
