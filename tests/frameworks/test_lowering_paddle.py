"""Every row of Paddle's table computes what Paddle computes, in float64."""

from __future__ import annotations

import warnings
import zlib
from functools import partial
from typing import Any

import numpy as np
import paddle
import pytest

from padiff.dumper.adapters.paddle_operators import drawn_again
from padiff.dumper.adapters.paddle_random import GeneratorProbe
from padiff.program import TABLES
from tests.support.lowering_paddle import CASES, OPAQUE
from tests.support.operators import (
    Frame,
    Recorded,
    Recorder,
    computed,
    difference,
    lowered_of,
    recorded_row,
    results_of,
)

TABLE = TABLES["paddle"]
FRAME = Frame(
    name="paddle",
    is_tensor=lambda each: (
        isinstance(each, paddle.Tensor) and (each._is_initialized() or each.ndim > 1)
    ),
    numpy=lambda tensor: tensor.numpy(),
    clone=lambda tensor: tensor.clone(),
    dtype_name=lambda each: (
        str(each).removeprefix("paddle.") if isinstance(each, paddle.dtype) else None
    ),
)


class Draws:
    """The tensors of one case, from a seed."""

    def __init__(self, text: str) -> None:
        self.generator = np.random.default_rng(zlib.crc32(text.encode()))

    def f(self, *shape: int) -> paddle.Tensor:
        return paddle.to_tensor(self.generator.standard_normal(shape), dtype="float64")

    def p(self, *shape: int) -> paddle.Tensor:
        return paddle.to_tensor(self.generator.uniform(0.1, 2, shape), dtype="float64")

    def u(self, *shape: int) -> paddle.Tensor:
        return paddle.to_tensor(self.generator.uniform(0.05, 0.95, shape), dtype="float64")

    def i(self, high: int, *shape: int) -> paddle.Tensor:
        return paddle.to_tensor(self.generator.integers(0, high, shape), dtype="int64")

    def b(self, *shape: int) -> paddle.Tensor:
        return paddle.to_tensor(self.generator.random(shape) < 0.5)

    def c(self, *shape: int) -> paddle.Tensor:
        return paddle.complex(self.f(*shape), self.f(*shape))

    def t(self, values: Any, dtype: Any = "int64") -> paddle.Tensor:
        return paddle.to_tensor(values, dtype=dtype)


def arguments_of(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    draws = Draws(text)
    names = {name: getattr(draws, name) for name in "fpuibct"}
    collect = lambda *args, **kwargs: (args, kwargs)  # noqa: E731
    place = paddle.CPUPlace()
    return eval(  # type: ignore[no-any-return]
        f"collect({text})", {**names, "collect": collect, "paddle": paddle, "place": place}
    )


def is_in_place(name: str) -> bool:
    last = name.rpartition(".")[2]
    return (last.endswith("_") and not last.endswith("__")) or (
        last in {"__setitem__", "set_value"}
    )


def function_of(name: str) -> Any:
    function: Any = paddle
    for part in name.split(".")[1:]:
        function = getattr(function, part)
    return function


def record(name: str, text: str) -> Recorded | None:
    """Record a call; None where Paddle does not take these arguments under this name."""
    arguments, keywords = arguments_of(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Recorder(FRAME).call(
                name,
                function_of(name),
                arguments,
                keywords,
                in_place=is_in_place(name),
                drawn=partial(drawn_again, name, arguments, GeneratorProbe().state()),
            )
    except (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        reasons[name, text] = str(error)
        return None


reasons: dict[tuple[str, str], str] = {}
UNWRITTEN = {"paddle._C_ops.empty", "paddle._C_ops.empty_like"}
"""They give memory that nobody wrote."""


def test_every_row_has_a_case() -> None:
    missing = [entry.names[0] for entry in TABLE.rows if not CASES.get(entry.names[0])]

    assert missing == []


def test_every_case_belongs_to_a_row() -> None:
    assert set(CASES) <= {entry.names[0] for entry in TABLE.rows}


@pytest.mark.parametrize("entry", TABLE.rows, ids=[entry.names[0] for entry in TABLE.rows])
def test_row_computes_what_paddle_computes(entry: Any) -> None:
    cases, names = CASES.get(entry.names[0], ()), [*map(TABLE.full_name, entry.names)]
    for call, found in recorded_row(names, cases, record, reasons=reasons):
        for result, expected in computed(call, found):
            if call[0] in UNWRITTEN:
                assert result.shape == expected.shape, call
                continue
            rounding = float(np.finfo(expected.dtype).eps) if expected.dtype.kind in "fc" else 0.0
            assert difference(result, expected) <= max(entry.tolerance, rounding), call


@pytest.mark.parametrize(("name", "text"), OPAQUE)
def test_form_that_is_not_covered_is_opaque(name: str, text: str) -> None:
    recorded = record(TABLE.full_name(name), text)
    assert recorded is not None, reasons

    lowered = lowered_of(recorded)

    assert list(lowered.opaque) == [0]


@pytest.mark.parametrize(
    ("name", "asked", "meant"),
    [
        (
            "conv2d",
            "f(2, 4, 8, 7), f(6, 4, 3, 2), [1, 1], [0, 0], 'SAME', [2, 2], 1, 'NCHW'",
            "f(2, 4, 8, 7), f(6, 4, 3, 2), [1, 1], [2, 2, 1, 1], 'EXPLICIT', [2, 2], 1, 'NCHW'",
        ),
    ],
)
def test_defect_of_paddle_is_computed_as_it_was_meant(name: str, asked: str, meant: str) -> None:
    defective = record(TABLE.full_name(name), asked)
    right = record(TABLE.full_name(name), meant)
    assert defective is not None
    assert right is not None
    inputs = {id_: right.elements[id_] for id_ in (0, 1)}
    asked_for = Recorded(program=defective.program, elements={**defective.elements, **inputs})

    (result,) = results_of(asked_for, lowered_of(asked_for))

    expected = right.elements[right.program.outputs[0]]
    recorded = defective.elements[defective.program.outputs[0]]
    assert difference(result, expected) <= 1e-12
    assert recorded.shape == expected.shape


def test_relu_and_cross_entropy_are_not_cut_off_as_paddles_are() -> None:
    relu = record("paddle._C_ops.relu", "t([float('nan'), 1.0], 'float64')")
    loss = record(
        "paddle._C_ops.cross_entropy_with_softmax",
        "t([[0.0, 99.0]], 'float64'), t([[0]]), False, True, True, -100, -1",
    )
    assert relu is not None
    assert loss is not None

    not_a_number = results_of(relu, lowered_of(relu))[0][0]
    far = results_of(loss, lowered_of(loss))[1].item()

    assert np.isnan(not_a_number)
    assert far == pytest.approx(99.0)
