"""Errors of long sums: any order of adding in a dtype is allowed, a coarser dtype is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.program import UNIT_ROUNDOFF, Node, Rounding, rounding
from padiff.program.rounding import error_in_order

if TYPE_CHECKING:
    from collections.abc import Callable

UNIT = UNIT_ROUNDOFF["float32"]
SOUND = 8.0
"""Up to how many times its rounding the audit takes a value for sound."""
TERMS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "both signs": lambda draw, size: draw.normal(size=size),
    "one sign": lambda draw, size: draw.uniform(1, 2, size=size),
    "an offset": lambda draw, size: draw.normal(2, 3, size=size),
    "many small ones": lambda draw, size: np.exp(draw.normal(0, 3, size=size)),
    "one that hides the rest": lambda draw, size: np.append(1e6, draw.uniform(0, 0.05, size - 1)),
}


def disturbed(primitive: str, taken: np.ndarray, result: np.ndarray, **attributes: object) -> float:
    """Return the largest error that rounding may make, of three draws."""
    node = Node(
        primitive=primitive,
        operands=(0,),
        attributes=tuple(sorted(attributes.items())),
        outputs=(1,),
        operator=0,
    )
    runs = (Rounding({0: UNIT}, seed=seed) for seed in range(3))
    return max(
        float(np.abs(run.disturb_results(node, [taken], [result])[0] - result).max())
        for run in runs
    )


@pytest.mark.parametrize("size", [100, 10_000, 300_000])
@pytest.mark.parametrize("terms", TERMS)
def test_adding_one_after_the_other_in_float32_is_within_the_rounding(
    terms: str, size: int
) -> None:
    numbers = TERMS[terms](np.random.default_rng(size), size).astype(np.float32)
    exact = numbers.astype(np.float64)
    result = np.asarray(exact.sum())

    one_by_one = float(np.cumsum(numbers, dtype=np.float32)[-1])

    allowed = disturbed("sum", exact, result, axes=(0,), keepdims=False)
    assert abs(one_by_one - result) <= SOUND * allowed


def test_terms_that_cancel_in_the_order_in_which_they_lie_may_be_added_in_another() -> None:
    """A norm makes rows that add up to zero; kernels add them in lanes."""
    rows = np.random.default_rng(0).normal(size=(512, 4))
    numbers = (rows - rows.mean(-1, keepdims=True)).astype(np.float32).reshape(-1)
    exact = numbers.astype(np.float64)
    result = np.asarray(exact.sum())

    draws = (np.random.default_rng(seed).permutation(numbers) for seed in range(50))
    added = [float(np.cumsum(one, dtype=np.float32)[-1]) for one in draws]

    allowed = disturbed("sum", exact, result, axes=(0,), keepdims=False)
    assert np.abs(np.array(added) - result).max() <= SOUND * allowed


@pytest.mark.parametrize("terms", ["both signs", "an offset"])
def test_adding_in_half_precision_is_beyond_the_rounding_of_float32(terms: str) -> None:
    numbers = TERMS[terms](np.random.default_rng(0), 768)
    result = np.asarray(numbers.sum())

    coarse = float(np.cumsum(numbers.astype(np.float16), dtype=np.float16)[-1])

    allowed = disturbed("sum", numbers, result, axes=(0,), keepdims=False)
    assert abs(coarse - result) > SOUND * allowed


@pytest.mark.parametrize("primitive", ["softmax", "log_softmax"])
def test_a_normaliser_of_many_terms_rounds_as_its_sum(primitive: str) -> None:
    rows = np.random.default_rng(1).normal(size=(200_000, 2)) * 3
    powers = np.exp(rows)
    exact = powers / powers.sum(0) if primitive == "softmax" else rows - np.log(powers.sum(0))
    # A kernel that adds in float32, one after the other.
    single = powers.astype(np.float32)
    total = np.cumsum(single, axis=0, dtype=np.float32)[-1].astype(np.float64)
    found = powers / total if primitive == "softmax" else rows - np.log(total)

    node = Node(
        primitive=primitive, operands=(0,), attributes=(("axis", 0),), outputs=(1,), operator=0
    )
    (moved,) = Rounding({0: UNIT}, seed=1).disturb_results(node, [rows], [exact])

    assert (np.abs(found - exact) <= SOUND * np.abs(moved - exact) + 4 * UNIT * abs(exact)).all()
    assert np.abs(found - exact).max() > 4 * UNIT * np.abs(exact).max()


def test_errors_of_scans_grow_along_their_axis() -> None:
    numbers = np.random.default_rng(2).uniform(1, 2, size=(3, 1000))
    exact = np.cumsum(numbers, axis=1)
    node = Node(
        primitive="cumsum", operands=(0,), attributes=(("axis", 1),), outputs=(1,), operator=0
    )

    (moved,) = Rounding({0: UNIT}, seed=1).disturb_results(node, [numbers], [exact])

    errors = np.abs(moved - exact)
    assert (errors[:, -1] > 50 * errors[:, 0]).all()


def test_sums_over_no_element_and_of_numbers_alone_are_exact() -> None:
    empty = np.zeros((0, 3))

    assert disturbed("sum", empty, np.zeros(3), axes=(0,), keepdims=False) == 0
    assert disturbed("sum", np.asarray(0.3), np.asarray(0.3), axes=(), keepdims=False) <= 2 * UNIT


def test_what_was_counted_is_exact() -> None:
    counted = np.repeat([1.0, 0.0, 1.0], 100)[None]
    node = Node(
        primitive="cumsum", operands=(0,), attributes=(("axis", 1),), outputs=(1,), operator=0
    )
    exact = np.cumsum(counted, axis=1)

    (moved,) = Rounding({0: UNIT}, seed=1).disturb_results(node, [counted], [exact])

    assert np.array_equal(moved, exact)


def test_a_product_in_order_is_off_by_what_float32_rounds() -> None:
    random = np.random.default_rng(0)
    left, right = random.standard_normal((2, 3, 64)), random.standard_normal((64, 5))

    found = error_in_order(left, right)

    assert found is not None
    assert found.shape == (2, 3, 5)
    assert 0 < np.abs(found).max() < 64 * UNIT * np.abs(left).max() * np.abs(right).max() * 64


def test_vectors_are_left_out() -> None:
    assert error_in_order(np.zeros(64), np.zeros((64, 5))) is None


def test_rows_of_a_large_product_stand_for_their_neighbours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, right = np.full((2, 7, 400), 0.3), np.full((400, 3), 0.7)
    whole = error_in_order(left, right)
    monkeypatch.setattr(rounding, "_MOST_IN_ORDER", 2 * 2 * 400 * 3)

    found = error_in_order(left, right)

    assert whole is not None
    assert found is not None
    # What the sums are off from is a product in float64, whose last bits a kernel's blocks decide.
    np.testing.assert_allclose(found, whole, rtol=1e-9)
    np.testing.assert_allclose(whole, whole[0, 0, 0], rtol=1e-9)
    assert whole[0, 0, 0] != 0
