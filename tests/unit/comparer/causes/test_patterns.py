"""What the shape of an error is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from padiff.comparer.causes.attentioncauses import _number
from padiff.comparer.causes.functioncauses import rounded
from padiff.comparer.causes.losscauses import _multiple
from tests.support.layer_pairs import IMAGE, SQUARE, TOKENS, Array, changed, names, normal, origin

if TYPE_CHECKING:
    from pathlib import Path


SHAPES = [
    (IMAGE, IMAGE * np.float32(0.125), "factor", "0.125 times"),
    (IMAGE, -IMAGE, "sign", "opposite sign"),
    (IMAGE, IMAGE + np.float32(0.5), "offset", "plus 0.5"),
    (TOKENS, TOKENS + normal(8, seed=9), "bias", "one number per feature"),
    (SQUARE, SQUARE.T.copy(), "transposed", "transposing axes 0 and 1"),
    (TOKENS, TOKENS[:, ::-1].copy(), "permuted", "reversing axis 1 (token)"),
    (TOKENS, TOKENS.reshape(-1)[::-1].copy().reshape(TOKENS.shape), "permuted", "order"),
    (IMAGE, changed(IMAGE, np.s_[:, :, 0, 3:5]), "border", "within 1 of an edge"),
    (IMAGE, changed(IMAGE, np.s_[0, 2, 3:6, 3:6]), "some_indices", "channel 2 of 4"),
    (IMAGE, changed(IMAGE, np.s_[1, :, 3:6, 3:6]), "tail", "batch 1 of 2"),
    (TOKENS, changed(TOKENS, np.s_[:, 2:, 3:7]), "tail", "from token 2 of 6 on"),
    (IMAGE, IMAGE / np.float32(np.sqrt(8)), "factor", "1/sqrt(8)"),
    (
        IMAGE,
        np.pad(IMAGE, ((0, 0), (0, 0), (1, 0), (1, 0)))[:, :, :-1, :-1].copy(),
        "shifted",
        "off by one",
    ),
    (TOKENS, np.roll(TOKENS, 1, axis=1), "shifted", "+1 along token"),
    (TOKENS, changed(TOKENS, np.s_[:, :5, 3:7]), "head", "up to token 4 of 6"),
    (
        IMAGE,
        IMAGE * (1 + np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1)),
        "feature_factor",
        "one number per channel (1 to 4)",
    ),
    (
        IMAGE,
        changed(changed(changed(IMAGE, np.s_[:, :, 0]), np.s_[:, :, -1]), np.s_[..., -1]),
        "border",
        "of an edge of (9, 9)",
    ),
]
"""What it should be, what it is, the cause, and what must be said."""


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("expected", "found", "name", "text"), SHAPES)
def test_the_shape_of_an_error_is_named(
    expected: Array, found: Array, name: str, text: str, dtype: type, tmp_path: Path
) -> None:
    result = origin(expected.astype(dtype), found.astype(dtype), tmp_path)

    assert name in names(result)
    assert any(text in line for line in result.evidence)


def test_a_shorter_format_is_named(tmp_path: Path) -> None:
    cut = (IMAGE.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    result = origin(IMAGE, cut, tmp_path)

    assert any("bfloat16" in line for line in result.evidence)
    assert names(result) == ["precision"]


def test_elements_that_all_shrink_are_no_rounding(tmp_path: Path) -> None:
    """A wrong epsilon shrinks each channel by a factor of its own, about 2**-11 here."""
    shrunk = np.array([0.9994, 0.9995, 0.9996, 0.9993], np.float32).reshape(1, 4, 1, 1)

    result = origin(IMAGE, IMAGE * shrunk, tmp_path)

    assert "precision" not in names(result)


def test_rounding_in_the_middle_is_lower_precision(tmp_path: Path) -> None:
    error = np.sign(normal(*IMAGE.shape, seed=5)) * np.float32(4e-4)

    result = origin(IMAGE, IMAGE * (1 + error), tmp_path)

    assert "precision" in names(result)


def test_positions_that_are_off_by_one_are_recognised(tmp_path: Path) -> None:
    positions = np.arange(6).reshape(1, 6)

    result = origin(positions, positions + 1, tmp_path)

    assert names(result) == ["offset"]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_other_elements_of_the_same_distribution_are_no_other_order(
    dtype: type, tmp_path: Path
) -> None:
    expected = normal(4, 8, 40, 40, seed=81)

    result = origin(expected.astype(dtype), normal(4, 8, 40, 40, seed=82).astype(dtype), tmp_path)

    assert names(result) == []


def test_a_small_tensor_that_is_roughly_a_multiple_or_a_clamp_is_neither(tmp_path: Path) -> None:
    other = TOKENS + np.float32(0.2) * normal(*TOKENS.shape, seed=7)

    found = names(origin(TOKENS, other * np.float32(0.002), tmp_path))

    assert {"factor", "function"}.isdisjoint(found)


@pytest.mark.parametrize(
    ("factor", "said"),
    [(1.00073, False), (1.0001, False), (np.sqrt(8 / 7), True), (np.sqrt(47 / 48), True)],
)
def test_a_factor_near_one_is_a_deviation_only_of_a_size_that_is_there(
    factor: float, said: bool, tmp_path: Path
) -> None:
    """Tokens have the shape (2, 6, 8)."""
    result = origin(TOKENS, TOKENS * np.float32(factor), tmp_path)

    assert names(result) == ["factor"]
    assert any("as of a deviation" in line for line in result.evidence) is said


@pytest.mark.parametrize("filled", [np.finfo(np.float64).min, np.finfo(np.float64).max / 2])
def test_elements_whose_squares_are_infinite_are_no_trouble(filled: float, tmp_path: Path) -> None:
    """The masks of two frameworks, or of a float32 and a float64 model."""
    expected = np.triu(np.full((6, 6), float(np.finfo(np.float32).min)), 1)
    found = np.triu(np.full((6, 6), filled), 1)

    result = origin(expected, found, tmp_path)

    assert not {"factor", "offset"} & set(names(result))


def test_numbers_that_are_not_finite_are_not_rounded() -> None:
    for number in (np.inf, -np.inf):
        assert rounded(number, 1e-5) == number
    assert np.isnan(rounded(np.nan, 1e-5))
    assert _number(0.0) == "0"
    assert _multiple(5e-324, 1.0) == []
    assert _multiple(1.0, 5e-324) == []
