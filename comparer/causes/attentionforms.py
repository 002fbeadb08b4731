"""Attention in numpy, in all the forms that models and their mistakes have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.comparer.judging.blocks import Array

__all__ = ["Form", "Heads", "Turn", "mix", "rotate", "split_heads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A rotation of queries and keys by their positions (RoFormer, arXiv 2104.09864)."""

    angles: Array
    """Shape (token, half of the features that are rotated), radians."""
    is_paired: bool
    """Whether neighbours are rotated together, not the first half with the second."""
    of_queries: bool = True
    of_keys: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Queries, keys and values, and what is done with what they are mixed to."""

    parts: tuple[Array, Array, Array]
    """Shapes (batch, heads, token, width); keys and values may have fewer heads."""
    names: tuple[str, str, str]
    shape: tuple[int, ...]
    """Of what is made of it: (batch, token, feature), or with the first two exchanged."""
    is_turned: bool = False
    """Whether the first two are exchanged."""
    weight: Array | None = None
    """Shape (feature out, feature in): of the projection behind."""
    bias: Array | None = None
    turns: Mapping[str, Turn] = field(default_factory=dict)
    """Rotations that may be meant, by what they are called."""
    masks: Mapping[str, Array] = field(default_factory=dict)
    """What may be added to the scores, by name."""

    @property
    def is_grouped(self) -> bool:
        """Tell whether several heads of queries share keys and values."""
        return bool(self.parts[0].shape[1] != self.parts[1].shape[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to mix values by queries and keys."""

    scale: float
    mask: str = "none"
    axis: int = -1
    order: tuple[int, int, int] = (0, 1, 2)
    """Which of the three tensors are queries, keys and values."""
    cap: float = 0.0
    """Scores are ``cap * tanh(score / cap)``; 0 leaves them."""
    turn: str = ""
    """Name of a rotation; none where empty."""
    is_tiled: bool = False
    """Whether shared keys are repeated as a whole, not each for its group."""
    is_unmoved: bool = False
    """Whether heads are laid side by side without moving them behind the tokens."""
    heads: int = 0
    """Number of heads; as given where 0."""

    @property
    def is_by_rows(self) -> bool:
        """Tell whether what a token gets depends on its own queries alone."""
        return self.axis == -1 and not self.is_unmoved


def split_heads(array: Array, heads: int) -> Array:
    """Give (batch, heads, token, width) of (batch, token, feature)."""
    batch, length, width = array.shape
    return array.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def rotate(array: Array, turn: Turn) -> Array:
    """Rotate (batch, heads, token, width) by the angles of its tokens."""
    half = turn.angles.shape[1]
    one, two = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if turn.is_paired
        else (slice(0, half), slice(half, 2 * half))
    )
    cos, sin = np.cos(turn.angles), np.sin(turn.angles)
    result: Array = array.copy()
    result[..., one] = array[..., one] * cos - array[..., two] * sin
    result[..., two] = array[..., two] * cos + array[..., one] * sin
    return result


def mix(heads: Heads, form: Form, rows: Array | None = None) -> Array:
    """Give what a form makes of queries, keys and values.

    Args:
        heads: These.
        form: How they are mixed.
        rows: Tokens that it is made for, if not for all; only of a form that goes by rows.

    Returns:
        An array of the shape that ``heads`` has to make, of the tokens asked for.
    """
    query, key, value = (_resplit(heads.parts[place], form.heads) for place in form.order)
    turn = heads.turns.get(form.turn)
    if turn is not None and 2 * turn.angles.shape[1] <= query.shape[-1]:  # other heads are narrower
        query = rotate(query, turn) if turn.of_queries else query
        key = rotate(key, turn) if turn.of_keys else key
    if query.shape[1] != key.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = (
            np.tile(one, (1, times, 1, 1)) if form.is_tiled else np.repeat(one, times, axis=1)
            for one in (key, value)
        )
    tokens = query.shape[2]
    query = query if rows is None else query[:, :, rows]
    scores = query @ key.swapaxes(2, 3)
    scores *= form.scale
    if form.cap:
        scores = form.cap * np.tanh(scores / form.cap)
    scores = _masked(scores, form.mask, heads.masks, np.arange(tokens) if rows is None else rows)
    scores -= scores.max(axis=form.axis, keepdims=True)
    powers = np.exp(scores, out=scores)
    powers /= powers.sum(axis=form.axis, keepdims=True)
    mixed = powers @ value
    batch, count, made, width = mixed.shape
    moved = mixed if form.is_unmoved else mixed.transpose(0, 2, 1, 3)
    result: Array = moved.reshape(batch, made, count * width)
    if heads.weight is not None:
        result = result @ heads.weight.T
        result = result if heads.bias is None else result + heads.bias
    return result.swapaxes(0, 1) if heads.is_turned else result


def _resplit(array: Array, heads: int) -> Array:
    if not heads or heads == array.shape[1]:
        return array
    batch, count, tokens, width = array.shape
    return split_heads(array.transpose(0, 2, 1, 3).reshape(batch, tokens, count * width), heads)


_DIAGONALS: Mapping[str, int] = {
    "causal": 0,
    "causal without itself": -1,
    "causal with the next": 1,
}


def _masked(scores: Array, mask: str, given: Mapping[str, Array], rows: Array) -> Array:
    """Hide scores, in place or not; a row without any becomes even, as with finite masks."""
    if mask in given:
        added = given[mask]
        added = added if added.shape[-2] == 1 else added[..., rows, :]
        return scores + np.maximum(added, -1e30)
    if mask == "none":
        return scores
    keys, own = np.arange(scores.shape[3]), rows[:, None]
    seen = np.ones(scores.shape[2:], bool)
    if mask in _DIAGONALS:
        seen = keys <= own + _DIAGONALS[mask]
    elif mask == "anticausal":
        seen = keys >= own
    elif mask.startswith("hiding"):
        seen[:, -1 if "last" in mask else 0] = False
    elif mask.startswith("causal over "):
        seen = (keys <= own) & (keys > own - int(mask.split()[2]))
    np.copyto(scores, -1e30, where=~seen)
    return scores
