"""The errors that an update makes, in units of how far it moves what it is given.

A weight of 1 that a step moves by 1e-5 is written with an error of 6e-8, and hides a rate that is
off by half a percent. So the weight's own rounding does not count: what carries a weight on is off
by as much of what it adds to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import LeafKind
from padiff.program import SUMMING, Rounding
from padiff.program.primitives import Kind

from .hidden import Errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.program import Leaf, Node
    from padiff.program.primitives import Array

    from .executed import Sink
    from .side import Side

__all__ = ["UpdateErrors"]

_CARRIED = frozenset({LeafKind.PARAMETER, LeafKind.BUFFER, LeafKind.STATE})
"""Leaves that an update leaves moved."""
_ROUNDED = frozenset({Kind.FLOAT, Kind.COMPLEX})


class UpdateErrors(Errors):
    """The errors of two updates."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
        names: Mapping[Sink, str],
    ) -> None:
        """Look what each update carries on.

        Args:
            sides: The reference and the candidate.
            given: What their leaves hold.
            names: What is left, by the candidate's name.
        """
        super().__init__(sides)
        self._given, self._names = given, names
        self._carried = tuple(
            _carried(side, those) for side, those in zip(sides, given, strict=True)
        )
        values = sides[1].program.values
        self._taken = {
            values[one].name: one
            for one in sides[1].lowered.leaves.values()
            if values[one].kind in _CARRIED
        }

    def rounding(self, which: int, seed: int) -> Rounding:
        """Return the errors of one execution of the reference (0) or the candidate (1)."""
        return _RoundingOfMoves(super().rounding(which, seed), self._carried[which])

    def unit_of(self, sink: Sink, known: Array) -> Array:
        """Return what differences are relative to: by how much the update moved each element."""
        taken = self._taken.get(self._names[sink])
        with np.errstate(all="ignore"):
            before = 0.0 if taken is None else _elements(self._given[1][taken])
            return np.abs(known - before)


class _RoundingOfMoves(Rounding):
    """Random errors, of what is carried on in units of what is added to it."""

    def __init__(self, errors: Rounding, carried: Mapping[int, Sequence[Leaf]]) -> None:
        super().__init__(errors.units, seed=errors.seed, known=errors.known)
        self._carried = carried

    def disturb_results(
        self, node: Node, operands: Sequence[Array], results: Sequence[Array]
    ) -> list[Array]:
        """Return what a primitive makes, with errors where it rounds."""
        disturbed = super().disturb_results(node, operands, results)
        for leaf in self._carried.get(node.outputs[0], ()):
            exact, before = results[0], _elements(leaf)
            with np.errstate(all="ignore"):
                share = np.minimum(1.0, np.abs(exact - before) / np.abs(exact))
                moved = exact + np.where(exact == 0, 1.0, share) * (disturbed[0] - exact)
            disturbed[0] = np.where(np.isfinite(moved), moved, disturbed[0])
        return disturbed


def _carried(side: Side, given: Mapping[int, Leaf]) -> dict[int, list[Leaf]]:
    """Return which leaves the elementwise primitives carry on, by the term that they make."""
    lowered, values = side.lowered, side.program.values
    found = {
        term: {term} for term, value in lowered.leaves.items() if values[value].kind in _CARRIED
    }
    for node in lowered.nodes:
        spec = lowered.specs[node.outputs[0]]
        if node.primitive in SUMMING or len(node.outputs) > 1 or spec.kind not in _ROUNDED:
            continue
        taken = {leaf for term in node.operands for leaf in found.get(term, ())}
        taken = {leaf for leaf in taken if lowered.specs[leaf] == spec}
        if taken:
            found[node.outputs[0]] = taken
    made = {term: those for term, those in found.items() if term not in lowered.leaves}
    return {term: [given[lowered.leaves[one]] for one in those] for term, those in made.items()}


def _elements(leaf: Leaf) -> Array:
    return leaf() if callable(leaf) else leaf
