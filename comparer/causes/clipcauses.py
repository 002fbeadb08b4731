"""How each side clips its gradients: all by one factor, each by its norm, or each element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judging.indouble import in_double
from padiff.dumpfile import Phase, Role

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import Index
    from padiff.pairing import Side

    from .budget import Budget
    from .causesides import Sides

__all__ = ["clip"]

MOST_WEIGHTS = 32
PASSES = 2
"""Work for each of their elements."""
CLOSE = 1e-3
"""Relative spread of a ratio that is one number."""


def clip(sides: Sides) -> list[Cause]:
    """Say what each side does to its gradients before the update, if the two do not do the same."""
    told = [_clip_of(side, sides.budget) for side in (sides.reference, sides.candidate)]
    if told[0] == told[1] or None in told:
        return []
    text = f"the reference {told[0]}, the candidate {told[1]}"
    return [Cause(name=CauseName.CLIP, text=text)]


def _clip_of(side: Side, budget: Budget) -> str | None:
    """Say what a side does; None if nothing fits."""
    found = _gradients(side.index)
    sizes = [math.prod(side.index.records[raw].shape) for raw, _ in found[:MOST_WEIGHTS]]
    if not budget.grants(PASSES * sum(sizes)):
        return None
    pairs = [
        (side.array(side.index.records[raw]), side.array(side.index.records[clipped]))
        for raw, clipped in found[:MOST_WEIGHTS]
    ]
    wide = [(in_double(raw), in_double(clipped)) for raw, clipped in pairs]
    known = [(raw, clipped) for raw, clipped in wide if raw.any()]
    if not known:
        return "does not clip"
    factors = [_factor(raw, clipped) for raw, clipped in known]
    if None not in factors:
        one = float(np.median([factor for factor in factors if factor is not None]))
        if all(abs((factor or 0.0) - one) <= CLOSE * one for factor in factors):
            return (
                "leaves gradients as they are"
                if abs(one - 1) <= CLOSE
                else (f"scales all gradients by {one:.3g} (clip by the norm of all)")
            )
        norms = [float(np.linalg.norm(clipped.ravel())) for _, clipped in known]
        return f"limits the norm of each gradient to {max(norms):.3g}"
    limit = max(float(np.abs(clipped).max()) for _, clipped in known)
    if all(np.allclose(np.clip(raw, -limit, limit), done, rtol=CLOSE) for raw, done in known):
        return f"limits each element to {limit:.3g} (clip by value)"
    return None


def _factor(raw: Array, clipped: Array) -> float | None:
    factor = float((np.vdot(raw, clipped) / np.vdot(raw, raw)).real)
    left = float(np.linalg.norm((clipped - factor * raw).ravel()))
    return factor if left <= CLOSE * float(np.linalg.norm(clipped.ravel())) else None


def _gradients(index: Index) -> list[tuple[int, int]]:
    """Give the gradients of the backward pass with what the update took, where both are there."""
    raw = {
        (record.module, record.slot): record.id
        for record in index.records
        if record.role is Role.WEIGHT_GRAD and record.phase is Phase.BACKWARD
        if record.value is not None
    }
    return [
        (raw[record.module, record.slot], record.id)
        for record in index.records
        if record.role is Role.WEIGHT_GRAD and record.phase is Phase.UPDATE
        if record.value is not None and (record.module, record.slot) in raw
    ]
