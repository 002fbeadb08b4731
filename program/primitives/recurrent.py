"""One layer and direction of a recurrent network as one primitive: a loop over time.

Axes: values (time, batch, feature), states (batch, hidden), input weights (gates · hidden,
feature), state weights (gates · hidden, hidden). Gates of an LSTM stand in the order input,
forget, cell, output; those of a GRU in the order reset, update, new.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .elementwise import sigmoid
from .spec import Array, Kind, Primitive, Spec, check

_GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
_WORK_A_GATE = 40


def _recurrent_spec(*operands: Spec, mode: object, reverse: object) -> tuple[Spec, ...]:
    """Operands: values, lengths, hidden (cell), two weights, two biases; outputs: values, states.

    Where a row is over (its length is reached), its state stays and its values are zero.
    """
    check(mode in _GATES and type(reverse) is bool, "a known mode and direction", mode, reverse)
    gates, states = _GATES[str(mode)], 2 if mode == "lstm" else 1
    check(len(operands) == 6 + states, "all operands of the mode", len(operands))
    x, lengths, hidden = operands[:3]
    check(x.ndim == 3 and hidden.ndim == 2, "axes of a layer", x.shape, hidden.shape)  # noqa: PLR2004
    steps, batch, feature = x.shape
    width = hidden.shape[1]
    expected = [(batch,), *[(batch, width)] * states]
    expected += [(gates * width, feature), (gates * width, width), *[(gates * width,)] * 2]
    found = [operand.shape for operand in operands[1:]]
    check(found == expected, f"shapes {expected}", found)
    check(lengths.kind is Kind.INT, "integers as lengths", lengths.kind)
    floats = all(operand.kind is Kind.FLOAT for operand in (x, *operands[2:]))
    check(floats, "floats", [operand.kind for operand in operands])
    state = Spec(Kind.FLOAT, (batch, width))
    return Spec(Kind.FLOAT, (steps, batch, width)), *[state] * states


def _recurrent(*operands: Array, mode: str, reverse: bool) -> tuple[Array, ...]:
    x, lengths = operands[:2]
    states = operands[2:-4]
    w_input, w_state, b_input, b_state = operands[-4:]
    steps, batch, _ = x.shape
    inner = x @ w_input.T + b_input
    result = np.zeros((steps, batch, states[0].shape[1]))
    for time in range(steps - 1, -1, -1) if reverse else range(steps):
        gates = states[0] @ w_state.T + b_state
        fresh = _STEPS[mode](inner[time], gates, states)
        alive = (time < lengths)[:, None]
        result[time] = np.where(alive, fresh[0], 0)
        states = tuple(np.where(alive, new, old) for new, old in zip(fresh, states, strict=True))
    return result, *states


def _lstm(inner: Array, gates: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
    enter, forget, cell, output = np.split(inner + gates, 4, axis=1)
    memory = sigmoid(forget) * states[1] + sigmoid(enter) * np.tanh(cell)
    return sigmoid(output) * np.tanh(memory), memory


def _gru(inner: Array, gates: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
    from_input, from_state = np.split(inner, 3, axis=1), np.split(gates, 3, axis=1)
    reset = sigmoid(from_input[0] + from_state[0])
    update = sigmoid(from_input[1] + from_state[1])
    new = np.tanh(from_input[2] + reset * from_state[2])
    return (new + update * (states[0] - new),)


def _tanh(inner: Array, gates: Array, _: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.tanh(inner + gates),)


def _relu(inner: Array, gates: Array, _: tuple[Array, ...]) -> tuple[Array, ...]:
    return (np.maximum(inner + gates, 0),)


_STEPS = {"lstm": _lstm, "gru": _gru, "tanh": _tanh, "relu": _relu}


def _work(*operands: Spec, **_: Any) -> int:
    steps, batch, _feature = operands[0].shape
    return steps * max(batch, 1) * (operands[-4].count + operands[-3].count + _WORK_A_GATE * 100)


def _inner_bytes(*operands: Spec, **_: Any) -> int:
    steps, batch, _feature = operands[0].shape
    return 8 * operands[-4].shape[0] * batch * (steps + 8)


PRIMITIVES: tuple[Primitive, ...] = (
    Primitive(
        name="recurrent",
        arity=(7, 8),
        infer=_recurrent_spec,
        run=_recurrent,
        work=_work,
        workspace=_inner_bytes,
    ),
)
