"""Tests of the summary numbers, against values worked out by hand."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from padiff.dumpfile import Statistics, statistics_of
from padiff.dumpfile.statistics import statistics_of_parts

NOTHING = Statistics(minimum=None, maximum=None, mean=None, l2=None)


def test_numbers_of_a_small_array_are_right() -> None:
    found = statistics_of(np.array([[3.0, -4.0], [0.0, -0.0]], dtype=np.float32))

    assert found == Statistics(minimum=-4.0, maximum=3.0, mean=-0.25, l2=5.0, zeros=2)


def test_nonfinite_elements_are_counted_and_left_out() -> None:
    found = statistics_of(np.array([np.nan, np.inf, -np.inf, -np.inf, 0.0, 2.0]))

    assert found == Statistics(
        minimum=0.0, maximum=2.0, mean=1.0, l2=2.0, nan=1, posinf=1, neginf=2, zeros=1
    )


def test_nothing_finite_gives_no_numbers() -> None:
    found = statistics_of(np.full(3, np.nan, dtype=np.float16))

    assert found == Statistics(minimum=None, maximum=None, mean=None, l2=None, nan=3)


@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int8, np.complex64])
def test_empty_arrays_have_no_numbers(dtype: type) -> None:
    assert statistics_of(np.empty((0, 2), dtype=dtype)) == NOTHING


def test_booleans_count_as_zero_and_one() -> None:
    found = statistics_of(np.array([True, True, False, True]))

    assert found == Statistics(minimum=0.0, maximum=1.0, mean=0.75, l2=math.sqrt(3), zeros=1)


def test_complex_numbers_count_by_magnitude() -> None:
    array = np.array([3 + 4j, 0, complex(np.nan, np.inf), complex(1, -np.inf)])

    found = statistics_of(array)

    assert found == Statistics(minimum=0.0, maximum=5.0, mean=2.5, l2=5.0, nan=1, posinf=1, zeros=1)


def test_unsigned_integers_do_not_wrap() -> None:
    found = statistics_of(np.array([2**64 - 1, 0], dtype=np.uint64))

    assert found.maximum == 2.0**64
    assert found.mean == 2.0**63


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
)
def test_sums_of_narrow_floats_do_not_overflow(dtype: type) -> None:
    found = statistics_of(np.full(100_000, 256, dtype=dtype))

    assert found.mean == 256.0
    assert found.l2 == pytest.approx(256.0 * math.sqrt(100_000), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e200, 1.7e308])
def test_squares_out_of_range_do_not_lose_the_norm(scale: float) -> None:
    found = statistics_of(np.array([scale, -scale, 0.5 * scale]))

    assert found.mean == pytest.approx(scale / 6, rel=1e-12)
    expected = math.inf if scale > 1e308 else 1.5 * scale
    assert found.l2 == pytest.approx(expected, rel=1e-12)


def test_many_blocks_agree_with_exact_sums() -> None:
    array = np.random.default_rng(0).standard_normal((257, 129)).astype(np.float32)
    exact = [float(x) for x in array.reshape(-1)]

    found = statistics_of(array)

    assert found.minimum == min(exact)
    assert found.maximum == max(exact)
    assert found.mean == pytest.approx(math.fsum(exact) / array.size, rel=1e-12)
    assert found.l2 == pytest.approx(math.sqrt(math.fsum(x * x for x in exact)), rel=1e-12)


def test_parts_are_summarised_each_by_itself() -> None:
    parts = [[3.0, -4.0, 0.0], [math.nan, 2.0], [0.0, 0.0], [math.inf], [1e300, 0.0], [1e-300]]
    starts = np.cumsum([0, *map(len, parts)])[:-1].tolist()

    found = statistics_of_parts(np.concatenate(parts), starts)

    assert found == [
        Statistics(minimum=-4.0, maximum=3.0, mean=-1 / 3, l2=5.0, zeros=1),
        Statistics(minimum=2.0, maximum=2.0, mean=2.0, l2=2.0, nan=1),
        Statistics(minimum=0.0, maximum=0.0, mean=0.0, l2=0.0, zeros=2),
        Statistics(minimum=None, maximum=None, mean=None, l2=None, posinf=1),
        Statistics(minimum=0.0, maximum=1e300, mean=5e299, l2=1e300, zeros=1),
        Statistics(minimum=1e-300, maximum=1e-300, mean=1e-300, l2=1e-300),
    ]


@pytest.mark.parametrize("dtype", [np.int8, np.bool_, np.float16, ml_dtypes.bfloat16, np.complex64])
def test_a_part_of_any_dtype_is_summarised_as_it_is_alone(dtype: type) -> None:
    array: np.ndarray = np.array([1, 0, 1, 1, 0, 1]).astype(dtype)

    found = statistics_of_parts(array, [0, 4])

    assert found == [statistics_of(array[:4]), statistics_of(array[4:])]
