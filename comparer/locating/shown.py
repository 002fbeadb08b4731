"""Choose the pair to show for an origin whose own records are judged at other addresses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import remarkable
from padiff.comparer.judging.building import endpoints
from padiff.dumpfile import Role

from .between import name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.result import Endpoint, JudgedPair

    from .calltree import CallTree


Shown = tuple["JudgedPair", "JudgedPair"]
"""A pair to show at a call, and the one at another address that it has verdict and numbers of."""


def handed_pair(tree: CallTree, call: int) -> Shown | None:
    """Make the pair of an output that was judged, and diverged, where the next call took it.

    Args:
        tree: Both sides.
        call: Reference call.

    Returns:
        The ends that the call and its partner have, with the verdict and the numbers of the pair
        that judged them; None if each side does not hand on one of the two values.
    """
    partner = tree.partner_module.get(tree.reference.calls[call].module)
    theirs = {
        tree.candidate.records[tree.records[place][1] or 0].value: pair.candidate
        for place, pair in remarkable(tree.pairs)
        if pair.covered and pair.candidate is not None and pair.candidate.module == partner
        if pair.candidate.address.role is Role.OUTPUT
    }
    for place, judged in tree.handed_on(call):
        found = tree.records[judged][1]
        value = None if found is None else tree.candidate.records[found].value
        if value is not None and value in theirs:
            ends = tree.pairs[place].reference, theirs[value]
            shown = replace(tree.pairs[judged], reference=ends[0], candidate=ends[1])
            return shown, tree.pairs[judged]
    return None


def covered_pair(tree: CallTree, call: int, role: Role, inside: Sequence[int]) -> Shown | None:
    """Make the pair of what two partners gave, which was judged, if at all, at other calls.

    Args:
        tree: Both sides.
        call: Reference call.
        role: Of what left the call: outputs, or gradients of inputs.
        inside: Places of what diverged inside the call, earliest first.

    Returns:
        As ``handed_pair``: the numbers are those of the values themselves, else of what diverged
        first inside; None if nothing did, or if the partner gave nothing of that role.
    """
    partner = tree.counterpart(call)
    theirs = [] if partner is None else tree.candidate_records(partner, role)
    alone = [(place, pair.reference) for place, pair in tree.of_call(call, role)
             if pair.candidate is None and pair.reference is not None]  # fmt: skip
    for place, end in alone:
        judged = tree.judged_elsewhere(place)
        found = None if judged is None else tree.records[judged][1]
        value = None if found is None else tree.candidate.records[found].value
        own = next((one for one in theirs if tree.candidate.records[one].value == value), None)
        if judged is not None and value is not None and own is not None:
            reason = tree.pairs[place].reason
            return _shown(tree, judged, (end, own), reason)
    if not (alone and theirs):
        return None
    end = alone[0][1]
    own = next(
        (one for one in theirs if tree.candidate.records[one].slot == end.address.slot), theirs[0]
    )
    return _first_inside(tree, (end, own), inside)


def agreeing_pair(tree: CallTree, place: int, inside: Sequence[int]) -> Shown | None:
    """Make the pair of a record that agrees, of a call whose code made what diverged inside it.

    Args:
        tree: Both sides.
        place: Of the pair that agrees.
        inside: Places of what diverged inside the call, earliest first.

    Returns:
        As ``handed_pair``: the numbers are those of what diverged first; None if nothing did.
    """
    end, own = tree.pairs[place].reference, tree.records[place][1]
    return None if end is None or own is None else _first_inside(tree, (end, own), inside)


def _first_inside(
    tree: CallTree, ends: tuple[Endpoint, int], inside: Sequence[int]
) -> Shown | None:
    """Make a pair of two ends with the numbers of what diverged first inside; None without any."""
    judged = next((place for place in inside if tree.pairs[place].metrics is not None), None)
    if judged is None:
        return None
    known = tree.reference.records[tree.records[judged][0][0]]
    reason = f"the numbers are those of {name_of(tree.reference, known)}"
    return _shown(tree, judged, ends, reason)


def _shown(
    tree: CallTree, judged: int, ends: tuple[Endpoint, int], reason: str
) -> tuple[JudgedPair, JudgedPair]:
    """Make a pair of an end and a candidate's record with the numbers of a judged pair."""
    pair = tree.pairs[judged]
    both = ends[0], *endpoints(tree.candidate, [ends[1]])
    assert pair.reference is not None
    assert pair.candidate is not None
    own = [
        replace(end, dtype=other.dtype, shape=other.shape, statistics=other.statistics)
        for end, other in zip(both, (pair.reference, pair.candidate), strict=True)
    ]
    return replace(pair, reference=own[0], candidate=own[1], reason=reason), pair
