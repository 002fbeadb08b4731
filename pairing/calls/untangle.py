"""Undo what an order-preserving alignment does to siblings that have no order.

Query, key and value projections are fed one tensor: authors run them in any order. Where names,
weights or outputs tell such siblings apart, their order must not count.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set

    import numpy.typing as npt

    from padiff.pairing.view import View

    from .anchors import Evidence

    Floats = npt.NDArray[np.float64]

__all__ = ["untangled"]

_CLEAR = 0.5
"""By how much another assignment must be better for the order to give way."""
_MAX_SIBLINGS = 64
_BATCH = 256
"""So many groups are scored at once: what a single small one takes is the call itself."""


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
    several: list[list[tuple[int, int]]] = []
    for group in groups.values():
        if 1 < len(group) <= _MAX_SIBLINGS:
            several.append(group)
        else:
            found += group
    for start in range(0, len(several), _BATCH):
        some = several[start : start + _BATCH]
        for group, table in zip(some, _tables(evidence, some), strict=True):
            found += _reassigned(table, group)
    return sorted(found)


def _tables(evidence: Evidence, groups: Sequence[Sequence[tuple[int, int]]]) -> Iterator[Floats]:
    """Score all with all of each group."""
    sizes = [len(group) for group in groups]
    ours = np.array([one for group in groups for one, _ in group], np.int64)
    rows = np.repeat(ours, np.repeat(sizes, sizes))
    theirs = [two for group in groups for _ in group for _, two in group]
    ends = np.cumsum(np.square(sizes))
    parts = np.split(evidence.scores(rows, np.array(theirs, np.int64)), ends[:-1])
    for size, part in zip(sizes, parts, strict=True):
        yield part.reshape(size, size)


def _reassigned(table: Floats, group: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Give the pairs of a group anew, if another assignment is clearly better."""
    if (table.diagonal() >= table.max(axis=1)).all():
        return group
    ranked = sorted(
        (-score, place, other)
        for place, row in enumerate(table.tolist())
        for other, score in enumerate(row)
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
    return [(group[place][0], group[other][1]) for place, other in better]
