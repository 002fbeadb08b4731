"""What the code of an origin made of values that it had put to other places before.

That the same elements lie in another order is a fault only if it is not undone. Where the code puts
them back and something else is wrong with what it makes of them, that tells what: the tokens of a
mixture of experts are sorted, and the weights of the experts are not normed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.locating.between import made_inside
from padiff.comparer.locating.dataflow import Made

from .cause import Cause, CauseName
from .patterns import reordered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.locating.calltree import CallTree

    from .causesides import Sides

__all__ = ["is_another_order", "is_telling", "made_of_moved"]

MOST_LOOKED = 16
"""Records that the code made after the first, of which one is looked for that is not moved."""
_WHERE = frozenset(
    {CauseName.TAIL, CauseName.HEAD, CauseName.HEADS, CauseName.SOME, CauseName.BORDER}
)
"""Causes that say where, and not what."""


def is_another_order(causes: Sequence[Cause]) -> bool:
    """Tell whether all that is known is that elements lie in another order, in whatever."""
    return bool(causes) and causes[0].name is CauseName.PERMUTED and not causes[0].numbers


def is_telling(causes: Sequence[Cause]) -> bool:
    """Tell whether causes say what was done, and not only where, or that the order is another."""
    return any(
        cause.name not in _WHERE and cause.name is not CauseName.PERMUTED for cause in causes
    )


def made_of_moved(sides: Sides, call: int, first: int) -> int | None:
    """Find the first that the code of a call made after moved values and that is not moved.

    Args:
        sides: Both sides.
        call: Reference call, an origin.
        first: Place of the pair that the code made first, of moved values.

    Returns:
        The place of its pair; None if a call inside made it, whose fault it may be.
    """
    tree = sides.tree
    later = [place for place in made_inside(tree, call) if tree.order(place) > tree.order(first)]
    for place in later[:MOST_LOOKED]:
        contrast = sides.contrast(place)
        if contrast is None:
            return None
        order = reordered(contrast)
        if order is not None and is_another_order([order]):
            continue
        return place if _is_glue(tree, place) else None
    return None


def _is_glue(tree: CallTree, place: int) -> bool:
    """Tell whether on either side no call made it, so that it may be the code's own fault."""
    known, found = tree.records[place]
    feeds = [tree.reference_flow.feed(tree.reference.records[known[0]])]
    if found is not None:
        feeds.append(tree.candidate_flow.feed(tree.candidate.records[found]))
    return any(feed.made in {Made.GLUE, Made.MOVED} for feed in feeds)
