"""How sure the pairs of calls without parameters are: by what else ran between the same layers."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from padiff.pairing.view import View

__all__ = ["misplaced"]

_UNSURE = 0.5


class _Gaps:
    """The modules without parameters of one side, by the paired layers around their first call."""

    def __init__(self, view: View, layers: Sequence[int], jobs: Sequence[Hashable]) -> None:
        self._view = view
        self._layers = sorted(layers, key=lambda module: view.executed[module][0])
        self._starts = [view.executed[module][0] for module in self._layers]
        self._jobs = jobs
        self._counts: dict[Hashable, int] = defaultdict(int)
        self._ranks: dict[int, int] = {}
        free = [
            module
            for module, ran in enumerate(view.executed)
            if ran and not view.weights[module] and not view.children[module]
        ]
        for module in sorted(free, key=lambda one: view.executed[one][0]):
            key = (jobs[module], self._place(module))
            self._ranks[module] = self._counts[key]
            self._counts[key] += 1

    def _place(self, module: int) -> int:
        return bisect_left(self._starts, self._view.executed[module][0])

    def around(self, module: int) -> tuple[int | None, int | None]:
        """Give the paired layers before and after."""
        place = self._place(module)
        return (
            self._layers[place - 1] if place else None,
            self._layers[place] if place < len(self._layers) else None,
        )

    def rank(self, module: int) -> tuple[int, int]:
        """Give the rank among those alike between the same layers, and how many they are."""
        return self._ranks[module], self._counts[self._jobs[module], self._place(module)]


def misplaced(
    views: tuple[View, View],
    pairs: Sequence[tuple[int, int]],
    jobs: tuple[Sequence[Hashable], Sequence[Hashable]],
) -> dict[int, float]:
    """Limit the confidence of pairs without parameters that position does not settle.

    Two activations are partners beyond doubt if they ran before or after partners and are the k-th
    of as many on both sides.

    Args:
        views: Both sides.
        pairs: Paired modules, reference and candidate.
        jobs: What each module of each side does.

    Returns:
        A limit below 1 by reference module.
    """
    ran = [pair for pair in pairs if views[0].executed[pair[0]] and views[1].executed[pair[1]]]
    layers = [p for p in ran if views[0].weights[p[0]] and views[1].weights[p[1]]]
    image = dict(layers)
    gaps = (
        _Gaps(views[0], [one for one, _ in layers], jobs[0]),
        _Gaps(views[1], [two for _, two in layers], jobs[1]),
    )
    found: dict[int, float] = {}
    for one, two in ran:
        is_free = not (views[0].weights[one] or views[0].children[one])
        if not is_free or views[1].weights[two] or views[1].children[two]:
            continue
        before, after = gaps[0].around(one)
        theirs = gaps[1].around(two)
        is_before = (None if before is None else image[before]) == theirs[0]
        is_after = (None if after is None else image[after]) == theirs[1]
        ranks = gaps[0].rank(one), gaps[1].rank(two)
        if not (is_before or is_after):
            found[one] = _UNSURE
        elif ranks[0] != ranks[1]:
            found[one] = 1 / max(2, ranks[0][1], ranks[1][1])
    return found
