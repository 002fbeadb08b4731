"""What pieces of a program make, put together, is what the program makes as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import ProgramError
from padiff.program import Outer, cut, derivative, execute, execute_with_spread, of_elements
from padiff.program.lowering.composites.activations import gelu
from tests.support.small_programs import drawn, lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.program.lowering.builder import Term

SHAPES = {"x": (3, 150, 700), "scale": (700,), "qkv": (2, 120, 3, 6, 16)}
_UNITS = {0: 2.0**-24}


def activated(leaves: Mapping[str, Term]) -> Term:
    return gelu(leaves["x"].builder, leaves["x"])


def normed(leaves: Mapping[str, Term]) -> Term:
    build, x = leaves["x"].builder, leaves["x"]
    centred = x - build("sum", x, axes=(2,), keepdims=True) / 700.0
    variance = build("sum", centred * centred, axes=(-1,), keepdims=False) / 700.0
    deviation = build("reshape", build("sqrt", variance + 1e-5), shape=(3, 150, 1))
    return centred / deviation * leaves["scale"]


def attended(leaves: Mapping[str, Term]) -> Term:
    build = leaves["qkv"].builder
    turned = build("transpose", leaves["qkv"], order=(2, 0, 3, 1, 4))
    query, key, value = (
        build(
            "reshape",
            build("slice", turned, axis=0, start=at, stop=at + 1, step=1),
            shape=(2, 6, 120, 16),
        )
        for at in range(3)
    )
    scores = query @ build("transpose", key, order=(0, 1, 3, 2)) * 0.25
    mixed = build("softmax", scores, axis=-1) @ value
    joined = build("transpose", mixed, order=(0, 2, 1, 3))
    return build("reshape", joined, shape=(2, 120, 96))


def of_heads(leaves: Mapping[str, Term]) -> Term:
    build = leaves["qkv"].builder
    return build("transpose", attended(leaves), order=(0, 2, 1))


PROGRAMS = pytest.mark.parametrize("make", [activated, normed, attended, of_heads])


@PROGRAMS
def test_pieces_make_what_the_whole_makes(make: Callable[[Mapping[str, Term]], Term]) -> None:
    program, result = lowered(SHAPES, make)
    leaves = drawn(SHAPES, 1)
    pieces = cut(program, leaves, result)
    whole = execute_with_spread(program, leaves, result, _UNITS)
    assert pieces is not None

    made, errors, count = np.zeros_like(whole.result), np.zeros_like(whole.result), 0
    for part, own, places in pieces.over(leaves):
        spread = execute_with_spread(part, own, result, _UNITS)
        made[places[result]], errors[places[result]] = spread.result, spread.errors
        count += spread.result.size

    assert count == whole.result.size
    np.testing.assert_allclose(made, whole.result, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(errors, whole.errors, rtol=1e-5)


@PROGRAMS
def test_pieces_move_as_the_whole_moves(make: Callable[[Mapping[str, Term]], Term]) -> None:
    program, result = lowered(SHAPES, make)
    leaves, random = drawn(SHAPES, 2), np.random.default_rng(3)
    moved = 2 if make in (attended, of_heads) else 0
    shape = leaves[moved].shape
    direction = Outer(random.normal(size=shape[:-1]), random.normal(size=shape[-1:]))
    pieces = cut(program, leaves, result)
    step = 1e-5
    above, below = (
        execute(
            program, {**leaves, moved: leaves[moved] + way * step * direction.dense()}, [result]
        )
        for way in (1.0, -1.0)
    )
    assert pieces is not None

    found = np.zeros_like(above[result])
    for part, own, places in pieces.over(leaves):
        tangent = derivative(part, own, moved, direction.part(places[moved]), result)
        assert tangent is not None
        found[places[result]] = tangent.dense() if isinstance(tangent, Outer) else tangent

    expected = (above[result] - below[result]) / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def summed(leaves: Mapping[str, Term]) -> Term:
    build = leaves["x"].builder
    return leaves["x"] - build("sum", leaves["x"], axes=(0, 1, 2), keepdims=True)


def turned(leaves: Mapping[str, Term]) -> Term:
    build = leaves["qkv"].builder
    one = build("reshape", leaves["qkv"], shape=(240, 288))
    return build("transpose", one, order=(1, 0)) @ one


@pytest.mark.parametrize("make", [summed, turned])
def test_what_takes_all_of_a_value_is_not_cut(
    make: Callable[[Mapping[str, Term]], Term],
) -> None:
    program, result = lowered(SHAPES, make)

    assert cut(program, drawn(SHAPES, 1), result) is None


def test_what_is_small_or_lacks_elements_is_not_cut() -> None:
    small, of_small = lowered({"x": (3, 40)}, activated)
    program, result = lowered(SHAPES, normed)

    assert cut(small, [0], of_small) is None
    assert cut(program, [0], result) is None
    assert cut(program, [0, 1], result) is not None


def test_elements_of_another_shape_are_refused() -> None:
    program, result = lowered(SHAPES, activated)
    pieces = cut(program, [0], result)
    assert pieces is not None

    with pytest.raises(ProgramError):
        list(pieces.over({0: np.zeros((4, 150, 700))}))


def test_some_elements_are_made_as_all_of_them_are() -> None:
    program, result = lowered(SHAPES, activated)
    leaves = drawn(SHAPES, 1)
    chosen = leaves[0] < -2
    some = of_elements(program, [0], result, int(chosen.sum()))
    assert some is not None

    found = execute_with_spread(some, {0: leaves[0][chosen]}, result, _UNITS)

    whole = execute_with_spread(program, {0: leaves[0]}, result, _UNITS)
    assert np.array_equal(found.result, whole.result[chosen])
    assert np.array_equal(found.errors, whole.errors[chosen])


@pytest.mark.parametrize("make", [normed, attended])
def test_elements_that_depend_on_others_are_not_made_alone(
    make: Callable[[Mapping[str, Term]], Term],
) -> None:
    program, result = lowered(SHAPES, make)

    assert of_elements(program, drawn(SHAPES, 1), result, 1) is None
