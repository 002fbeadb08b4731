"""A divergence of 1 % of the elements is in a sample of 4096 with the stated probability.

For elements that diverge independently of the positions, a sample of n distinct ones misses a
share p with probability at most (1 - p) ** n: 1e-18 for p = 1 % and n = 4096. Smaller samples are
held against the same formula, where misses do occur. Divergences that follow an axis are found
always, as every index of an axis up to the count is in the sample.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff.dumpfile import sample_positions
from padiff.pairing import Elements, Rule, match_elements

SHARE = 0.01
SHAPES = ((300, 200), (2, 16, 40, 50), (100_000,), (17, 64, 65))


def misses(shape: tuple[int, ...], count: int, trials: int) -> int:
    """Count how often a random 1 % of the elements are all outside the sample."""
    positions = sample_positions(shape, count)
    size = math.prod(shape)
    random = np.random.default_rng(0)
    wrong = int(SHARE * size)
    found = 0
    for _ in range(trials):
        is_wrong = np.zeros(size, np.bool_)
        is_wrong[random.choice(size, wrong, replace=False)] = True
        found += not is_wrong[positions].any()
    return found


@given(st.sampled_from(SHAPES), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_one_percent_is_found_by_4096_elements(shape: tuple[int, ...], seed: int) -> None:
    random = np.random.default_rng(seed)
    reference = random.standard_normal(shape).astype(np.float32)
    candidate = reference.copy()
    wrong = random.choice(reference.size, math.ceil(SHARE * reference.size), replace=False)
    candidate.reshape(-1)[wrong] += 1e-3

    def held(array: np.ndarray) -> Elements:
        positions = sample_positions(shape, 4096)
        return Elements(shape=shape, values=array.reshape(-1)[positions], positions=positions)

    found = match_elements(Rule(), [held(reference)], held(candidate))

    assert found is not None
    assert found.places.size >= 4096
    assert (np.abs(found.candidate - found.reference) > 1e-4).any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [30, 60])
def test_smaller_samples_miss_as_often_as_the_formula_says(
    shape: tuple[int, ...], count: int
) -> None:
    trials = 400
    probability = (1 - SHARE) ** sample_positions(shape, count).size

    found = misses(shape, count, trials)

    # Four standard deviations of a binomial distribution around its mean.
    spread = 4 * math.sqrt(trials * probability * (1 - probability))
    assert abs(found - trials * probability) <= spread + 1


@given(st.sampled_from(SHAPES), st.data())
@settings(max_examples=60, deadline=None)
def test_one_wrong_index_of_any_axis_is_always_found(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    index = data.draw(st.integers(0, min(shape[axis], 4096) - 1))

    found = np.unravel_index(sample_positions(shape, 4096), shape)[axis]

    assert shape[axis] > 4096 or index in found
