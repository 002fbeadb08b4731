"""Statistics out of bounds prove a divergence; agreeing tensors never are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff.comparer import Tolerance
from padiff.comparer.judging.partly import disagreement
from padiff.dumpfile import statistics_of

LIMITS = Tolerance(atol=1e-3, rtol=1e-2)


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.sampled_from([1e-6, 1.0, 1e6]))
@settings(max_examples=100, deadline=None)
def test_tensors_that_agree_are_never_called_diverged(seed: int, size: int, scale: float) -> None:
    random = np.random.default_rng(seed)
    reference = (random.standard_normal(size) * scale).astype(np.float32)
    allowed = LIMITS.atol + LIMITS.rtol * np.abs(reference.astype(np.float64))
    candidate = (reference + random.uniform(-0.999, 0.999, size) * allowed).astype(np.float32)

    known, found = statistics_of(reference), statistics_of(random.permutation(candidate))

    assert disagreement(known, found, LIMITS, size=size) == ""


@pytest.mark.parametrize(
    ("candidate", "name"),
    [
        ([0.0, 1.0, 9.0], "maximum"),
        ([-9.0, 1.0, 2.0], "minimum"),
        ([0.0, 1.0, np.nan], "nan"),
        ([0.0, np.inf, 2.0], "posinf"),
        ([0.0, 2.0, 2.0], "mean"),
    ],
)
def test_what_no_agreeing_tensor_could_have_is_named(candidate: list[float], name: str) -> None:
    known = statistics_of(np.array([0.0, 1.0, 2.0]))
    found = statistics_of(np.array(candidate))

    assert disagreement(known, found, LIMITS, size=3).startswith(name)


def test_a_swap_is_not_seen_and_so_a_match_is_no_proof() -> None:
    known = statistics_of(np.array([0.0, 1.0, 2.0]))
    found = statistics_of(np.array([2.0, 1.0, 0.0]))

    assert disagreement(known, found, LIMITS, size=3) == ""
