"""How a leaf that is no copy is made of the elements that it should hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from padiff.comparer.proving import Made, Making, making_of
from padiff.comparer.report.fault_words import worded_making
from padiff.pairing import IDENTITY, Rule

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]
UNIT = 2.0**-24
WHOLE = np.random.default_rng(5).standard_normal((16, 16)).astype(np.float32)
ORDER = np.array([3, 0, 7, 12, 1, 14, 9, 2, 15, 4, 8, 11, 5, 13, 6, 10])

MADE: dict[str, Callable[[Array], Array]] = {
    "transposed": lambda x: x.T,
    "reversed along axis 1": lambda x: x[:, ::-1],
    "equal blocks along axis 0 in the order 0, 1, 3, 2": lambda x: np.concatenate(
        [x[:8], x[12:], x[8:12]]
    ),
    "equal blocks along axis 1 in the order 1, 0": lambda x: np.roll(x, 8, axis=1),
    "moved along axis 0 as by reshape(2, 4, 2).swapaxes(1, 2)": lambda x: (
        x.reshape(2, 4, 2, 16).swapaxes(1, 2).reshape(16, 16)
    ),
    "the same elements in another order along axis 0": lambda x: x[ORDER],
    "the same elements in another order": lambda x: x.reshape(-1)[
        np.random.default_rng(1).permutation(256)
    ].reshape(16, 16),
    "each element times 0.125": lambda x: x * np.float32(0.125),
    "each element times -1": lambda x: -x,
    "each element times 1.1": lambda x: x * np.float32(1.1),
    "each element 1 more": lambda x: x + np.float32(1),
    "each element 0.5 less": lambda x: x - np.float32(0.5),
    "each element is 0": np.zeros_like,
}


@pytest.mark.parametrize("words", MADE)
def test_what_became_of_a_leaf_is_told(words: str) -> None:
    found = making_of(IDENTITY, [WHOLE], np.ascontiguousarray(MADE[words](WHOLE)), UNIT)

    assert found is not None
    assert worded_making(found) == words


@pytest.mark.parametrize(
    "found",
    [
        WHOLE * (1 + np.linspace(0, 1e-3, 16, dtype=np.float32)),
        np.where(np.eye(16, dtype=np.bool_), WHOLE + 1, WHOLE).astype(np.float32),
        np.where(WHOLE > 1, np.nan, WHOLE).astype(np.float32),
        np.where(WHOLE > 1, WHOLE[0, 0], WHOLE),
    ],
)
def test_nothing_is_told_of_other_elements(found: Array) -> None:
    assert making_of(IDENTITY, [WHOLE], found, UNIT) is None


def test_a_rule_that_was_left_out_is_named() -> None:
    rule = Rule.parse("transpose")

    assert making_of(rule, [WHOLE], WHOLE, UNIT) == Made(kind=Making.PLAIN, rule="transpose")
    assert making_of(rule, [WHOLE], np.ascontiguousarray(WHOLE.T[:, ::-1]), UNIT) == Made(
        kind=Making.REVERSED, axis=1
    )


def test_kernels_say_the_order_of_their_axes() -> None:
    kernel = WHOLE.reshape(4, 4, 4, 4)

    found = making_of(IDENTITY, [kernel], np.ascontiguousarray(kernel.transpose(0, 1, 3, 2)), UNIT)

    assert found == Made(kind=Making.AXES, numbers=(0, 1, 3, 2))
    assert worded_making(found) == "axes in the order 0, 1, 3, 2"


def test_gates_of_a_bias_are_told_though_some_hold_the_same() -> None:
    bias = np.concatenate([np.zeros(4), np.arange(4.0), np.ones(4), np.full(4, 2.0)])

    found = making_of(IDENTITY, [bias], np.concatenate([bias[:8], bias[12:], bias[8:12]]), 0.0)

    assert found == Made(kind=Making.BLOCKS, axis=0, numbers=(0, 1, 3, 2))


def test_a_coarser_dtype_hides_no_order() -> None:
    coarse = WHOLE.astype(ml_dtypes.bfloat16)

    found = making_of(IDENTITY, [WHOLE], np.ascontiguousarray(coarse.T), 2.0**-8)

    assert found == Made(kind=Making.AXES, numbers=(1, 0))


def test_whole_numbers_are_told_exactly() -> None:
    table = np.arange(16).reshape(4, 4)

    assert making_of(IDENTITY, [table], table + 1, 0.0) == Made(kind=Making.SHIFTED, numbers=(1.0,))
    assert making_of(IDENTITY, [table], table // 2, 0.0) is None
