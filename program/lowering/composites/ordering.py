"""Elements by their rank or by how often they occur, along one axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.program.primitives import Kind

from .shaping import move_axis, narrow, positions, unsqueeze

if TYPE_CHECKING:
    from padiff.program.lowering.builder import Builder, Term


def at_rank(b: Builder, x: Term, axis: int, rank: int) -> list[Term]:
    """Return the elements that a sort puts at a rank, and their places; the axis has size one."""
    parts = b.many("sort", x, axis=axis, descending=False)
    return [narrow(b, part, axis, rank, rank + 1) for part in parts]


def mode(b: Builder, x: Term, axis: int) -> list[Term]:
    """Return the most frequent element, the smallest of several, and its last place."""
    x = move_axis(b, x, [axis], [x.ndim - 1])
    size = x.shape[-1]
    same = b("equal", unsqueeze(b, x, x.ndim), unsqueeze(b, x, x.ndim - 1))
    often = b("sum", same, axes=(same.ndim - 1,), keepdims=False)
    most = b("equal", often, b("amax", often, axes=(often.ndim - 1,), keepdims=True))
    best = b("where", most, x, math.inf if x.kind is Kind.FLOAT else 2**62)
    value = b("amin", best, axes=(x.ndim - 1,), keepdims=True)
    places = b("where", b("equal", x, value), positions(b, size, x.ndim, x.ndim - 1), -1)
    place = b("amax", places, axes=(x.ndim - 1,), keepdims=True)
    return [move_axis(b, part, [x.ndim - 1], [axis]) for part in (value, place)]
