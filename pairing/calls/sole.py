"""Layers that only one layer of the other side can be, by what must and what can run before them.

What a layer provably depends on, its partner depends on too, and ran after it. So a layer before
which nothing of a size ran is no partner of one that needs a layer of that size. Of two branches
that start in one place, ``depthwise`` and ``pointwise, depthwise``, this tells the two depthwise
layers apart wherever the shorter branch runs first.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .order import Ancestors

__all__ = ["sole_partners"]

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
