"""Whether both sides are attentions of the same queries, keys and values, and what differs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain, permutations, product
from typing import TYPE_CHECKING

import numpy as np

from .attentionforms import Form, Heads, Turn, mix
from .attentionparts import BASES, SEQUENCE, candidates
from .cause import Cause, CauseName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.dumpfile import JSON

    from .attentionparts import Packed
    from .contrast import Contrast
    from .layercauses import Layer

__all__ = ["attention"]

MOST_SCORES = 1 << 22
"""Attention scores that are recomputed at most for all of a tensor."""
TOKENS = 16
"""Tokens, nearly, on which a form is tried first."""
ROUNDING = 1e-9
"""Of two sums over the same elements."""
_MASKS = (
    "none",
    "causal",
    "causal without itself",
    "causal with the next",
    "anticausal",
    "hiding the last key",
    "hiding the first key",
)
_BAND = "causal over {} tokens"
_CAPS = (20.0, 30.0, 50.0)
"""Of the scores of models in use (Gemma 2: 50, Grok 1: 30)."""


def attention(
    sides: Contrast,
    ingredients: Sequence[tuple[str, Array]],
    layer: Layer | None,
    packed: Packed | None = None,
) -> Cause | None:
    """See whether both sides are attentions of the same tensors at hand.

    Args:
        sides: What diverged: shape (batch, token, feature), heads side by side.
        ingredients: What was at hand, by name, in execution order.
        layer: The module whose code made it; without one the usual numbers of heads are tried.
        packed: The weights of projections that are no calls.
    """
    looked_at = sum(array.size for _, array in ingredients)  # for masks and rotations
    if len(sides.reference.shape) != SEQUENCE or not sides.budget.grants(looked_at // 4):
        return None
    found = candidates(sides.reference.shape, ingredients, layer, packed)
    trials = [_Trial.of(sides, heads) for heads in found if _scores(heads) <= MOST_SCORES]
    for usual, trial in product((_usual, _usual_turned), trials):
        ways = ((trial.heads, form) for form in usual(trial.heads, layer))
        right = trial.first(ways, sides.reference)
        if right is not None:
            others = chain(_wrong(*right), _otherwise_banded(*right, layer))
            wrong = trial.first(others, sides.candidate)
            return None if wrong is None else _cause(trial.heads, right[1], wrong)
    return None


def _scores(heads: Heads, rows: int | None = None) -> int:
    """Count the scores of some tokens, or of all."""
    batch, count, tokens, _ = heads.parts[0].shape
    return int(batch * count * (rows or tokens) * heads.parts[1].shape[2])


_Way = tuple[Heads, Form]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """Tries forms on some tokens of an entry of the batch, then on all of that, then on all.

    What is off on a part by more than the whole may be is so in all: nothing that fits is missed.
    """

    sides: Contrast
    heads: Heads
    entry: Contrast
    """The one that is most off."""
    only: Heads
    """What is mixed for it."""
    rows: Array
    """Tokens that are tried first."""
    head: int
    """The one most off, which is tried before the others."""

    @classmethod
    def of(cls, sides: Contrast, heads: Heads) -> _Trial:
        """Choose entry and tokens."""
        entry, only = _one_entry(sides, heads)
        tokens = heads.parts[0].shape[2]
        away = np.abs(entry.candidate - entry.reference)
        worst = away.sum(axis=(1, 2) if heads.is_turned else (0, 2)).argmax()
        rows = np.unique([*range(0, tokens, -(-tokens // TOKENS)), int(worst), tokens - 1])
        by_head = away.sum(axis=(0, 1)).reshape(heads.parts[0].shape[1], -1).sum(axis=1)
        head = int(by_head.argmax())
        return cls(sides=sides, heads=heads, entry=entry, only=only, rows=rows, head=head)

    def first(self, ways: Iterable[_Way], side: Array) -> _Way | None:
        """Give the first way that makes one side.

        Args:
            ways: What is tried.
            side: ``reference`` or ``candidate`` of what diverged.
        """
        return next((way for way in ways if self._makes(way, side)), None)

    def _makes(self, way: _Way, side: Array) -> bool:
        heads, form = way
        only = replace(self.only, turns=heads.turns)
        own = self.entry.reference if side is self.sides.reference else self.entry.candidate
        if not self._may_make(only, form, own):
            return False
        if not self._grants(only) or not self.entry.is_side(mix(only, form), own):
            return False
        if self.heads.parts[0].shape[0] == 1:
            return True
        return self._grants(heads) and self.sides.is_side(mix(heads, form), side)

    def _may_make(self, only: Heads, form: Form, own: Array) -> bool:
        """Tell from some tokens, first of one head, whether a form may make a side of the entry."""
        count, tokens, width = only.parts[0].shape[1:]
        if not form.is_by_rows or len(self.rows) * 2 > tokens:
            return True
        few = own[self.rows] if only.is_turned else own[:, self.rows]
        parts = [(only, few)]
        if only.weight is None and not (only.is_grouped or form.heads or count == 1):
            features = slice(self.head * width, (self.head + 1) * width)
            parts.insert(0, (_of_head(only, self.head), few[..., features]))
        for heads, wanted in parts:
            if not self._grants(heads, len(self.rows)):
                return False
            off = float(np.linalg.norm((mix(heads, form, self.rows) - wanted).ravel()))
            if off > self.entry.limit * (1 + ROUNDING):
                return False
        return True

    def _grants(self, heads: Heads, rows: int | None = None) -> bool:
        return self.sides.budget.grants(_scores(heads, rows))


def _of_head(heads: Heads, head: int) -> Heads:
    """Give one head of several."""
    count = heads.parts[0].shape[1]
    one = slice(head, head + 1)
    query, key, value = (part[:, one] for part in heads.parts)
    masks = {
        name: mask[:, one] if mask.ndim > 3 and mask.shape[1] == count else mask  # noqa: PLR2004
        for name, mask in heads.masks.items()
    }
    return replace(heads, parts=(query, key, value), masks=masks)


def _one_entry(sides: Contrast, heads: Heads) -> tuple[Contrast, Heads]:
    """Give the entry of the batch that is most off: forms are tried on it first."""
    axis = 1 if heads.is_turned else 0
    away = np.abs(sides.candidate - sides.reference)
    worst = int(away.sum(axis=tuple(a for a in range(away.ndim) if a != axis)).argmax())
    entry = (slice(None),) * axis + (slice(worst, worst + 1),)
    batch = heads.parts[0].shape[0]
    masks = {
        name: mask[worst : worst + 1] if mask.ndim > 3 and mask.shape[0] == batch else mask  # noqa: PLR2004
        for name, mask in heads.masks.items()
    }
    query, key, value = (part[worst : worst + 1] for part in heads.parts)
    part = replace(sides, reference=sides.reference[entry], candidate=sides.candidate[entry])
    return part, replace(heads, parts=(query, key, value), masks=masks)


def _usual(heads: Heads, layer: Layer | None) -> Iterator[Form]:
    """Yield what a sound attention may be, without rotations."""
    orders: list[tuple[int, int, int]] = [(0, 1, 2)]
    if len({part.shape for part in heads.parts}) == 1 and heads.weight is None:
        orders = [(one, two, three) for one, two, three in permutations((0, 1, 2))]
    for form, order in product(_plain(heads, layer), orders):
        yield replace(form, order=order)


def _usual_turned(heads: Heads, layer: Layer | None) -> Iterator[Form]:
    """Yield what a sound attention may be, with rotations."""
    forms = _plain(heads, layer)
    for turn, form in product(heads.turns, forms):
        yield replace(form, turn=turn)


def _plain(heads: Heads, layer: Layer | None) -> list[Form]:
    """Give the caps, masks and scales that are usual, or that settings tell."""
    told = {} if layer is None else layer.reference
    width = heads.parts[0].shape[3]
    scales = dict.fromkeys((width**-0.5, 1.0, _number_of(told, "scaling") or 1.0))
    caps = dict.fromkeys((_number_of(told, "attn_logit_softcapping") or 0.0, 0.0))
    masks: list[str] = [*heads.masks, "none", "causal"]
    window = _window(heads, layer)
    if window:
        masks.append(_BAND.format(window))
    ways = product(caps, masks, scales)
    return [Form(scale=scale, mask=mask, cap=cap) for cap, mask, scale in ways]


def _window(heads: Heads, layer: Layer | None) -> int:
    """Give over how many tokens queries see keys, by the settings or a recorded mask; 0 if all."""
    told = _number_of({} if layer is None else layer.reference, "sliding_window") or 0
    length = heads.parts[1].shape[2]
    for mask in heads.masks.values():
        seen = mask.reshape(-1, *mask.shape[-2:])[0] == 0
        told = int(seen.sum(axis=1).max()) if seen.shape == (length, length) else told
    return int(told) if 1 < told < length else 0


def _otherwise_banded(heads: Heads, right: Form, layer: Layer | None) -> Iterator[_Way]:
    """Yield windows that are one token too narrow or too wide."""
    window = _window(heads, layer)
    for other in (window - 1, window + 1) if window else ():
        yield heads, replace(right, mask=_BAND.format(other))


def _number_of(told: Mapping[str, JSON], name: str) -> float | None:
    value = told.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _wrong(heads: Heads, right: Form) -> Iterator[_Way]:
    """Yield what can be wrong with a form, one thing at a time."""
    _, count, _, width = heads.parts[0].shape
    features = count * width
    scales = [1.0, width**-0.5, 1 / width, features**-0.5, width**0.5, right.scale**2]
    scales += [right.scale * 2.0 ** (power / 2) for power in range(-6, 7)]
    yield from ((heads, replace(right, scale=one)) for one in scales if one != right.scale)
    yield from ((heads, replace(right, mask=one)) for one in _MASKS if one != right.mask)
    yield from ((heads, replace(right, cap=one)) for one in (0.0, *_CAPS) if one != right.cap)
    yield heads, replace(right, axis=-2)
    yield heads, replace(right, is_unmoved=True)
    if heads.is_grouped:
        yield heads, replace(right, is_tiled=True)
    if len({part.shape for part in heads.parts}) == 1:
        one, two, three = right.order
        for order in ((two, one, three), (one, three, two), (three, two, one)):
            yield heads, replace(right, order=order)
    if not heads.is_grouped:
        yield from _otherwise_split(heads, right)
    yield from _otherwise_turned(heads, right)


def _otherwise_split(heads: Heads, right: Form) -> Iterator[_Way]:
    _, count, _, width = heads.parts[0].shape
    features = count * width
    for other in range(1, features + 1):
        if features % other or other == count:
            continue
        scale = right.scale * math.sqrt(other / count)
        for one in dict.fromkeys((scale, right.scale)):
            yield heads, replace(right, heads=other, scale=one)


def _otherwise_turned(heads: Heads, right: Form) -> Iterator[_Way]:
    """Yield other rotations: none, of other pairs, positions, directions, bases."""
    turn = heads.turns.get(right.turn)
    if turn is None:
        return
    half = turn.angles.shape[1]
    steps = turn.angles[1] - turn.angles[0] if len(turn.angles) > 1 else turn.angles[0]
    places = np.arange(len(turn.angles))[:, None]
    others: dict[str, Turn | None] = {
        "not at all": None,
        "in pairs" if not turn.is_paired else "by halves": replace(
            turn, is_paired=not turn.is_paired
        ),
        "by positions one higher": replace(turn, angles=turn.angles + steps),
        "by positions one lower": replace(turn, angles=turn.angles - steps),
        "the other way round": replace(turn, angles=-turn.angles),
        "queries alone": replace(turn, of_keys=False),
        "keys alone": replace(turn, of_queries=False),
        **{
            f"with base {base:.6g}": replace(
                turn, angles=places * base ** -(np.arange(half) / half)
            )
            for base in BASES
        },
    }
    for name, other in others.items():
        turns = {right.turn: turn} if other is None else {name: other}
        yield replace(heads, turns=turns), replace(right, turn="" if other is None else name)


def _cause(heads: Heads, right: Form, way: _Way) -> Cause:
    wrong = way[1]
    numbers: dict[str, JSON] = {
        "reference_scale": right.scale,
        "candidate_scale": wrong.scale,
        "reference_mask": right.mask,
        "candidate_mask": wrong.mask,
    }
    of = dict.fromkeys(heads.names[place] for place in right.order)
    text = f"both are attentions of {', '.join(of)}: {_difference(heads, right, wrong)}"
    return Cause(name=CauseName.ATTENTION, text=text, numbers=numbers)


def _difference(heads: Heads, right: Form, wrong: Form) -> str:
    """Say what differs."""
    own = heads.parts[0].shape[1]
    wholes = {
        wrong.heads: f"{own} heads on the reference, {wrong.heads} on the candidate",
        wrong.is_unmoved: "the candidate does not move the heads back behind the tokens",
        wrong.is_tiled: "the candidate repeats shared keys and values as a whole (tile), not each "
        "for the queries of its group (repeat_interleave)",
        right.axis != wrong.axis: "the candidate's softmax runs over the queries, not the keys",
    }
    told = next((text for is_it, text in wholes.items() if is_it), "")
    if told:
        return told
    sides = "{} on the reference, {} on the candidate"
    if right.turn != wrong.turn:
        ends = right.turn or "not at all", wrong.turn or "not at all"
        return (
            f"queries and keys are rotated {ends[0]} on the reference, {ends[1]} on the candidate"
        )
    if right.cap != wrong.cap:
        caps = (f"capped at {cap:g}" if cap else "not capped" for cap in (right.cap, wrong.cap))
        return f"scores are {sides.format(*caps)}"
    if right.scale != wrong.scale:
        return f"scale {sides.format(_number(right.scale), _number(wrong.scale))}"
    if right.mask != wrong.mask:
        return f"mask {sides.format(right.mask, wrong.mask)}"
    given = ", ".join(heads.names[place] for place in wrong.order)
    return f"the candidate takes {given} as queries, keys and values"


def _number(scale: float) -> str:
    square = scale**-2 if scale else math.inf
    near = round(square) if math.isfinite(square) else 0
    if near > 1 and math.isclose(square, near, rel_tol=1e-9):
        return f"{scale:.4g} (1/sqrt({near}))"
    return f"{scale:.4g}"
