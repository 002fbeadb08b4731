"""Pair masks that are drawn by hand with what dropouts drew: values of zeros and ones.

One port calls a dropout, another one draws uniform numbers and asks which are above a share, or
rounds them down. What follows from draws alone and holds nothing but zeros and ones is a mask, and
the masks of both sides are partners in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpFormatError, LeafKind, ProgramError
from padiff.program import execute, fitted

if TYPE_CHECKING:
    from collections.abc import Container

    from padiff.program.primitives import Array

    from .side import Side

__all__ = ["Masks", "pair_masks"]


class Masks:
    """The masks that one side draws, of draws without a partner."""

    def __init__(self, side: Side, settled: Container[int]) -> None:
        """Find them.

        Args:
            side: Its program.
            settled: Draws that have a partner, by value id.
        """
        self._side = side
        terms = side.lowered.terms
        self._draws = {
            terms[one.id]: one.id
            for one in side.program.values
            if one.kind is LeafKind.RANDOM
            and one.id not in settled
            and one.id in terms
            and side.recorded.has_elements(one.id)
        }
        self.arrays: dict[int, Array] = self._find() if self._draws else {}
        """What each holds, by value id, in order."""

    def _find(self) -> dict[int, Array]:
        """Return the first values on each way that hold zeros and ones alone."""
        side, terms = self._side, self._side.lowered.terms
        drawn = self._followed(set(self._draws), set())
        values = [one.id for one in side.program.values if terms.get(one.id) in drawn]
        leaves = {value: side.recorded_leaf(value) for value in self._draws.values()}
        try:
            made = execute(side.lowered, leaves, values)
        except (ProgramError, DumpFormatError):
            return {}
        found: dict[int, Array] = {}
        behind: set[int] = set()
        for value in values:
            array, term = made[value], terms[value]
            if term not in behind and bool(np.all((array == 0) | (array == 1))):
                found[value] = array
                behind |= self._followed({term}, set())
        return found

    def _followed(self, begun: set[int], ends: Container[int]) -> set[int]:
        """Return terms and what follows from them and numbers alone, but not through the ends."""
        found, numbers = set(begun), set[int]()
        for node in self._side.lowered.nodes:
            if numbers.issuperset(node.operands):
                numbers.update(node.outputs)
            elif all(
                (term in found and term not in ends) or term in numbers for term in node.operands
            ):
                found.update(node.outputs)
        return found

    def covered(self) -> set[int]:
        """Return the draws that nothing takes but by way of a mask, by value id."""
        terms = self._side.lowered.terms
        ends = {terms[value] for value in self.arrays}
        found = set[int]()
        for term, value in self._draws.items():
            reached = self._followed({term}, ends) - ends
            taken = (
                node
                for node in self._side.lowered.nodes
                if not reached.isdisjoint(node.operands) and not reached.issuperset(node.outputs)
            )
            if all(ends.issuperset(node.outputs) for node in taken):
                found.add(value)
        return found


def pair_masks(known: Masks, found: Masks) -> dict[int, int]:
    """Return the masks of the reference by those of the candidate; none where counts differ."""
    if len(known.arrays) != len(found.arrays):
        return {}
    pairs = zip(known.arrays.items(), found.arrays.items(), strict=True)
    return {
        own: one
        for (one, array), (own, other) in pairs
        if _fits(array, other.shape)
    }  # fmt: skip


def _fits(array: Array, shape: tuple[int, ...]) -> bool:
    """Return whether a mask can stand for one of another shape: it is the same along some axes."""
    try:
        other = fitted(array, shape)
        whole = np.broadcast_shapes(array.shape, shape)
    except ValueError:
        return False
    return np.array_equal(np.broadcast_to(array, whole), np.broadcast_to(other, whole))
