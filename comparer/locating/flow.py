"""What went through a call: how much error it added, nan, whether it only passed data on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.comparer.result import Verdict
from padiff.dumpfile import Role
from padiff.program import UNIT_ROUNDOFF

from .calltree import relative_error
from .moving import only_moves

if TYPE_CHECKING:
    from padiff.comparer.result import JudgedPair
    from padiff.dumpfile import Index, RecordInfo

    from .calltree import CallTree

__all__ = ["amplification", "follows_bad", "growth", "nonfinite_producers", "only_passes_on"]

DRIFT = 10.0
"""Up to this growth of the relative error within one call, it is passed on rather than made."""


def amplification(tree: CallTree, call: int, entry: Role, leaving: Role) -> float | None:
    """Give the relative error of what left a call over that of what went in.

    Returns:
        inf if what went in is equal, None if one of the two was not measured or nothing differs.
    """
    before = [relative_error(p) for _, p in tree.of_call(call, entry) if _is_judged(p.verdict)]
    after = [relative_error(p) for _, p in tree.of_call(call, leaving) if _is_judged(p.verdict)]
    if not before or not after or not max(after):
        return None
    if not max(before):
        return math.inf
    ratio = max(after) / max(before)
    return None if math.isnan(ratio) else ratio


def growth(tree: CallTree, call: int, entry: Role, leaving: Role) -> tuple[str, ...]:
    """Say how the error grew within an origin, where what went in was not equal.

    A step (a fault) multiplies it; a drift (rounding that adds up) has grown before. Nothing where
    what left the call agrees, as for an origin that is a weight's gradient, nor where it is off by
    so much more than is allowed that no growth of rounding explains it.
    """
    ratio = amplification(tree, call, entry, leaving)
    leaves = [tree.pairs[place] for place in tree.bad(call, leaving)]
    if ratio is None or math.isinf(ratio) or not leaves:
        return ()
    if ratio > DRIFT:
        return (f"the relative error grows {ratio:.3g} times here: a step",)
    if not all(map(_may_be_rounding, leaves)):
        return ()
    drift = "it drifted up to the tolerance, which may be too tight"
    return (f"the relative error grows only {ratio:.3g} times here: {drift}",)


def _may_be_rounding(pair: JudgedPair) -> bool:
    """Return whether more than half of the digits are right."""
    ends = [end for end in (pair.reference, pair.candidate) if end is not None]
    unit = max((UNIT_ROUNDOFF.get(end.dtype, 0.0) for end in ends), default=0.0)
    return relative_error(pair) <= math.sqrt(unit)


def nonfinite_producers(tree: CallTree, call: int) -> tuple[str, ...]:
    """Say on which sides a call makes nan or inf out of finite inputs."""
    lines = []
    for side in ("reference", "candidate"):
        ends = {
            role: [
                end.statistics.nonfinite
                for _, pair in tree.of_call(call, role)
                if (end := getattr(pair, side)) is not None and end.statistics is not None
            ]
            for role in (Role.INPUT, Role.OUTPUT)
        }
        if sum(ends[Role.OUTPUT]) and not sum(ends[Role.INPUT]):
            count = sum(ends[Role.OUTPUT])
            lines.append(f"makes nan or inf out of finite inputs on the {side} ({count} elements)")
    return tuple(lines)


def only_passes_on(tree: CallTree, call: int) -> bool:
    """Tell whether a call gives back, on both sides, the elements that it was given.

    Reordered, joined or split; known from the statistics of what is paired at the call.
    """
    return all(
        only_moves(
            index,
            _records(tree, index, call, Role.INPUT, side),
            _records(tree, index, call, Role.OUTPUT, side),
        )
        for side, index in enumerate((tree.reference, tree.candidate))
    )


def _records(tree: CallTree, index: Index, call: int, role: Role, side: int) -> list[RecordInfo]:
    found = []
    for place, _ in tree.of_call(call, role):
        known, other = tree.records[place]
        chosen = other if side else (known[0] if known else None)
        if chosen is not None:
            found.append(index.records[chosen])
    return found


def _is_judged(verdict: Verdict) -> bool:
    return verdict in {Verdict.MATCH, Verdict.DIVERGED}


def follows_bad(tree: CallTree, call: int) -> bool:
    """Tell whether a call beside this one diverged before, so that it may have been given that.

    Asked of calls whose inputs nothing judges: they are handed what the code around made.
    """
    parent = tree.reference.calls[call].parent
    if parent is None or not any(tree.of_call(call, Role.INPUT)):
        return False
    before = (other for other in tree.children.get(parent, ()) if other < call)
    return any(tree.bad(other, Role.OUTPUT) for other in before)
