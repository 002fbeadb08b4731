"""Recurrent layers of torch, and sequences of several lengths packed into one."""

from __future__ import annotations

from typing import Any

import numpy as np

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import recurrent as rnn
from padiff.program.lowering.composites import shaping as s
from padiff.program.lowering.rules import Arguments, Result, Row, Rule, row
from padiff.program.primitives import Kind


def _recurrent(mode: str) -> Rule:
    """Run all layers of an LSTM, GRU or plain network."""

    def rule(b: Builder, a: Arguments) -> Result:
        if _is_packed(a):
            return _of_packed(b, a, mode)
        x = s.swap(b, a.input, 0, 1) if a.batch_first else a.input
        states = list(a.hx) if mode == "lstm" else [a.hx]
        if x.ndim == 2:  # noqa: PLR2004
            raise NotLoweredError("a sequence without a batch")
        result = _layers(b, x, states, a, mode)
        values = s.swap(b, result[0], 0, 1) if a.batch_first else result[0]
        return [values, *result[1:]]

    return rule


def _is_packed(a: Arguments) -> bool:
    """Return whether how many rows each step has stands where the states stand otherwise."""
    return isinstance(a.hx, Term) and a.hx.kind is Kind.INT


def _of_packed(b: Builder, a: Arguments, mode: str) -> Result:
    """Run the layers over packed sequences, whose arguments stand in other places."""
    counts = _counts(b, a.hx)
    later = Arguments(
        {
            "params": a.has_biases,
            "has_biases": a.num_layers,
            "num_layers": a.dropout,
            "dropout": a.train,
            "train": a.bidirectional,
            "bidirectional": a.batch_first,
            "drawn": a.drawn,
        }
    )
    states = list(a.params) if mode == "lstm" else [a.params]
    result = _layers(b, rnn.padded(b, a.input, counts), states, later, mode, counts)
    return [rnn.packed(b, result[0], counts), *result[1:]]


def _layers(
    b: Builder,
    x: Term,
    states: list[Term],
    a: Arguments,
    mode: str,
    counts: list[int] | None = None,
) -> tuple[Term, ...]:
    return rnn.layers(
        b,
        x,
        states,
        _weights(a.params, biased=bool(a.has_biases)),
        mode=mode,
        directions=2 if a.bidirectional else 1,
        lengths=None if counts is None else b.literal(_lengths(counts)),
        drop=rnn.dropping(b, a.drawn, a.dropout if a.train else 0.0),
    )


def _counts(b: Builder, sizes: Term) -> list[int]:
    """Return how many rows go on in each step."""
    return [int(one) for one in b.static(sizes)]


def _lengths(counts: list[int]) -> Any:
    """Return how long each row is, the longest first."""
    return np.array([sum(count > row for count in counts) for row in range(counts[0])], np.int64)


def _pack(b: Builder, a: Arguments) -> Result:
    """Pack sequences whose lengths fall."""
    lengths = b.static(a.lengths)
    counts = [int((lengths > step).sum()) for step in range(int(lengths[0]))]
    x = s.swap(b, a.input, 0, 1) if a.batch_first else a.input
    return rnn.packed(b, x, counts), b.literal(np.array(counts, np.int64))


def _unpack(b: Builder, a: Arguments) -> Result:
    counts = _counts(b, a.batch_sizes)
    total = len(counts) if a.total_length is None or a.total_length < 0 else a.total_length
    x = rnn.padded(b, a.data, counts, total=total, fill=a.padding_value)
    lengths = b.literal(_lengths(counts))
    return s.swap(b, x, 0, 1) if a.batch_first else x, lengths


def _one_length(b: Builder, a: Arguments) -> Term:
    """Stack sequences, of which each is padded to the longest."""
    longest = max(one.shape[0] for one in a.sequences)
    parts = []
    for one in a.sequences:
        gap = longest - one.shape[0]
        ends = (gap, 0) if a.padding_side == "left" else (0, gap)
        widths = (ends, *((0, 0) for _ in one.shape[1:]))
        parts.append(b("pad", one, widths=widths, mode="constant", value=a.padding_value))
    return s.stack(b, parts, 0 if a.batch_first else 1)


def _weights(params: Any, *, biased: bool) -> list[rnn.Weights]:
    each = 4 if biased else 2
    if len(params) % each:
        raise NotLoweredError("projected states")
    result = []
    for start in range(0, len(params), each):
        part = params[start : start + each]
        biases = part[2:] if biased else (None, None)
        result.append(rnn.Weights(inputs=part[0], states=part[1], input_bias=biases[0],
                                  state_bias=biases[1]))  # fmt: skip
    return result


def _cell(mode: str) -> Rule:
    def rule(b: Builder, a: Arguments) -> Result:
        states = list(a.hx) if mode == "lstm" else [a.hx]
        weights = rnn.Weights(inputs=a.w_ih, states=a.w_hh, input_bias=a.b_ih, state_bias=a.b_hh)
        result = rnn.cell(b, a.input, states, weights, mode)
        return result if mode == "lstm" else result[0]

    return rule


_RNN = (
    "input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False, "
    "*, drawn=None"
)
_CELL = "input, hx, w_ih, w_hh, b_ih=None, b_hh=None"

ROWS: tuple[Row, ...] = (
    row("lstm", _RNN, _recurrent("lstm")),
    row("gru", _RNN, _recurrent("gru")),
    row("rnn_tanh", _RNN, _recurrent("tanh")),
    row("rnn_relu", _RNN, _recurrent("relu")),
    row("lstm_cell", _CELL, _cell("lstm")),
    row("gru_cell", _CELL, _cell("gru")),
    row("rnn_tanh_cell", _CELL, _cell("tanh")),
    row("rnn_relu_cell", _CELL, _cell("relu")),
    row("_pack_padded_sequence", "input, lengths, batch_first", _pack),
    row(
        "pad_sequence",
        "sequences, batch_first=False, padding_value=0.0, padding_side='right'",
        _one_length,
    ),
    row(
        "_pad_packed_sequence",
        "data, batch_sizes, batch_first, padding_value, total_length",
        _unpack,
    ),
)
