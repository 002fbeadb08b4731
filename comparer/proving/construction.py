"""How two buffers that differ were computed while the models were built, and what is other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cause import find_cause
from .executed import Runs, Sink
from .leaves import Leaves
from .numbering import Numbering

if TYPE_CHECKING:
    from .leaves import LeafPair
    from .result import Edit
    from .side import Side

__all__ = ["prove_construction"]


def prove_construction(pair: LeafPair, reference: Side, candidate: Side) -> tuple[Edit, ...]:
    """Prove why a leaf is no copy, by the operators that made it on both sides.

    Returns:
        The edits with which the candidate's operators make what the reference's make; none where
        a dump does not say how the leaf was made, or no proof is found.
    """
    known, found = reference.construction, candidate.construction
    if known is None or found is None or pair.rule.steps or len(pair.reference) != 1:
        return ()
    made = _made(reference, pair.reference[0]), _made(candidate, pair.candidate)
    if made[0] is None or made[1] is None:
        return ()
    sides, sink = (known, found), Sink(made[0], made[1], None)
    numbering = Numbering(known, found, Leaves({}))
    return find_cause(sides, ({}, {}), numbering, [sink], Runs.agree).edits


def _made(side: Side, leaf: int) -> int | None:
    """Return the value of the construction that became a leaf: both hold the same elements."""
    built, row = side.recorded.construction, side.recorded.row(leaf)
    if built is None or row is None:
        return None
    shape = side.program.values[leaf].shape
    same = (one for one in built.program.values if built.row(one.id) == row and one.shape == shape)
    return next((one.id for one in same), None)
