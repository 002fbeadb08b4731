"""Derivatives of linear programs are their differences, of others their central ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.program import Outer, derivative, derivatives, execute
from padiff.program.lowering.composites.activations import gelu
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


def activated(leaves: Mapping[str, Term]) -> Term:
    return gelu(leaves["rows"].builder, leaves["rows"])


def attended(leaves: Mapping[str, Term]) -> Term:
    build, rows = leaves["rows"].builder, leaves["rows"]
    scores = rows @ build("transpose", rows, order=(0, 2, 1))
    return build("softmax", scores, axis=-1) @ rows


def normalized(leaves: Mapping[str, Term]) -> Term:
    build, rows = leaves["rows"].builder, leaves["rows"]
    squares = build("sum", rows * rows, axes=(2,), keepdims=True) / 4.0
    return rows / build("sqrt", squares + 1e-5)


def several(leaves: Mapping[str, Term]) -> Term:
    build = leaves["rows"].builder
    bounded = build("tanh", leaves["rows"]) * build("sigmoid", leaves["rows"])
    return build("log", build("exp", bounded) + 1.0)


def chosen(leaves: Mapping[str, Term]) -> Term:
    build, rows = leaves["rows"].builder, leaves["rows"]
    limited = build("maximum", build("minimum", rows, 0.7), -0.4)
    return build("where", rows > 0.2, limited * rows, build("abs", rows))


def of_functions(leaves: Mapping[str, Term]) -> Term:
    build = leaves["rows"].builder
    size = build("abs", leaves["rows"]) + 0.1
    logs = build("log1p", size) + build("log2", size) + build("log10", size)
    waves = build("sin", size) * build("cos", size) + build("atan", size)
    bent = build("expm1", -size) + build("softplus", size) + build("erfc", size)
    wide = build("sinh", size) * build("cosh", size) + build("tan", size / 4.0)
    near = size / 8.0
    return logs + waves + bent + wide + build("asin", near) + build("acos", near)


def raised(leaves: Mapping[str, Term]) -> Term:
    build = leaves["rows"].builder
    size = build("abs", leaves["rows"]) + 0.1
    return build("pow", size, 1.7) + build("pow", size, size) + build("pow", 2.0, size)


def shared(leaves: Mapping[str, Term]) -> Term:
    return leaves["rows"].builder("log_softmax", leaves["rows"], axis=1)


def transformed(leaves: Mapping[str, Term]) -> Term:
    build, rows = leaves["rows"].builder, leaves["rows"]
    waves = build("fourier", rows, axis=2, inverse=False)
    turned = build("conj", waves) * waves
    return build("cast", turned, kind="float") + build("real", waves) * build("imag", waves)


def convolved_by_itself(leaves: Mapping[str, Term]) -> Term:
    build, rows = leaves["rows"].builder, leaves["rows"]
    image = build("reshape", rows, shape=(1, 2, 3, 4))
    kernel = build("reshape", rows * rows, shape=(4, 2, 3, 1))
    return build("convolution", image, kernel, **_MOVES)


def written(leaves: Mapping[str, Term]) -> Term:
    build, rows = leaves["rows"].builder, leaves["rows"]
    places = build("literal", values=(1, 0, 1), shape=(3,), kind="int")
    source = build("reshape", build("slice", rows, axis=0, start=0, stop=1, step=1), shape=(3, 4))
    into = build("slice", rows * rows, axis=1, start=0, stop=1, step=1)
    base = build("reshape", into, shape=(2, 4))
    return build("sub", 3, build("put", base, source, places, reduce="add"))


@pytest.mark.parametrize(
    "make",
    [
        transformed,
        convolved_by_itself,
        written,
        squared,
        activated,
        attended,
        normalized,
        several,
        chosen,
        of_functions,
        raised,
        shared,
    ],
)
def test_the_derivative_is_the_central_difference(
    make: Callable[[Mapping[str, Term]], Term],
) -> None:
    program, result = lowered(SHAPES, make)
    leaves, random = drawn(SHAPES, 1), np.random.default_rng(2)
    direction = Outer(random.normal(size=2), random.normal(size=(3, 4)))

    found = derivative(program, leaves, 0, direction, result)

    above, below = (
        execute(program, {**leaves, 0: leaves[0] + way * direction.dense()}, [result])[result]
        for way in (1e-5, -1e-5)
    )
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, (above - below) / 2e-5, rtol=1e-6, atol=1e-8)


def test_the_next_kink_may_be_as_near_as_it_likes() -> None:
    """No difference in float64 finds this: the root of a small limit is steep behind it."""
    limit = 1e-20
    program, result = lowered(
        {"rows": (2, 3)},
        lambda leaves: leaves["rows"].builder(
            "sqrt", leaves["rows"].builder("maximum", leaves["rows"], limit)
        ),
    )
    rows = np.array([[0.0, 1.0, 4.0], [0.25, 0.0, 1.0]])

    found = derivative(program, {0: rows}, 0, Outer(np.ones(2), np.ones(3)), result)

    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, [[0, 0.5, 0.25], [1, 0, 0.5]])


@pytest.mark.parametrize("primitive", ["amax", "amin"])
@pytest.mark.parametrize("is_first", [False, True])
def test_the_first_or_the_last_of_equal_elements_is_chosen(primitive: str, is_first: bool) -> None:
    program, result = lowered(
        {"rows": (2, 3, 2)},
        lambda leaves: leaves["rows"].builder(
            primitive, leaves["rows"], axes=(0, 2), keepdims=False
        ),
    )
    rows, direction = np.ones((2, 3, 2)), np.arange(12.0).reshape(2, 3, 2)

    found = derivatives(program, {0: rows}, {0: direction}, [result], is_first=is_first)

    assert found is not None
    np.testing.assert_array_equal(found[result], [0, 2, 4] if is_first else [7, 9, 11])


def test_several_values_move_at_a_time() -> None:
    program, result = lowered(SHAPES, linear)
    leaves = drawn(SHAPES, 1)
    rows, weight = np.ones(SHAPES["rows"]), np.ones(SHAPES["weight"])

    both = derivatives(program, leaves, {0: rows, 1: weight}, [result])
    one, two = (
        derivative(program, leaves, place, way, result) for place, way in ((0, rows), (1, weight))
    )

    assert both is not None
    assert isinstance(one, np.ndarray)
    assert isinstance(two, np.ndarray)
    moved = both[result]
    np.testing.assert_allclose(moved.dense() if isinstance(moved, Outer) else moved, one + two)


def test_what_is_rounded_has_no_derivative() -> None:
    program, result = lowered(
        SHAPES, lambda leaves: leaves["rows"].builder("floor", leaves["rows"])
    )
    direction = Outer(np.ones(2), np.ones((3, 4)))

    assert derivative(program, drawn(SHAPES, 1), 0, direction, result) is None


def test_what_does_not_depend_on_a_value_has_no_derivative_by_it() -> None:
    program, result = lowered(SHAPES, squared)

    assert derivative(program, drawn(SHAPES, 1), 1, Outer(np.ones(5), np.ones(4)), result) is None


def test_what_is_stopped_counts_as_constant() -> None:
    program, result = lowered(
        {"rows": (2, 3), "aim": (2, 3)}, lambda leaves: leaves["rows"] * leaves["aim"]
    )
    rows, aim = np.arange(6.0).reshape(2, 3), np.ones((2, 3)) * 2.0

    found = derivatives(
        program, {0: rows, 1: aim}, {0: np.ones((2, 3))}, [result], stopped=[result]
    )

    assert found == {}
