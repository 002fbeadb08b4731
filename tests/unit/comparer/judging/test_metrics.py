"""Metrics of single pairs, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import Tolerance, measure
from padiff.dumpfile import CompareError

Array = npt.NDArray[Any]

EXACT = Tolerance(atol=0.0, rtol=0.0)


def test_all_metrics_of_a_small_pair() -> None:
    reference, candidate = np.array([3.0, 4.0]), np.array([3.0, 5.0])

    found = measure(reference, candidate, Tolerance(atol=0.5, rtol=0.0))

    assert (found.size, found.mismatched, found.max_abs, found.max_rel) == (2, 1, 1.0, 0.25)
    assert (found.max_abs_index, found.max_rel_index, found.mean_abs) == ((1,), (1,), 0.5)
    assert found.relative_l2 == pytest.approx(0.2)
    assert found.cosine == pytest.approx(29 / (5 * math.sqrt(34)))
    assert found.needed_atol == pytest.approx(1.0)
    assert found.needed_rtol == pytest.approx(0.125)


def test_shapes_are_never_broadcast() -> None:
    with pytest.raises(CompareError):
        measure(np.zeros((4, 1)), np.zeros((1, 3)), EXACT)


def test_kinds_are_never_mixed() -> None:
    with pytest.raises(CompareError):
        measure(np.zeros(3, np.int64), np.zeros(3), EXACT)


@pytest.mark.parametrize("scale", [1e-36, 1e-39, 1e-41, 1e-44])
@pytest.mark.parametrize("count", [7, 5000, 300_000])
def test_numbers_near_the_smallest_are_measured(scale: float, count: int) -> None:
    draws = np.random.default_rng(0).standard_normal((2, count))
    reference = (draws[0] * scale).astype(np.float32)
    candidate = reference + (draws[1] * scale).astype(np.float32)

    found = measure(reference, candidate, EXACT)

    off = np.abs(candidate.astype(np.float64) - reference.astype(np.float64))
    assert found.max_abs == off.max()
    assert found.mismatched == np.count_nonzero(off)
    assert found.needed_atol == pytest.approx(off.max(), rel=1e-9)


@pytest.mark.parametrize("size", [3, 100_000])
def test_nan_against_a_number_is_a_mismatch(size: int) -> None:
    reference, candidate = np.zeros(size, np.float32), np.zeros(size, np.float32)
    candidate[1] = math.nan

    found = measure(reference, candidate, Tolerance(atol=10.0, rtol=10.0))

    assert (found.mismatched, found.nan_reference, found.nan_candidate) == (1, 0, 1)
    assert (found.needed_atol, found.needed_rtol, found.max_abs) == (None, None, 0.0)


@pytest.mark.parametrize("size", [4, 100_000])
def test_infinity_agrees_only_with_the_same_infinity(size: int) -> None:
    reference, candidate = np.zeros(size, np.float32), np.zeros(size, np.float32)
    reference[:3] = math.inf, math.inf, math.nan
    candidate[:3] = math.inf, -math.inf, math.nan

    found = measure(reference, candidate, EXACT)

    assert (found.mismatched, found.nonfinite_mismatched) == (1, 1)
    assert (found.inf_reference, found.inf_candidate, found.nan_candidate) == (2, 2, 1)


def test_one_wrong_element_in_a_million_is_found() -> None:
    reference = np.ones(1_000_000, np.float32)
    candidate = reference.copy()
    candidate[777_777] = 1.5

    found = measure(reference, candidate, Tolerance(atol=1e-3, rtol=0.0))

    assert (found.mismatched, found.max_abs_index) == (1, (777_777,))


def test_empty_arrays_agree() -> None:
    found = measure(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), EXACT)

    assert (found.size, found.mismatched, found.max_abs, found.cosine) == (0, 0, None, None)


def test_a_scalar_has_the_empty_index() -> None:
    found = measure(np.array(2.0, np.float32), np.array(3.0, np.float32), EXACT)

    assert (found.max_abs, found.max_abs_index) == (1.0, ())


def test_uint8_does_not_wrap() -> None:
    found = measure(np.array([0], np.uint8), np.array([1], np.uint8), EXACT)

    assert found.max_abs == 1.0


def test_neighbouring_large_integers_differ() -> None:
    found = measure(np.array([2**63], np.uint64), np.array([2**63 + 1], np.uint64), EXACT)

    assert (found.mismatched, found.max_abs) == (1, 1.0)


def test_extreme_int64_do_not_overflow() -> None:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max

    found = measure(np.array([low]), np.array([high]), EXACT)

    assert found.max_abs == pytest.approx(2.0**64)


def test_integers_of_different_width_are_compared() -> None:
    found = measure(np.array([1, 2], np.int32), np.array([1, 3], np.int64), EXACT)

    assert (found.mismatched, found.max_abs) == (1, 1.0)


def test_float16_sums_do_not_overflow() -> None:
    reference = np.full(10_000, 60_000, np.float16)

    found = measure(reference, reference, EXACT)

    assert found.cosine == pytest.approx(1.0)
    assert found.relative_l2 == 0.0


@pytest.mark.parametrize("factor", [1 + 2.0**-20, 1 + 2.0**-17, 1 - 2.0**-15])
def test_sides_that_nearly_agree_have_a_cosine_of_one(factor: float) -> None:
    reference = np.random.default_rng(0).integers(-7, 8, 300_000).astype(np.float32)
    candidate = (reference * factor).astype(np.float32)

    found = measure(reference, candidate, EXACT)

    assert found.cosine == pytest.approx(1.0, rel=0, abs=1e-11)
    assert found.relative_l2 == pytest.approx(abs(factor - 1), rel=1e-5)


def test_tiny_gradients_keep_their_direction() -> None:
    reference = np.full(50_000, 1e-30, np.float32)

    found = measure(reference, -reference, EXACT)

    assert found.cosine == pytest.approx(-1.0)
    assert found.relative_l2 == pytest.approx(2.0)


def test_bfloat16_is_compared_by_value() -> None:
    reference = np.linspace(-2, 2, 10_000).astype(ml_dtypes.bfloat16)

    found = measure(reference, reference.astype(np.float32) + np.float32(0.5), EXACT)

    assert found.max_abs == pytest.approx(0.5)


def test_a_difference_from_zero_is_infinite_relatively() -> None:
    reference = np.zeros(100_000, np.float32)
    candidate = reference.copy()
    candidate[5] = 1e-3

    found = measure(reference, candidate, Tolerance(atol=1e-5, rtol=1e-5))

    assert (found.max_rel, found.max_rel_index, found.needed_rtol) == (math.inf, (5,), None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.int32])
def test_views_give_what_their_copies_give(dtype: type) -> None:
    random = np.random.default_rng(0)
    matrix: Array = (random.standard_normal((300, 401)) * 9).astype(dtype)
    other: Array = (matrix.astype(np.float64) + (random.random((300, 401)) > 0.9)).astype(dtype)
    tolerance = Tolerance(atol=0.5, rtol=0.01)

    found = measure(matrix.T, np.ascontiguousarray(other.T), tolerance)

    wanted = measure(np.ascontiguousarray(matrix.T), np.ascontiguousarray(other.T), tolerance)
    blockwise = {"relative_l2", "cosine", "mean_abs"}  # sums depend on where blocks end
    exact = [field.name for field in fields(found) if field.name not in blockwise]
    assert [getattr(found, name) for name in exact] == [getattr(wanted, name) for name in exact]
    assert found.cosine == pytest.approx(wanted.cosine)
    assert found.relative_l2 == pytest.approx(wanted.relative_l2)


def test_mean_magnitude_is_there_when_asked_for() -> None:
    found = measure(np.array([-1.0, 3.0]), np.array([0.0, 0.0]), EXACT, mean=True)

    assert found.reference_mean_abs == 2.0
