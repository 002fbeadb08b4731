"""Scaled dot-product attention in all its forms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.program.primitives import Kind

from .shaping import as_float, positions, repeat_each, swap

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.program.lowering.builder import Builder, Term


def causal_mask(b: Builder, rows: int, columns: int) -> Term:
    """Return where a row may look: at columns up to its own position."""
    return positions(b, columns, 2, 1) <= positions(b, rows, 2, 0)


def masked_scores(b: Builder, scores: Term, mask: Term | None) -> Term:
    """Add a mask of floats, or put -inf where a mask of bools is False."""
    if mask is None:
        return scores
    if mask.kind is Kind.BOOL:
        return b("where", mask, scores, -math.inf)
    return scores + mask


def safe_softmax(b: Builder, scores: Term) -> Term:
    """Compute softmax over the last axis; rows that are masked throughout become zeros."""
    axis = scores.ndim - 1
    weights = b("softmax", scores, axis=axis)
    empty = b("all", b("equal", scores, -math.inf), axes=(axis,), keepdims=True)
    return b("where", empty, 0.0, weights)


def attention(
    b: Builder,
    operands: tuple[Term, Term, Term],
    mask: Term | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    grouped: bool = False,
    drop: Callable[[Term], Term] = lambda weights: weights,
) -> Term:
    """Attend; axes (…, head, position, feature).

    Args:
        b: The builder.
        operands: Queries, keys and values.
        mask: Bools (where to look) or floats to add; broadcast to (…, query, key).
        causal: Whether a query sees keys up to its own position only, counted from the start.
        scale: None for one over the root of the features.
        grouped: Whether fewer heads of keys serve several heads of queries.
        drop: Drops some of the weights.
    """
    query, key, value = operands
    if grouped and query.shape[-3] != key.shape[-3]:
        axis, count = query.ndim - 3, query.shape[-3] // key.shape[-3]
        key, value = (repeat_each(b, each, count, axis) for each in (key, value))
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    scores = (query @ swap(b, key, -1, -2)) * factor
    if causal:
        scores = masked_scores(b, scores, causal_mask(b, query.shape[-2], key.shape[-2]))
    scores = masked_scores(b, scores, mask)
    weights = safe_softmax(b, scores) if causal or mask is not None else None
    if weights is None:
        weights = b("softmax", scores, axis=scores.ndim - 1)
    return drop(weights) @ as_float(b, value)
