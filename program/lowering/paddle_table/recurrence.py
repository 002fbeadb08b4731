"""Recurrent layers of Paddle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.program.lowering.builder import Builder, NotLoweredError, Term
from padiff.program.lowering.composites import recurrent
from padiff.program.lowering.rules import Arguments, Result, Row, row

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODES = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "tanh", "RNN_RELU": "relu"}


def _weights(parameters: Sequence[Term]) -> list[recurrent.Weights]:
    """Return the weights of each layer and direction: all matrices stand before all biases."""
    half = len(parameters) // 2
    if not half or len(parameters) % 4:
        raise NotLoweredError(f"{len(parameters)} parameters")
    matrices, biases = parameters[:half], parameters[half:]
    return [
        recurrent.Weights(
            inputs=matrices[place],
            states=matrices[place + 1],
            input_bias=biases[place],
            state_bias=biases[place + 1],
        )
        for place in range(0, half, 2)
    ]


def _rnn(b: Builder, a: Arguments) -> Result:
    """Run all layers; what dropout keeps for the way back is no result of its own."""
    mode = _MODES[a.mode]
    values, *states = recurrent.layers(
        b,
        a.x,
        list(a.pre_state),
        _weights(a.weight_list),
        mode=mode,
        directions=2 if a.is_bidirec else 1,
        lengths=a.sequence_length,
        drop=recurrent.dropping(b, a.drawn, 0.0 if a.is_test else a.dropout_prob),
    )
    kept = len(b.expected) - 1 - len(states)
    return [values, *[None] * kept, *states]


ROWS: tuple[Row, ...] = (
    row("rnn",
        "x, pre_state, weight_list, sequence_length, dropout_state_in, dropout_prob=0.0, "
        "is_bidirec=False, input_size=10, hidden_size=100, num_layers=1, mode='RNN_TANH', seed=0, "
        "is_test=False, *, drawn=None", _rnn),
)  # fmt: skip
