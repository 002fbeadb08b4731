"""Whether a norm stands before a layer on one side and behind it on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.locating.between import first_inside
from padiff.comparer.locating.dataflow import Made
from padiff.dumpfile import Role
from padiff.pairing import kind_of

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from padiff.comparer.locating.calltree import CallTree
    from padiff.comparer.locating.dataflow import Flow

__all__ = ["norm_order"]

MOST_CHILDREN = 64
"""Calls directly inside an origin that are looked at, the first ones."""


def norm_order(tree: CallTree, call: int) -> Iterator[Cause]:
    """Say which norm directly inside a call runs before what on one side, behind it on the other.

    Args:
        tree: Both sides.
        call: Reference call whose code went wrong.
    """
    index, path = tree.reference, tree.path(call)
    begun = first_inside(tree, call)
    wronged = None if begun is None else index.records[tree.records[begun][0][0]].call
    inside = [one for one in tree.children.get(call, ()) if one in tree.partner_call]
    for norm in inside[:MOST_CHILDREN]:
        if "norm" not in (kind_of(index.modules[index.calls[norm].module]) or ""):
            continue
        for other in inside[:MOST_CHILDREN]:
            pair = tree.partner_call[norm], tree.partner_call[other]
            is_loose = wronged in {norm, other}
            feeds = (
                _feeds(tree.reference_flow, norm, other, is_loose=is_loose),
                _feeds(tree.candidate_flow, *pair, is_loose=is_loose),
            )
            if norm == other or feeds[0] == feeds[1]:
                continue
            late, (one, two) = (
                (tree.candidate, pair) if feeds[0] else (tree.reference, (norm, other))
            )
            if late.calls[one].start < late.calls[two].start:
                continue
            sides = ("reference", "candidate") if feeds[0] else ("candidate", "reference")
            names = [tree.path(one).removeprefix(path) or "(root)" for one in (norm, other)]
            yield Cause(
                name=CauseName.ORDER,
                text=f"{names[0]} comes before {names[1]} on the {sides[0]}, "
                f"after it on the {sides[1]}",
                numbers={"norm": tree.path(norm), "layer": tree.path(other), "before": sides[0]},
            )
            return


def _feeds(flow: Flow, one: int, other: int, *, is_loose: bool) -> bool:
    """Tell whether a call is given what another one gave, or what code made right behind that.

    Args:
        flow: Of one side.
        one: A call.
        other: Another one in the same code.
        is_loose: Whether what code made counts: only where that is what diverged first.
    """
    made = {record.value for record in flow.records(one, Role.OUTPUT)} - {None}
    given = flow.records(other, Role.INPUT)
    if any(record.value in made for record in given):
        return True
    feeds = [flow.feed(record) for record in given] if is_loose else []
    return any(feed.made is Made.GLUE and feed.after == one for feed in feeds)
