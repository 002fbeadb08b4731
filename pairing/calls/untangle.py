"""Undo what an order-preserving alignment does to siblings that have no order.

Query, key and value projections are fed one tensor: authors run them in any order. Where names,
weights or outputs tell such siblings apart, their order must not count.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from padiff.pairing.view import View

    from .anchors import Evidence

__all__ = ["untangled"]

_CLEAR = 0.5
"""By how much another assignment must be better for the order to give way."""
_MAX_SIBLINGS = 64


def untangled(
    views: tuple[View, View],
    calls: tuple[Sequence[int], Sequence[int]],
    evidence: Evidence,
    pairs: Iterable[tuple[int, int]],
    fixed: Set[tuple[int, int]] = frozenset(),
) -> list[tuple[int, int]]:
    """Pair siblings that are fed one tensor anew, where another assignment is clearly better.

    Args:
        views: Both sides.
        calls: The anchors of each side.
        evidence: What is known about them.
        pairs: Positions of pairs among the anchors, as aligned in order.
        fixed: Pairs among them that stay as they are.
    """
    groups: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    found: list[tuple[int, int]] = []
    for one, two in pairs:
        given = views[0].given[calls[0][one]], views[1].given[calls[1][two]]
        if given[0] is None or given[1] is None or (one, two) in fixed:
            found.append((one, two))
        else:
            groups[given[0], given[1]].append((one, two))
    for group in groups.values():
        found += _reassigned(evidence, group)
    return sorted(found)


def _reassigned(evidence: Evidence, group: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if not 1 < len(group) <= _MAX_SIBLINGS:
        return group
    rows, columns = np.array(group).T
    scores = evidence.scores(np.repeat(rows, len(columns)), np.tile(columns, len(rows)))
    table = scores.reshape(len(rows), len(columns))
    ranked = sorted(
        (-table[place, other], place, other) for place, other in np.ndindex(table.shape)
    )
    taken: tuple[set[int], set[int]] = (set(), set())
    better: list[tuple[int, int]] = []
    for negative, place, other in ranked:
        if negative < 0 and place not in taken[0] and other not in taken[1]:
            better.append((place, other))
            taken[0].add(place)
            taken[1].add(other)
    gain = sum(table[place, other] for place, other in better) - float(np.trace(table))
    if len(better) < len(group) or gain < _CLEAR:
        return group
    return [(int(rows[place]), int(columns[other])) for place, other in better]
