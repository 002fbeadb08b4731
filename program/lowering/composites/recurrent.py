"""Recurrent networks of all frameworks: layers, directions and cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.program.lowering.builder import NotLoweredError
from padiff.program.primitives import Kind

from .activations import dropout
from .shaping import filled, reshape, split, stack, swap, unbind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.program.lowering.builder import Builder, Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights and biases of one layer and direction; biases may be absent."""

    inputs: Term
    states: Term
    input_bias: Term | None = None
    state_bias: Term | None = None


def layers(  # noqa: PLR0913
    b: Builder,
    x: Term,
    states: Sequence[Term],
    weights: Sequence[Weights],
    *,
    mode: str,
    directions: int,
    lengths: Term | None = None,
    drop: Callable[[Term, int], Term] = lambda x, _: x,
) -> tuple[Term, ...]:
    """Run all layers; axes (time, batch, feature), states (layer · direction, batch, hidden).

    Args:
        b: What builds.
        x: The values of the sequence.
        states: The first states: one, or two of an LSTM.
        weights: Of all layers and directions.
        mode: Which kind of cell.
        directions: One or two.
        lengths: How long each row is; None if all are as long.
        drop: Drops elements of what a layer hands to the next, by the number of the layer.

    Returns:
        The values of the last layer, and the last states of all.
    """
    if lengths is None:
        lengths = filled(b, (x.shape[1],), x.shape[0], Kind.INT)
    starts = [unbind(b, state, 0) for state in states]
    last: list[list[Term]] = [[] for _ in states]
    for layer in range(len(weights) // directions):
        parts = []
        for direction in range(directions):
            index = layer * directions + direction
            first = [each[index] for each in starts]
            result = _layer(b, x, lengths, first, weights[index], mode, reverse=direction == 1)
            parts.append(result[0])
            for states_, state in zip(last, result[1:], strict=True):
                states_.append(state)
        x = parts[0] if directions == 1 else b("concat", *parts, axis=2)
        x = drop(x, layer) if layer + 1 < len(weights) // directions else x
    return x, *(stack(b, states_, 0) for states_ in last)


def dropping(b: Builder, drawn: Term | None, share: float) -> Callable[[Term, int], Term]:
    """Return what drops elements between layers.

    Args:
        b: What builds.
        drawn: Which elements are kept, of several borders of layers behind each other on one more
            axis in front; None if nobody knows.
        share: Of the elements that are dropped.
    """

    def drop(x: Term, layer: int) -> Term:
        if not share:
            return x
        kept = drawn
        if kept is not None and kept.ndim > x.ndim:
            kept = unbind(b, kept, 0)[layer]
        if kept is not None and kept.shape != x.shape:
            raise NotLoweredError("elements are drawn in another form")
        return dropout(b, x, kept, share)

    return drop


def packed(b: Builder, x: Term, counts: Sequence[int]) -> Term:
    """Return the rows that go on in each step behind each other; axes (time, batch, ...).

    Args:
        b: What builds.
        x: Rows of several lengths, the longest first.
        counts: How many rows go on in each step.
    """
    batch = x.shape[1]
    places = [step * batch + row for step, count in enumerate(counts) for row in range(count)]
    rows = reshape(b, x, (x.shape[0] * batch, *x.shape[2:]))
    return b("take", rows, b.literal(np.array(places, np.int64)), axis=0)


def padded(
    b: Builder, x: Term, counts: Sequence[int], *, total: int | None = None, fill: float = 0.0
) -> Term:
    """Return what ``packed`` makes where it was; axes (time, batch, ...).

    Args:
        b: What builds.
        x: Rows behind each other.
        counts: How many of them go on in each step.
        total: How many steps there are with those in which none goes on.
        fill: What stands where a row is over.
    """
    batch, steps = counts[0], len(counts) if total is None else total
    starts = np.cumsum([0, *counts])
    places = np.full((steps, batch), x.shape[0], np.int64)
    for step, count in enumerate(counts):
        places[step, :count] = starts[step] + np.arange(count)
    over = filled(b, (1, *x.shape[1:]), fill, x.kind)
    rows = b("concat", x, over, axis=0)
    taken = b("take", rows, b.literal(places.reshape(-1)), axis=0)
    return reshape(b, taken, (steps, batch, *x.shape[1:]))


def _layer(
    b: Builder,
    x: Term,
    lengths: Term,
    first: list[Term],
    weights: Weights,
    mode: str,
    *,
    reverse: bool,
) -> tuple[Term, ...]:
    zero = filled(b, (weights.inputs.shape[0],), 0.0, Kind.FLOAT)
    biases = [zero if bias is None else bias for bias in (weights.input_bias, weights.state_bias)]
    matrices = (weights.inputs, weights.states)
    return b.many("recurrent", x, lengths, *first, *matrices, *biases, mode=mode, reverse=reverse)


def cell(b: Builder, x: Term, states: Sequence[Term], weights: Weights, mode: str) -> list[Term]:
    """Run one step; axes (batch, feature), or (feature) alone."""
    single = x.ndim == 1
    if single:
        x = reshape(b, x, (1, -1))
        states = [reshape(b, state, (1, -1)) for state in states]
    inner = x @ swap(b, weights.inputs, 0, 1)
    outer = states[0] @ swap(b, weights.states, 0, 1)
    if weights.input_bias is not None:
        inner = inner + weights.input_bias
    if weights.state_bias is not None:
        outer = outer + weights.state_bias
    result = _STEPS[mode](b, inner, outer, states)
    return [reshape(b, each, (-1,)) for each in result] if single else result


def _gates(b: Builder, x: Term, count: int) -> list[Term]:
    return split(b, x, 1, [x.shape[1] // count] * count)


def _lstm(b: Builder, inner: Term, outer: Term, states: Sequence[Term]) -> list[Term]:
    enter, forget, fresh, leave = _gates(b, inner + outer, 4)
    memory = b("sigmoid", forget) * states[1] + b("sigmoid", enter) * b("tanh", fresh)
    return [b("sigmoid", leave) * b("tanh", memory), memory]


def _gru(b: Builder, inner: Term, outer: Term, states: Sequence[Term]) -> list[Term]:
    i, h = _gates(b, inner, 3), _gates(b, outer, 3)
    reset, update = b("sigmoid", i[0] + h[0]), b("sigmoid", i[1] + h[1])
    fresh = b("tanh", i[2] + reset * h[2])
    return [(1.0 - update) * fresh + update * states[0]]


def _tanh(b: Builder, inner: Term, outer: Term, _: Sequence[Term]) -> list[Term]:
    return [b("tanh", inner + outer)]


def _relu(b: Builder, inner: Term, outer: Term, _: Sequence[Term]) -> list[Term]:
    return [b("maximum", inner + outer, 0.0)]


_STEPS = {"lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu}
