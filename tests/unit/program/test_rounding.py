"""Random errors stand for what a dtype rounds, and leave alone what it does not round."""

from __future__ import annotations

import numpy as np

from padiff.program import UNIT_ROUNDOFF, Node, Rounding

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
