"""The closer look at what diverged says where the error is, and stays small."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.comparer import detail
from padiff.comparer.detail import describe
from padiff.comparer.result import Tolerance

EXACT = Tolerance(atol=0.0, rtol=0.0)


def test_profile_and_map_show_the_one_wrong_channel() -> None:
    reference = np.zeros((2, 3, 4))
    candidate = reference.copy()
    candidate[:, 1] = 0.5

    found = describe(reference, candidate, EXACT)

    assert [profile.largest for profile in found.profiles] == [
        (0.5, 0.5), (0.0, 0.5, 0.0), (0.5, 0.5, 0.5, 0.5),
    ]  # fmt: skip
    assert found.heat_shape == (6, 4)
    assert [row[0] for row in found.heat] == [0.0, 0.5, 0.0, 0.0, 0.5, 0.0]


def test_mismatches_are_the_first_in_order_with_both_values() -> None:
    found = describe(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.5, np.nan]), EXACT)

    assert [(one.index, one.reference, one.candidate) for one in found.mismatches] == [
        ((1,), "2", "2.5"), ((2,), "3", "nan"),
    ]  # fmt: skip


def test_equal_nonfinite_elements_are_no_error() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 1.0])

    found = describe(values, values.copy(), EXACT)

    assert found.heat == ((0.0, 0.0, 0.0, 0.0),)
    assert found.mismatches == ()


def test_histograms_share_one_range() -> None:
    found = describe(np.array([0.0, 1.0]), np.array([0.0, 4.0]), EXACT).histogram

    assert found is not None
    assert (found.low, found.high) == (0.0, 4.0)
    assert (sum(found.reference), sum(found.candidate)) == (2, 2)
    assert found.candidate[-1] == 1


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (7, 1000, 13), (5000,)])
def test_every_shape_gives_a_bounded_description(shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    reference = generator.normal(size=shape)
    candidate = reference + 1.0

    found = describe(reference, candidate, EXACT)

    assert len(found.heat) <= detail.HEAT_ROWS
    assert all(len(row) <= detail.HEAT_COLUMNS for row in found.heat)
    assert all(len(profile.largest) <= detail.POINTS for profile in found.profiles)
    assert len(found.mismatches) <= detail.SHOWN


def test_largest_error_survives_being_made_smaller() -> None:
    reference = np.zeros((500, 700))
    candidate = reference.copy()
    candidate[321, 654] = 9.0

    found = describe(reference, candidate, EXACT)

    assert max(map(max, found.heat)) == 9.0
    assert [max(profile.largest) for profile in found.profiles] == [9.0, 9.0]


def test_integers_and_complex_numbers_are_taken() -> None:
    whole = describe(np.array([1, 2]), np.array([1, 5]), EXACT)
    imaginary = describe(np.array([3 + 4j]), np.array([0j]), EXACT)

    assert whole.heat == ((0.0, 3.0),)
    assert imaginary.heat == ((5.0,),)
