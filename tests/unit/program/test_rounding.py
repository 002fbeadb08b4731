"""Random errors stand for what a dtype rounds, and leave alone what it does not round."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.program import (
    CHOOSING,
    EXACT,
    UNIT_ROUNDOFF,
    VOCABULARY,
    KnownErrors,
    Node,
    Rounding,
    signs_alike,
)

NODE = Node(primitive="mul", operands=(0, 1), attributes=(), outputs=(2,), operator=0)
UNIT = UNIT_ROUNDOFF["bfloat16"]


def disturbed(array: np.ndarray) -> np.ndarray:
    (found,) = Rounding({0: UNIT}, seed=1).disturb_results(NODE, [array, array], [array])
    return found


def test_numbers_are_moved_by_the_unit_roundoff() -> None:
    array = np.linspace(0.1, 0.9, 64)

    assert np.allclose(np.abs(disturbed(array) / array - 1), UNIT, rtol=1e-6)


def test_whole_numbers_that_the_dtype_holds_stay() -> None:
    array = np.array([0.0, -3.0, 128.0, np.inf, -np.inf, np.nan])

    assert np.array_equal(disturbed(array), array, equal_nan=True)


def test_whole_numbers_beyond_its_digits_are_moved() -> None:
    array = np.array([513.0, -1025.0])

    assert (disturbed(array) != array).all()


def test_terms_of_long_sums_are_moved_by_the_rounding_of_partial_sums() -> None:
    node = Node(primitive="matmul", operands=(0, 1), attributes=(), outputs=(2,), operator=0)
    rows, columns = np.full((2, 1024), 0.3), np.full((1024, 3), 0.7)
    moved = {
        dtype: Rounding({0: UNIT_ROUNDOFF[dtype]}, seed=1).disturb_operands(node, [rows, columns])
        for dtype in ("float32", "bfloat16")
    }

    # 1024 products in 8 lanes: each is in 64 partial sums, on average.
    single, coarse = (np.abs(one[0] / rows - 1) for one in moved.values())
    assert np.allclose(single, np.sqrt(65) * 2.0**-24, rtol=1e-6)
    assert np.allclose(coarse, 2.0**-8, rtol=1e-6)


def test_executions_that_know_of_each_other_make_the_errors_that_each_makes_alone() -> None:
    array = np.random.default_rng(0).uniform(0.1, 0.9, (4, 256))
    result, known = array.sum(-1), KnownErrors()
    axes = (("axes", (1,)), ("keepdims", False))
    node = Node(primitive="sum", operands=(0,), attributes=axes, outputs=(2,), operator=0)

    for seed in (1, 2):
        alone = Rounding({0: UNIT}, seed=seed).disturb_results(node, [array], [result])
        found = Rounding({0: UNIT}, seed=seed, known=known).disturb_results(node, [array], [result])
        assert np.array_equal(alone[0], found[0])
        assert (found[0] != result).all()

    assert known.sizes[2, (4,)].shape == (4,)
    assert known.fractional == {(2, -1)}


def test_whole_numbers_stay_in_each_execution() -> None:
    array, known = np.array([0.5, 3.0]), KnownErrors()

    for seed in (1, 2):
        rounding = Rounding({0: UNIT}, seed=seed, known=known)
        (found,) = rounding.disturb_results(NODE, [array, array], [array])
        assert found[0] != 0.5
        assert found[1] == 3.0


def test_equal_numbers_get_equal_errors_where_that_is_asked_for() -> None:
    array = np.tile(np.random.default_rng(0).uniform(0.1, 0.9, 500), 4)

    (alike,) = Rounding({0: UNIT}, seed=1, by_value=True).disturb_results(NODE, [], [array])
    (others,) = Rounding({0: UNIT}, seed=2, by_value=True).disturb_results(NODE, [], [array])

    assert np.allclose(np.abs(alike / array - 1), UNIT, rtol=1e-6)
    assert (alike.reshape(4, -1) == alike[:500]).all()
    # Of 500 numbers some 250 get another sign, and some 250 one that is negative.
    assert 190 < np.count_nonzero((alike != others)[:500]) < 310
    assert 190 < np.count_nonzero(alike[:500] < array[:500]) < 310


def test_signs_do_not_depend_on_that_of_the_number() -> None:
    array = np.linspace(-1, 1, 64)

    signs = signs_alike(array, 5)

    assert np.array_equal(signs, signs_alike(-array, 5))
    assert np.array_equal(signs, signs_alike(array + 1j, 5))
    assert set(signs) == {-1.0, 1.0}


def test_errors_of_equal_terms_grow_with_their_number() -> None:
    node = Node(primitive="matmul", operands=(0, 1), attributes=(), outputs=(2,), operator=0)
    unit = UNIT_ROUNDOFF["float32"]
    found = {}
    for count in (64, 4096):
        rows, columns = np.full((2, count), 1 / count), np.full((count, 3), 0.7)
        rounding = Rounding({0: unit}, seed=1, by_value=True)
        (moved,) = rounding.disturb_results(node, [rows, columns], [rows @ columns])
        found[count] = float(np.abs(moved / 0.7 - 1).max()) / unit

    assert found[64] < 32
    assert found[4096] > 256


def test_a_number_stays_one_where_equal_numbers_get_equal_errors() -> None:
    node = Node(
        primitive="sum", operands=(0,), attributes=(("axes", ()), ("keepdims", False)),
        outputs=(2,), operator=0,
    )  # fmt: skip

    rounding = Rounding({0: UNIT}, seed=1, by_value=True)
    (found,) = rounding.disturb_results(node, [np.array(0.3)], [np.array(0.3)])

    assert np.shape(found) == np.shape(signs_alike(np.array(0.3), 1)) == ()


def test_choices_are_exact_primitives_of_the_vocabulary() -> None:
    assert CHOOSING <= EXACT
    assert VOCABULARY.keys() >= EXACT


def test_a_choice_that_is_held_is_what_was_given() -> None:
    node = Node(primitive="argmin", operands=(0,), attributes=(), outputs=(2,), operator=0)
    rounding = Rounding({0: UNIT}, seed=1)
    rounding.held = {2: np.array(3)}

    (found,) = rounding.disturb_results(node, [np.zeros(4)], [np.array(0)])

    assert found == 3


@pytest.mark.parametrize("primitive", ["softmax", "log_softmax"])
def test_a_row_that_is_masked_as_a_whole_stays_even(primitive: str) -> None:
    masked = np.full((1, 4), float(np.finfo(np.float32).min))
    node = Node(primitive=primitive, operands=(0,), attributes=(("axis", 1),), outputs=(1,),
                operator=0)  # fmt: skip

    (found,) = Rounding({0: 2.0**-24}, seed=1).disturb_operands(node, [masked])

    np.testing.assert_array_equal(found, masked)
