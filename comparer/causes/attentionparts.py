"""Find the queries, keys and values among what was at hand: apart, fused, or still to be made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from .attentionforms import Heads, Turn, split_heads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.comparer.judging.blocks import Array

    from .layercauses import Layer

__all__ = ["BASES", "SEQUENCE", "Packed", "candidates"]

USUAL_HEADS = (1, 2, 4, 8, 12, 16)
SEQUENCE = 3
"""Axes of a sequence of features: batch, token, feature."""
BASES = (10_000.0, 100_000.0, 500_000.0, 1_000_000.0)
"""Of the rotations that models in use have."""
SHARES = (1, 2, 4)
"""Of the features of a head, what part is rotated: all, half, a quarter."""
_ANGLE = 1e-3
"""How far an angle of a table may be from what a base gives, and squares from one."""
LEAST_HIDDEN = -1e3
"""A mask hides by adding no more than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """An attention whose projections are no calls: torch's ``MultiheadAttention``."""

    weight: Array
    """Shape (3 * feature, feature)."""
    bias: Array | None
    out_weight: Array
    out_bias: Array | None
    is_batch_first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the settings of a module say of its attention."""

    heads: tuple[int, ...]
    width: int = 0
    names: frozenset[str] = field(default_factory=frozenset)


def candidates(
    shape: tuple[int, ...],
    ingredients: Sequence[tuple[str, Array]],
    layer: Layer | None,
    packed: Packed | None = None,
) -> Iterator[Heads]:
    """Yield what a tensor may be an attention of.

    Args:
        shape: Of the tensor.
        ingredients: What was at hand, by name, in execution order.
        layer: The module whose code made it, if known.
        packed: The weights of its projections, where no calls made them.
    """
    if len(shape) != SEQUENCE:
        return
    known = _known(layer, shape[2])
    masks = _masks(ingredients, shape[1])
    turns = tuple(_tables(ingredients, shape[1]))
    sources = [one for one in ingredients if one[1].ndim in {SEQUENCE, SEQUENCE + 1}]
    found = _of_packed(shape, sources, packed, known) if packed else _apart(shape, sources, known)
    for heads in found:
        width = heads.parts[0].shape[3]
        lengths = [part.shape[2] for part in heads.parts]
        if lengths[0] != shape[0 if heads.is_turned else 1] or lengths[1] != lengths[2]:
            continue
        is_self = lengths[0] == lengths[1]
        usual = _usual_turns(lengths[0], width) if is_self and packed is None else {}
        recorded = [_named(one, usual) for one in turns if 2 * one[1].angles.shape[1] <= width]
        scores = (*heads.parts[0].shape[:3], lengths[1])
        fitting = {name: mask for name, mask in masks.items() if _spreads(mask.shape, scores)}
        yield replace(heads, masks=fitting, turns=dict(recorded) if usual and recorded else usual)


def _known(layer: Layer | None, features: int) -> _Known:
    told = {} if layer is None else layer.reference
    width = told.get("head_dim")
    heads = None if layer is None else layer.heads
    if isinstance(width, int) and not isinstance(width, bool) and width > 0:
        return _Known(heads=(features // width,), width=width)
    if heads:
        return _Known(heads=(heads,))
    return _Known(heads=tuple(count for count in USUAL_HEADS if features % count == 0))


def _apart(
    shape: tuple[int, ...], sources: Sequence[tuple[str, Array]], known: _Known
) -> Iterator[Heads]:
    """Yield three tensors that are queries, keys and values, then one that holds all."""
    batch, _, features = shape
    for count in known.heads:
        if features % count:
            continue
        width = features // count
        split = [(name, _split(array, batch, width)) for name, array in sources]
        fitting = [(name, array) for name, array in split if array is not None]
        last = fitting[-SEQUENCE:]
        for three in _threes(last, count):
            yield _heads(three, shape)
        for name, array in reversed(sources):
            for parts in _fused(array, shape, count, width):
                yield Heads(parts=parts, names=_parts_of(name), shape=shape)


def _parts_of(name: str) -> tuple[str, str, str]:
    return f"queries of {name}", f"keys of {name}", f"values of {name}"


def _threes(
    last: Sequence[tuple[str, Array]], count: int
) -> Iterator[tuple[tuple[str, Array], ...]]:
    """Yield queries, keys and values, in this order where numbers of heads tell."""
    if len(last) < SEQUENCE:
        return
    full = [one for one in last if one[1].shape[1] == count]
    fewer = [one for one in last if one[1].shape[1] < count]
    if len(full) == SEQUENCE:
        yield tuple(full)
    for first in full if len(fewer) == SEQUENCE - 1 else ():
        if fewer[0][1].shape == fewer[1][1].shape and count % fewer[0][1].shape[1] == 0:
            yield (first, *fewer)
            yield (first, *fewer[::-1])


def _heads(three: Sequence[tuple[str, Array]], shape: tuple[int, ...]) -> Heads:
    return Heads(
        parts=(three[0][1], three[1][1], three[2][1]),
        names=(three[0][0], three[1][0], three[2][0]),
        shape=shape,
    )


def _split(array: Array, batch: int, width: int) -> Array | None:
    """Give (batch, heads, token, width) of what is one of three tensors; None if it is not."""
    if array.shape[0] != batch:
        return None
    if array.ndim == SEQUENCE:
        return split_heads(array, array.shape[2] // width) if array.shape[2] % width == 0 else None
    return array.transpose(0, 2, 1, 3) if array.shape[3] == width else None


def _fused(
    array: Array, shape: tuple[int, ...], count: int, width: int
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield queries, keys and values of one tensor that holds them: as blocks, or by groups."""
    if array.ndim != SEQUENCE or array.shape[:2] != shape[:2] or array.shape[2] % width:
        return
    rest = array.shape[2] // width - count
    if rest < 2 or rest % 2 or count % (rest // 2):  # noqa: PLR2004
        return
    groups = rest // 2
    heads = split_heads(array, count + rest)
    yield heads[:, :count], heads[:, count : count + groups], heads[:, count + groups :]
    batch, tokens = shape[:2]
    split = array.reshape(batch, tokens, groups, count // groups + 2, width)
    moved = split.transpose(0, 2, 3, 1, 4)
    query = moved[:, :, :-2].reshape(batch, count, tokens, width)
    yield query, moved[:, :, -2], moved[:, :, -1]


def _of_packed(
    shape: tuple[int, ...],
    sources: Sequence[tuple[str, Array]],
    packed: Packed,
    known: _Known,
) -> Iterator[Heads]:
    """Yield what projections make of the inputs of a module that calls none."""
    features = packed.weight.shape[1]
    given = [one for one in sources if one[1].ndim == SEQUENCE and one[1].shape[2] == features]
    given = given[:SEQUENCE] if len(given) >= SEQUENCE else given[:1] * SEQUENCE
    if not given or packed.weight.shape[0] != SEQUENCE * features:
        return
    rows = np.split(packed.weight, SEQUENCE)
    biases = [None] * SEQUENCE if packed.bias is None else np.split(packed.bias, SEQUENCE)
    parts = []
    for (_, array), matrix, vector in zip(given, rows, biases, strict=True):
        made = array @ matrix.T
        made = made if vector is None else made + vector
        parts.append(made if packed.is_batch_first else made.swapaxes(0, 1))
    names = given[0][0], given[1][0], given[2][0]
    for is_turned in (False, True):
        batch, tokens = parts[0].shape[:2]
        made_shape = (tokens, batch) if is_turned else (batch, tokens)
        if made_shape != shape[:2]:
            continue
        for count in known.heads:
            three = [split_heads(part, count) for part in parts if features % count == 0]
            if three:
                yield Heads(
                    parts=(three[0], three[1], three[2]),
                    names=names,
                    shape=shape,
                    is_turned=is_turned,
                    weight=packed.out_weight,
                    bias=packed.out_bias,
                )


def _masks(ingredients: Sequence[tuple[str, Array]], tokens: int) -> dict[str, Array]:
    """Give what was at hand that may be added to scores: 0 where seen, far below where hidden."""
    found = {}
    for name, array in ingredients:
        if array.ndim >= 2 and array.shape[-2] in {1, tokens} and array.ndim <= SEQUENCE + 1:  # noqa: PLR2004
            is_mask = bool(((array == 0) | (array <= LEAST_HIDDEN)).all()) and bool(array.any())
            if is_mask:
                found[name] = array if array.ndim != SEQUENCE else array[:, None]
    return found


def _spreads(shape: tuple[int, ...], scores: tuple[int, ...]) -> bool:
    """Tell whether a mask can be added to scores of shape (batch, heads, token, token)."""
    ends = scores[len(scores) - len(shape) :]
    return shape[-1] == ends[-1] and all(
        one in {1, two} for one, two in zip(shape, ends, strict=True)
    )


def _tables(ingredients: Sequence[tuple[str, Array]], tokens: int) -> Iterator[tuple[str, Turn]]:
    """Yield the rotations that two tables of cosines and sines at hand say."""
    flat = []
    for name, array in ingredients:
        if array.ndim >= 2 and array.shape[-2] == tokens and np.abs(array).max() <= 1 + _ANGLE:  # noqa: PLR2004
            rows = array.reshape(-1, *array.shape[-2:])
            if (rows == rows[:1]).all():
                flat.append((name, rows[0]))
    for (_, cos), (_, sin) in combinations(flat, 2):
        if cos.shape != sin.shape or np.abs(cos**2 + sin**2 - 1).max() > _ANGLE:
            continue
        angles, half = np.arctan2(sin, cos), cos.shape[1] // 2
        if half and np.allclose(angles[:, :half], angles[:, half:], atol=_ANGLE):
            yield "by halves by the recorded tables", Turn(angles=angles[:, :half], is_paired=False)
        elif half and np.allclose(angles[:, ::2], angles[:, 1::2], atol=_ANGLE):
            yield "in pairs by the recorded tables", Turn(angles=angles[:, ::2], is_paired=True)
        else:
            yield "by halves by the recorded tables", Turn(angles=angles, is_paired=False)
            yield "in pairs by the recorded tables", Turn(angles=angles, is_paired=True)


def _named(one: tuple[str, Turn], usual: Mapping[str, Turn]) -> tuple[str, Turn]:
    """Name a rotation by its base where the tables are what one gives."""
    name, turn = one
    for known, other in usual.items():
        is_same = other.is_paired is turn.is_paired and other.angles.shape == turn.angles.shape
        if is_same and np.abs(np.exp(1j * other.angles) - np.exp(1j * turn.angles)).max() < _ANGLE:
            return known, turn
    return name, turn


def _usual_turns(tokens: int, width: int) -> Mapping[str, Turn]:
    found: dict[str, Turn] = {}
    for base in BASES:
        for share in SHARES:
            rotated = width // share
            if rotated < 2 or rotated % 2:  # noqa: PLR2004
                continue
            speeds = base ** -(np.arange(0, rotated, 2) / rotated)
            angles = np.arange(tokens)[:, None] * speeds
            part = "" if share == 1 else f" of {rotated} features"
            for words, is_paired in (("by halves", False), ("in pairs", True)):
                name = f"{words}{part} with base {base:.6g}"
                found[name] = Turn(angles=angles, is_paired=is_paired)
    return found
