"""Layers that only one layer of the other side can be, by what must and what can run before them.

What a layer provably depends on, its partner depends on too, and ran after it. So a layer before
which nothing of a size ran is no partner of one that needs a layer of that size. Of two branches
that start in one place, ``depthwise`` and ``pointwise, depthwise``, this tells the two depthwise
layers apart wherever the shorter branch runs first.
"""

from __future__ import annotations

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
    if not (can.any(axis=0).all() and can.any(axis=1).all()):
        return  # the two groups are not of the same layers
    rest = can.copy()
    while True:
        is_sole = (rest.sum(axis=1, keepdims=True) == 1) | (rest.sum(axis=0, keepdims=True) == 1)
        sole = np.argwhere(rest & is_sole)
        if not len(sole):
            return
        row, column = sole[0].tolist()
        yield row, column
        rest[row] = rest[:, column] = False


def _possible(
    ancestors: tuple[Sequence[Ancestors], Sequence[Ancestors]],
    numbers: tuple[Numbers, Numbers],
    ranks: tuple[Sequence[int], Sequence[int]],
    kinds: int,
) -> npt.NDArray[np.bool_]:
    """Tell which layers of a group can be partners: neither needs more before it than ran."""
    least = [
        np.array([_counts(side, known[rank], kinds) for rank in of])
        for side, known, of in zip(numbers, ancestors, ranks, strict=True)
    ]
    most = [
        np.array([_counts(side, (rank, 0), kinds) for rank in of])
        for side, of in zip(numbers, ranks, strict=True)
    ]
    return np.array(
        [
            (low <= most[1]).all(axis=1) & (least[1] <= high).all(axis=1)
            for low, high in zip(least[0], most[0], strict=True)
        ]
    )


def _counts(numbers: Numbers, known: Ancestors, kinds: int) -> Numbers:
    """Count the layers of each number in a set of ranks."""
    prefix, bits = known
    octets = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
    above = prefix + np.flatnonzero(np.unpackbits(octets, bitorder="little"))
    held = np.concatenate((numbers[:prefix], numbers[above]))
    return np.bincount(held[held >= 0], minlength=kinds)
