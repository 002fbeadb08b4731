"""J v by central differences of executed programs against Paddle's derivatives, for every row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import paddle
import pytest

from padiff.program import TABLES, execute
from tests.frameworks.test_lowering_paddle import FRAME, arguments_of, function_of, is_in_place
from tests.support.lowering_paddle import CASES, GRADED, OTHER_GRADIENTS
from tests.support.operators import Recorder, lowered_of

STEP = 3e-5
"""Of the root mean square: rounding and the third derivative then weigh the same (1e-10)."""
WIDEST = 1e-6
"""What is allowed, relative to all that was added up: a hundred times what was measured."""
ROWS = {entry.names[0]: entry for entry in TABLES["paddle"].rows}


CALLS = {name: [text for text in CASES[name] if not is_in_place(name)] for name in ROWS}


def is_other(name: str, text: str) -> bool:
    """Return whether the table says that Paddle's gradient is another."""
    return any(row == name and part in text for row, part, _ in OTHER_GRADIENTS)


def floats_of(arguments: Any) -> list[paddle.Tensor]:
    if isinstance(arguments, paddle.Tensor):
        return [arguments] if arguments.dtype == paddle.float64 else []
    if isinstance(arguments, list | tuple):
        return [tensor for each in arguments for tensor in floats_of(each)]
    return []


def real_parts(elements: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    return [elements.real, elements.imag] if elements.dtype.kind == "c" else [elements]


def parts_of(tensor: paddle.Tensor) -> list[paddle.Tensor]:
    return [tensor.real(), tensor.imag()] if tensor.is_complex() else [tensor]


def is_real(tensor: paddle.Tensor) -> bool:
    return tensor.dtype in {paddle.float64, paddle.complex128}


@pytest.mark.parametrize("name", CALLS)
def test_differences_of_executions_are_paddles_derivatives(name: str) -> None:
    for text in CALLS[name]:
        if is_other(name, text):
            with pytest.raises((AssertionError, RuntimeError, ValueError)):
                assert_derivative(name, text)
        else:
            assert_derivative(name, text)


def assert_derivative(name: str, text: str) -> None:
    arguments, keywords = arguments_of(text)
    full = TABLES["paddle"].full_name(name)
    recorder = Recorder(FRAME)
    leaves = floats_of([*arguments, *keywords.values()])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recorded = recorder.call(full, function_of(full), arguments, keywords, in_place=False)
            arguments, keywords = arguments_of(text)
            twins = floats_of([*arguments, *keywords.values()])
            for twin in twins:
                twin.stop_gradient = False
            made = recorder.tensors(function_of(full)(*arguments, **keywords))
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return  # refused under this name: see test_row_computes_what_paddle_computes
    lowered = lowered_of(recorded)
    left = set(lowered.leaves.values())
    graded = GRADED.get(name, range(len(made)))
    outputs = [
        (output, tensor)
        for slot, (output, tensor) in enumerate(zip(recorded.program.outputs, made, strict=True))
        if slot in graded
        and output not in left
        and np.isfinite(recorded.elements[output]).all()
        and is_real(tensor)
        and not tensor.stop_gradient
    ]
    if not outputs or not twins:
        return

    generator = np.random.default_rng(5)
    directions = [generator.standard_normal(tuple(leaf.shape)) for leaf in leaves]
    weights = [
        [generator.standard_normal(tuple(part.shape)) for part in parts_of(tensor)]
        for _, tensor in outputs
    ]
    total: Any = sum(
        (part * paddle.to_tensor(weight)).sum()
        for (_, tensor), each in zip(outputs, weights, strict=True)
        for part, weight in zip(parts_of(tensor), each, strict=True)
    )
    gradients: list[Any] = paddle.grad(total, twins, allow_unused=True)
    expected = sum(
        float((gradient.numpy() * direction).sum())
        for gradient, direction in zip(gradients, directions, strict=True)
        if gradient is not None
    )

    start = {
        value.id: recorded.elements[value.id]
        for value in recorded.program.values
        if value.producer is None
    }
    wanted = [output for output, _ in outputs]
    ends = []
    for sign in (1, -1):
        moved = dict(start)
        for leaf, direction, gradient in zip(leaves, directions, gradients, strict=True):
            if gradient is not None:
                id_ = recorder.known[id(leaf)]
                moved[id_] = start[id_] + sign * STEP * direction
        ends.append(execute(lowered, moved, wanted))
    change = scale = 0.0
    for output, each in zip(wanted, weights, strict=True):
        apart = real_parts(np.asarray(ends[0][output] - ends[1][output]))
        for part, weight in zip(apart, each, strict=True):
            change += float((part * weight).sum()) / (2 * STEP)
            scale += float(np.abs(part * weight).sum()) / (2 * STEP)
    assert abs(change - expected) <= WIDEST * max(scale, 1.0), text
