"""Elements follow from fill and seed, on any machine."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.ops.cases import Fill, Tensor, signs


def test_numbers_are_those_of_splitmix64() -> None:
    found = Tensor(shape=(2,), fill=Fill.NORMAL, seed=1, low=0, high=1, dtype="float64").array()

    # The reference implementation gives these two for the states (1 << 32) + 1 and + 2.
    state, mask = [(1 << 32) + place for place in (1, 2)], (1 << 64) - 1
    expected = []
    for one in state:
        mixed = one * 0x9E3779B97F4A7C15 & mask
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & mask
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & mask
        expected.append(((mixed ^ (mixed >> 31)) >> 12) / 2**52)
    assert np.abs(found.astype(float) - expected).max() <= 2**-52


def test_each_special_value_needs_one_element() -> None:
    found = [Tensor(shape=(), fill=Fill.SPECIAL, seed=seed).array() for seed in range(5)]

    assert [str(float(one)) for one in found] == ["0.0", "-0.0", "nan", "inf", "-inf"]


@pytest.mark.parametrize("fill", list(Fill)[:3])
def test_no_element_is_outside_its_bounds(fill: Fill) -> None:
    found = Tensor(shape=(100,), fill=fill, seed=3, low=-1, high=1).array()

    assert (np.abs(found.astype(float)) <= 1).all()


def test_whole_numbers_stay_below_the_upper_bound() -> None:
    found = Tensor(shape=(200,), dtype="int64", fill=Fill.NORMAL, low=0, high=3).array()

    assert set(found.tolist()) == {0, 1, 2}


def test_a_longer_cotangent_begins_with_the_shorter_one() -> None:
    assert signs(9, 4)[:5].tolist() == signs(5, 4).tolist()
    assert (signs(9, 4) * 64 % 1 == 0).all()
