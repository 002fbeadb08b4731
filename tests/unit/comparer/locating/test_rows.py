"""Rows at other places: where they lie, and whether what was made of them is nearly right."""

from __future__ import annotations

import numpy as np

from padiff.comparer.locating.rows import are_nearly, row_order
from tests.support.layer_pairs import normal

ROWS = normal(4, 5, 8, seed=41)
ORDER = np.random.default_rng(2).permutation(20)
MOVED = ROWS.reshape(20, 8)[ORDER]
KERNEL = normal(8, 6, seed=42)


def test_each_row_is_found_again_whatever_the_shape() -> None:
    found = row_order(ROWS, MOVED.reshape(2, 10, 8) + np.float32(1e-6))

    assert found is not None
    assert np.array_equal(found, ORDER)


def test_other_rows_have_no_order() -> None:
    assert row_order(ROWS, normal(20, 8, seed=43)) is None
    assert row_order(ROWS, MOVED[:, :4]) is None
    assert row_order(ROWS, MOVED[:19]) is None
    assert row_order(ROWS, np.moveaxis(ROWS, 0, 2).reshape(10, 16)) is None


def test_what_is_off_a_little_in_its_order_is_nearly_right() -> None:
    known = ROWS.reshape(20, 8) @ KERNEL
    found = known[ORDER] * np.float32(1.1) + np.float32(3)

    assert are_nearly(known, found, ORDER)


def test_what_was_mixed_with_other_rows_is_not() -> None:
    """A mean of each row and the next, which are others in another order; all share a bias."""
    known = ROWS.reshape(20, 8) + np.float32(50)
    mixed = [(one + np.roll(one, 1, axis=0)) / 2 for one in (known, known[ORDER])]

    assert not are_nearly(mixed[0], mixed[1], ORDER)


def test_few_rows_that_differ_may_be_those_of_a_wrong_order() -> None:
    known = ROWS.reshape(20, 8)
    found = known[ORDER].copy()
    found[:4] *= np.float32(1.05)

    assert not are_nearly(known, found, ORDER)


def test_other_numbers_of_rows_and_what_is_not_finite_say_nothing() -> None:
    known = ROWS.reshape(20, 8)

    assert not are_nearly(known[:10], known[:10], ORDER)
    assert not are_nearly(known, np.full_like(known, np.nan), ORDER)
