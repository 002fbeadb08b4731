"""Derivatives of linear programs are their differences, along outer products, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.program import Outer, derivative, execute
from tests.support.small_programs import drawn, lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.program.lowering.builder import Term

SHAPES = {"rows": (2, 3, 4), "weight": (5, 4), "image": (2, 3, 6, 6), "kernel": (4, 3, 3, 3)}
_MOVES = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}


def linear(leaves: Mapping[str, Term]) -> Term:
    build = leaves["weight"].builder
    return leaves["rows"] @ build("transpose", leaves["weight"], order=(1, 0)) + 1.5


def flattened(leaves: Mapping[str, Term]) -> Term:
    build = leaves["rows"].builder
    flat = build("reshape", leaves["rows"], shape=(6, 4))
    return 2.0 - flat @ build("transpose", leaves["weight"], order=(1, 0))


def convolved(leaves: Mapping[str, Term]) -> Term:
    build = leaves["image"].builder
    return build("convolution", leaves["image"], leaves["kernel"], **_MOVES)


def joined(leaves: Mapping[str, Term]) -> Term:
    build = leaves["rows"].builder
    other = build("pad", leaves["rows"], widths=((0, 0),) * 3, mode="constant", value=7.0)
    both = build("concat", leaves["rows"] * leaves["rows"].builder.term(3.0), other, axis=0)
    return build("sum", both, axes=(1,), keepdims=False)


def squared(leaves: Mapping[str, Term]) -> Term:
    return leaves["rows"] * leaves["rows"]


@pytest.mark.parametrize("split", [0, 1, 2])
@pytest.mark.parametrize(
    ("make", "moved"),
    [
        (linear, "rows"),
        (linear, "weight"),
        (flattened, "rows"),
        (flattened, "weight"),
        (convolved, "image"),
        (convolved, "kernel"),
        (joined, "rows"),
    ],
)
def test_the_derivative_of_a_linear_program_is_its_difference(
    make: Callable[[Mapping[str, Term]], Term], moved: str, split: int
) -> None:
    program, result = lowered(SHAPES, make)
    leaves, place = drawn(SHAPES, 1), [*SHAPES].index(moved)
    shape = SHAPES[moved]
    random = np.random.default_rng(2)
    direction = Outer(random.normal(size=shape[:split]), random.normal(size=shape[split:]))

    others = {one: array for one, array in leaves.items() if one != place}
    found = derivative(program, others, place, direction, result)

    before = execute(program, leaves, [result])[result]
    after = execute(program, {**leaves, place: leaves[place] + direction.dense()}, [result])[result]
    assert found is not None
    dense = found.dense() if isinstance(found, Outer) else found
    np.testing.assert_allclose(dense, after - before, atol=1e-12)


def test_what_is_not_linear_has_no_exact_derivative() -> None:
    program, result = lowered(SHAPES, squared)
    direction = Outer(np.ones(2), np.ones((3, 4)))

    assert derivative(program, drawn(SHAPES, 1), 0, direction, result) is None


def test_what_does_not_depend_on_a_value_has_no_derivative_by_it() -> None:
    program, result = lowered(SHAPES, squared)

    assert derivative(program, drawn(SHAPES, 1), 1, Outer(np.ones(5), np.ones(4)), result) is None
