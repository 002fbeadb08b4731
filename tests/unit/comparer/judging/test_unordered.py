"""Elements that are the same in whatever order."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.comparer.judging.unordered import hold_the_same
from padiff.comparer.result import Tolerance
from tests.support.layer_pairs import normal

CLOSE = Tolerance(atol=1e-5, rtol=1e-5)
X = normal(4, 6, seed=11)


def test_a_permutation_with_rounding_holds_the_same() -> None:
    moved = np.random.default_rng(1).permutation(X.reshape(-1)).reshape(6, 4)

    assert hold_the_same([X], moved + np.float32(1e-6), CLOSE)


def test_parts_hold_what_the_whole_holds() -> None:
    assert hold_the_same([X[:1], X[1:]], X[::-1], CLOSE)


def test_padding_with_zeros_adds_nothing() -> None:
    padded = np.zeros((3, 3, 4), np.float32)
    padded.reshape(-1)[:24] = X[::-1].reshape(-1)

    assert hold_the_same([X], padded, CLOSE)
    assert hold_the_same([padded], X, CLOSE)


@pytest.mark.parametrize(
    "found",
    [X * np.float32(1.01), X.reshape(-1)[:20], np.append(X.reshape(-1), np.float32(3))],
    ids=["scaled", "some lost", "one more"],
)
def test_other_elements_are_not_the_same(
    found: np.ndarray[tuple[int], np.dtype[np.float32]],
) -> None:
    assert not hold_the_same([X], found, CLOSE)


def test_one_element_twice_and_another_lost_is_not_the_same() -> None:
    found = X[::-1].copy()
    found[0, 0] = found[0, 1]

    assert not hold_the_same([X], found, CLOSE)


def test_constants_hold_nothing_that_could_be_moved() -> None:
    assert not hold_the_same([np.ones((2, 3))], np.ones((3, 2)), CLOSE)


def test_unrelated_elements_of_one_distribution_are_not_the_same_at_a_loose_tolerance() -> None:
    known, found = normal(200, 200, seed=1), normal(200, 200, seed=2)

    assert not hold_the_same([known], found, Tolerance(atol=0.05, rtol=0.1))


def test_infinite_elements_are_counted() -> None:
    known = np.array([-np.inf, 0, 1, 2])

    assert hold_the_same([known], known[::-1], CLOSE)
    assert not hold_the_same([known], np.array([2, np.inf, 1, 0]), CLOSE)


def test_whole_numbers_are_the_same_or_not() -> None:
    assert hold_the_same([np.arange(6)], np.arange(6)[::-1], Tolerance(atol=0, rtol=0))
    assert not hold_the_same([np.arange(6)], np.arange(1, 7), Tolerance(atol=0, rtol=0))
