"""Blocks without a difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import Tolerance, measure
from padiff.comparer.judging.metrics import LANE


@pytest.mark.parametrize(
    "value", [0.0, 1e-30, 0.1, 1e30], ids=["zeros", "squares underflow", "plain", "overflow"]
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sums_of_equal_blocks_are_those_of_the_reference(value: float, kind: type) -> None:
    array: npt.NDArray[Any] = np.full(5_000, value, kind)
    found = measure(array, array.copy(), Tolerance(atol=0.0, rtol=0.0), mean=True)
    assert (found.mismatched, found.max_abs, found.mean_abs) == (0, 0.0, 0.0)
    assert (found.relative_l2, found.needed_atol) == (0.0, 0.0)
    # Sums of LANE elements are taken in the array's dtype, in an order that the processor chooses:
    # each of their LANE - 1 additions rounds by at most half an eps (Higham 2002, section 4.2).
    rounding = LANE * float(np.finfo(kind).eps) / 2
    assert found.reference_mean_abs == pytest.approx(float(kind(value)), rel=rounding)
    assert found.cosine == (pytest.approx(1.0) if value else None)


def test_a_difference_behind_equal_blocks_is_found() -> None:
    reference = np.ones(1_000_000, np.float32)
    candidate = reference.copy()
    candidate[700_001] = 1.5
    found = measure(reference, candidate, Tolerance(atol=0.1, rtol=0.0))
    assert (found.mismatched, found.max_abs, found.max_abs_index) == (1, 0.5, (700_001,))
    assert found.mean_abs == pytest.approx(0.5 / 1_000_000)
    assert found.relative_l2 == pytest.approx(0.5 / 1_000)
