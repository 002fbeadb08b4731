"""Whether both sides are attentions of the same queries, keys and values, and what differs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from .cause import Cause, CauseName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import JSON

    from .contrast import Contrast

__all__ = ["attention"]

MOST_SCORES = 1 << 22
"""Attention scores that are recomputed at most."""
USUAL_HEADS = (1, 2, 4, 8, 12, 16)
SEQUENCE = 3
"""Axes of a sequence of features: batch, token, feature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """One way to mix values by queries and keys."""

    scale: float
    mask: str = "none"
    axis: int = -1
    order: tuple[int, int, int] = (0, 1, 2)
    """Which of the three tensors are queries, keys and values."""


def attention(
    sides: Contrast, ingredients: Sequence[tuple[str, Array]], heads: int | None
) -> Cause | None:
    """See whether both sides are attentions of three of the tensors at hand.

    Args:
        sides: What diverged: shape (batch, token, feature), heads side by side.
        ingredients: What was at hand, by name, in execution order.
        heads: Number of heads, None if unknown: then the usual ones are tried.
    """
    shape = sides.reference.shape
    same = [one for one in ingredients if one[1].shape == shape]
    if len(shape) != SEQUENCE or len(same) < SEQUENCE:
        return None
    names = [name for name, _ in same[-SEQUENCE:]]
    for count in USUAL_HEADS if heads is None else (heads,):
        if shape[2] % count or shape[0] * count * shape[1] ** 2 > MOST_SCORES:
            continue
        parts = [_split(array, count) for _, array in same[-SEQUENCE:]]
        right = _find(sides.is_reference, parts, _usual(shape[2] // count))
        if right is not None:
            wrong = _find(sides.fits, parts, _unusual(right, shape[2] // count, shape[2]))
            return None if wrong is None else _cause(right, wrong, names)
    return None


def _cause(right: _Form, wrong: _Form, names: Sequence[str]) -> Cause:
    numbers: dict[str, JSON] = {
        "reference_scale": right.scale,
        "candidate_scale": wrong.scale,
        "reference_mask": right.mask,
        "candidate_mask": wrong.mask,
    }
    return Cause(name=CauseName.ATTENTION, text=_text(right, wrong, names), numbers=numbers)


def _split(array: Array, heads: int) -> Array:
    """Give (batch, heads, token, width)."""
    batch, length, width = array.shape
    return array.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def _usual(width: int) -> Iterator[_Form]:
    """Yield what a sound attention may be."""
    for order in permutations((0, 1, 2)):
        for mask in ("none", "causal"):
            for scale in (width**-0.5, 1.0):
                yield _Form(scale=scale, mask=mask, order=(order[0], order[1], order[2]))


def _unusual(right: _Form, width: int, features: int) -> Iterator[_Form]:
    """Yield what can be wrong with it, one thing at a time."""
    scales = (1.0, width**-0.5, 1 / width, features**-0.5, width**0.5, right.scale**2)
    yield from (replace(right, scale=scale) for scale in scales if scale != right.scale)
    yield from (replace(right, mask=mask) for mask in _MASKS if mask != right.mask)
    yield replace(right, axis=-2)
    one, two, three = right.order
    yield from (
        replace(right, order=order)
        for order in ((two, one, three), (one, three, two), (three, two, one))
    )


_MASKS = (
    "none",
    "causal",
    "causal without itself",
    "causal with the next",
    "anticausal",
    "hiding the last key",
    "hiding the first key",
)
_DIAGONALS: Mapping[str, int] = {
    "causal": 0,
    "causal without itself": -1,
    "causal with the next": 1,
}


def _mix(parts: Sequence[Array], form: _Form) -> Array:
    query, key, value = (parts[place] for place in form.order)
    scores = query @ key.swapaxes(2, 3) * form.scale
    length = scores.shape[-1]
    seen = np.ones((length, length), bool)
    if form.mask in _DIAGONALS:
        seen = np.tril(seen, _DIAGONALS[form.mask])
    elif form.mask == "anticausal":
        seen = np.triu(seen)
    elif form.mask.startswith("hiding"):
        seen[:, -1 if "last" in form.mask else 0] = False
    scores = np.where(seen, scores, -1e30)  # a row without any becomes even, as with finite masks
    powers = np.exp(scores - scores.max(axis=form.axis, keepdims=True))
    mixed = powers / powers.sum(axis=form.axis, keepdims=True) @ value
    batch, heads, tokens, width = mixed.shape
    result: Array = mixed.transpose(0, 2, 1, 3).reshape(batch, tokens, heads * width)
    return result


def _find(
    is_it: Callable[[Array], bool], parts: Sequence[Array], forms: Iterator[_Form]
) -> _Form | None:
    return next((form for form in forms if is_it(_mix(parts, form))), None)


def _text(right: _Form, wrong: _Form, names: Sequence[str]) -> str:
    """Say what differs."""
    of = ", ".join(names[place] for place in right.order)
    text = f"both are attentions of {of}: "
    if right.scale != wrong.scale:
        scales = _number(right.scale), _number(wrong.scale)
        return f"{text}scale {scales[0]} on the reference, {scales[1]} on the candidate"
    if right.mask != wrong.mask:
        return f"{text}mask {right.mask} on the reference, {wrong.mask} on the candidate"
    if right.axis != wrong.axis:
        return f"{text}the candidate's softmax runs over the queries, not the keys"
    given = ", ".join(names[place] for place in wrong.order)
    return f"{text}the candidate takes {given} as queries, keys and values"


def _number(scale: float) -> str:
    square = scale**-2
    near = round(square)
    if near > 1 and math.isclose(square, near, rel_tol=1e-9):
        return f"{scale:.4g} (1/sqrt({near}))"
    return f"{scale:.4g}"
