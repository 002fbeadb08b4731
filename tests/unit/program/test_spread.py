"""What rounding is expected to do is what many executions with random errors show."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.program import UNIT_ROUNDOFF, Rounding, execute, execute_with_spread
from padiff.program.lowering.composites.activations import gelu
from tests.support.small_programs import drawn, lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.program import Lowered
    from padiff.program.lowering.builder import Term
    from padiff.program.primitives import Array

SHAPES = {"x": (3, 40), "w": (5, 40), "b": (5,), "image": (2, 3, 5, 5), "kernel": (4, 3, 3, 3)}
_MOVES = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
_UNITS = {0: UNIT_ROUNDOFF["float32"]}
_RUNS = 400


def linear(leaves: Mapping[str, Term]) -> Term:
    build = leaves["w"].builder
    return leaves["x"] @ build("transpose", leaves["w"], order=(1, 0)) + leaves["b"]


def twice(leaves: Mapping[str, Term]) -> Term:
    build = leaves["w"].builder
    inner = leaves["x"] @ build("transpose", leaves["w"], order=(1, 0))
    return (inner - leaves["b"]) @ leaves["w"]


def convolved(leaves: Mapping[str, Term]) -> Term:
    return leaves["image"].builder("convolution", leaves["image"], leaves["kernel"], **_MOVES)


def added(leaves: Mapping[str, Term]) -> Term:
    return leaves["x"] - 0.3


def scaled(leaves: Mapping[str, Term]) -> Term:
    return (leaves["x"] + 0.3) * (leaves["x"] - 0.1) / 1.7


def divided(leaves: Mapping[str, Term]) -> Term:
    return (leaves["x"] - 0.1) / (leaves["x"] * leaves["x"] + 3.1)


@pytest.mark.parametrize("make", [linear, twice, convolved, added, scaled, divided])
def test_the_spread_is_that_of_random_errors(make: Callable[[Mapping[str, Term]], Term]) -> None:
    program, result = lowered(SHAPES, make)
    leaves = drawn(SHAPES, 1)
    leaves[0][0] = 2.0  # whole numbers are not off

    found = execute_with_spread(program, leaves, result, _UNITS)

    assert found.is_complete
    exact = execute(program, leaves, [result])[result]
    np.testing.assert_allclose(found.result, exact, rtol=1e-12)
    seen = errors_seen(program, leaves, result)
    np.testing.assert_allclose(found.errors, seen, rtol=0.2)


def errors_seen(program: Lowered, leaves: dict[int, Array], result: int) -> Array:
    exact = execute(program, leaves, [result])[result]
    runs = (Rounding(_UNITS, seed=seed) for seed in range(_RUNS))
    moved = [
        execute(program, leaves, [result], rounding=rounding)[result] - exact for rounding in runs
    ]
    return np.asarray(np.sqrt(np.mean(np.square(moved), axis=0)))


def read_twice(leaves: Mapping[str, Term]) -> Term:
    once = leaves["x"] * 1.3
    return once - once * 0.7


def activated(leaves: Mapping[str, Term]) -> Term:
    return gelu(leaves["x"].builder, leaves["x"])


def attended(leaves: Mapping[str, Term]) -> Term:
    build = leaves["x"].builder
    scores = leaves["x"] @ build("transpose", leaves["w"], order=(1, 0))
    return build("softmax", scores, axis=1) @ leaves["w"]


def normalized(leaves: Mapping[str, Term]) -> Term:
    build = leaves["x"].builder
    centered = leaves["x"] - build("sum", leaves["x"], axes=(1,), keepdims=True) / 40.0
    squares = build("sum", centered * centered, axes=(1,), keepdims=True) / 40.0
    return centered / build("sqrt", squares + 1e-5)


@pytest.mark.parametrize("make", [read_twice, activated, attended, normalized])
def test_the_spread_is_the_least_where_errors_are_left_out(
    make: Callable[[Mapping[str, Term]], Term],
) -> None:
    program, result = lowered(SHAPES, make)
    leaves = drawn(SHAPES, 1)

    found = execute_with_spread(program, leaves, result, _UNITS)

    assert not found.is_complete
    np.testing.assert_allclose(found.result, execute(program, leaves, [result])[result], rtol=1e-12)
    seen = errors_seen(program, leaves, result)
    assert np.all(found.errors <= 1.2 * seen)
    assert np.sqrt(np.mean(np.square(found.errors))) > 0.1 * np.sqrt(np.mean(np.square(seen)))


def test_a_weight_takes_half_of_its_size_beside_itself() -> None:
    """A decoder's head of 500 MiB in float64 must not need three of them."""
    shapes = {"x": (3, 2048), "w": (4096, 2048), "b": (4096,)}
    program, result = lowered(shapes, linear)
    leaves = drawn(shapes, 1)

    tracemalloc.start()
    found = execute_with_spread(program, leaves, result, _UNITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert found.is_complete
    weight = 4096 * 2048
    assert peak < (4 + 4) * weight  # its squares in float32, and what is looked at in blocks
