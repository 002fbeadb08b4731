"""Why the gradients of weights differ all in one way, while those of activations agree.

They hold those of the step before, too (a ``zero_grad`` that is missing), or were all scaled
between the backward pass and the update (a clip, a gradient scaler), or a penalty added to them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.result import Divergence, JudgedPair, Kind
from padiff.dumpfile import Phase, Role

from .budget import USED_UP, Budget
from .cause import Cause, CauseName
from .causes import remarked
from .causesides import Sides
from .penaltycauses import penalty

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.comparer.locating.calltree import CallTree
    from padiff.comparer.locating.locate import Located
    from padiff.pairing import Side

__all__ = ["explain_weight_gradients"]

OTHERWISE = ("likely cause", "the relative error grows only")
"""How evidence begins that this cause takes the place of."""
FEW = 2
"""Weights from which on one factor means something."""
CLOSE = 1e-3
"""Relative spread of a factor that is one number."""
LEFT = 0.02
"""Share of the difference, in L2, that the gradients of the step before may leave over."""


def explain_weight_gradients(
    located: Located,
    tree: CallTree,
    sides: tuple[Side, Side],
    before: Callable[[], tuple[Side, Side] | None],
    budget: Budget | None = None,
) -> Located:
    """Say of the origins that are gradients of weights what was done to all of them.

    Args:
        located: What diverged, and which of it is an origin.
        tree: The judged pairs.
        sides: The step, reference and candidate.
        before: Opens the step before it; None if that was not recorded.
        budget: Work that may be done; by default as much as one comparison may take.

    Returns:
        The same with the cause; of several origins that have it, the first.
    """
    bad = [found for found in located.divergences if _is_gradient(found)]
    if not bad:
        return located
    both = Sides(tree=tree, reference=sides[0], candidate=sides[1], budget=budget or Budget())
    earlier = before()
    refused = both.budget.refusals
    with both.budget.one_divergence():
        whole = _scaled(both) or penalty(both)
    explained: list[Divergence] = []
    told: set[str] = set()
    for found in located.divergences:
        cause = None
        if _is_gradient(found):
            side = None if earlier is None else _holding(found, both, earlier)
            cause = whole if side is None else _accumulated(side)
        if cause is None:
            is_cut = _is_gradient(found) and both.budget.refusals > refused
            is_new = is_cut and USED_UP not in found.evidence
            explained.append(remarked(found, USED_UP) if is_new else found)
        else:
            explained.append(_with_cause(found, cause, is_first=cause.text not in told))
            told.add(cause.text)
    return replace(
        located, divergences=tuple(explained), pairs=_with_kinds(located.pairs, explained)
    )


def _with_kinds(
    pairs: Sequence[JudgedPair], divergences: Sequence[Divergence]
) -> tuple[JudgedPair, ...]:
    """Give the pairs with the kinds that their modules' divergences have now."""
    inherited = {
        (end.module, end.address.role)
        for found in divergences
        if found.kind is Kind.INHERITED and (end := found.pair.reference) is not None
    }
    return tuple(_with_kind(pair, inherited) for pair in pairs)


def _with_kind(pair: JudgedPair, inherited: set[tuple[int, Role]]) -> JudgedPair:
    """Give a pair the kind of its divergence, which stands for the other weights of its module."""
    end = pair.reference
    is_told = end is not None and (end.module, end.address.role) in inherited
    is_gradient = end is not None and end.address.role is Role.WEIGHT_GRAD
    if not (is_told and is_gradient and pair.kind is Kind.ORIGIN):
        return pair
    return replace(pair, kind=Kind.INHERITED)


def _accumulated(side: str) -> Cause:
    return Cause(
        name=CauseName.ACCUMULATED,
        text=f"the {side}'s gradient is the other side's plus its own of the step before: it was "
        "not cleared (zero_grad, clear_grad)",
    )


def _scaled(sides: Sides) -> Cause | None:
    """See whether all gradients of weights that diverge do so by one factor."""
    factors = []
    for position, pair in enumerate(sides.tree.pairs):
        end = pair.reference
        if end is None or end.address.role is not Role.WEIGHT_GRAD or not pair.fatal:
            continue
        both = sides.read(position) if end.address.phase is Phase.BACKWARD else None
        factor = None if both is None else _factor(both.reference, both.candidate)
        if factor is None:
            return None
        factors.append(factor)
    if len(factors) < FEW or max(factors) > min(factors) * (1 + CLOSE):
        return None
    return Cause(
        name=CauseName.SCALED,
        text=f"all gradients of weights that differ are {factors[0]:.6g} times the reference's: "
        "they were clipped or scaled after the backward pass, on one side or otherwise",
        numbers={"factor": factors[0]},
    )


def _factor(known: Array, had: Array) -> float | None:
    """Give the positive factor that makes one the other."""
    square = float(np.vdot(known, known))
    factor = float(np.vdot(known, had)) / square if square and known.shape == had.shape else 0.0
    left = float(np.linalg.norm((had - factor * known).ravel()))
    is_one = factor > 0 and left <= CLOSE * float(np.linalg.norm(had.ravel()))
    return factor if is_one else None


def _is_gradient(divergence: Divergence) -> bool:
    end = divergence.pair.reference
    is_origin = divergence.kind is Kind.ORIGIN and divergence.pair.candidate is not None
    return is_origin and end is not None and end.address.role is Role.WEIGHT_GRAD


def _with_cause(divergence: Divergence, cause: Cause, *, is_first: bool) -> Divergence:
    """Tell the cause; of the gradients that it made wrong the first is the origin."""
    others = [line for line in divergence.evidence if not line.startswith(OTHERWISE)]
    kind = Kind.ORIGIN if is_first else Kind.INHERITED
    return replace(
        divergence,
        kind=kind,
        pair=replace(divergence.pair, kind=kind),
        evidence=(str(cause), *others),
        causes=(cause,),
    )


def _holding(divergence: Divergence, sides: Sides, earlier: tuple[Side, Side]) -> str | None:
    """Give the side whose gradient has that of the step before in it."""
    tree = sides.tree
    for position, pair in enumerate(tree.pairs):
        if pair.reference != divergence.pair.reference:
            continue
        both, (known, found) = sides.read(position), tree.records[position]
        if both is None or found is None:
            return None
        more = both.candidate - both.reference
        had = _same_place(earlier[1], sides.candidate, found)
        if had is not None and _is(more, had):
            return "candidate"
        older = _same_place(earlier[0], sides.reference, known[0])
        laid = None if older is None or len(known) > 1 else sides.laid_out(position, older)
        return "reference" if laid is not None and _is(-more, laid) else None
    return None


def _is(difference: Array, older: Array) -> bool:
    if difference.shape != older.shape or not older.any():
        return False
    left = float(np.linalg.norm((difference - older).ravel()))
    return left <= LEFT * float(np.linalg.norm(older.ravel()))


def _same_place(earlier: Side, now: Side, record: int) -> Array | None:
    """Read what stood in the place of a record in the step before."""
    wanted = now.index.records[record]
    path = now.index.modules[wanted.module].path
    for other in earlier.index.records:
        is_same = (other.slot, other.role) == (wanted.slot, wanted.role)
        is_same &= other.phase is Phase.BACKWARD and other.value is not None
        if is_same and earlier.index.modules[other.module].path == path:
            return earlier.array(other).astype(np.float64)
    return None
