"""Only what the numbers bear out is named, and the profile says where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from tests.support.layer_pairs import IMAGE, TOKENS, Array, changed, names, normal, origin

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("size", [1.0, 0.1, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_an_error_without_a_shape_has_no_cause(
    size: float, seed: int, dtype: type, tmp_path: Path
) -> None:
    found = TOKENS + size * normal(*TOKENS.shape, seed=50 + seed)

    result = origin(TOKENS.astype(dtype), found.astype(dtype), tmp_path, source=TOKENS * 2)

    assert names(result) == []


UNRELATED: list[tuple[str, Array]] = [
    ("another weight of the layer", TOKENS @ normal(8, 8, seed=60)),
    ("a square instead of the value", TOKENS**2),
    ("a threshold", np.where(np.abs(TOKENS) > 1, 0, TOKENS)),
    ("products of neighbours", TOKENS * np.roll(TOKENS, 3, axis=2)),
    ("a norm", TOKENS / np.linalg.norm(TOKENS, axis=2, keepdims=True)),
]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("what", "found"), UNRELATED)
def test_an_unrelated_fault_gets_no_hint(
    what: str, found: Array, dtype: type, tmp_path: Path
) -> None:
    result = origin(
        TOKENS.astype(dtype), found.astype(np.float32).astype(dtype), tmp_path,
        source=normal(2, 6, 8, seed=70),
    )  # fmt: skip

    assert names(result) == [], what


def test_the_profile_says_where(tmp_path: Path) -> None:
    result = origin(TOKENS, changed(TOKENS, np.s_[:, 2:, 3]), tmp_path)

    assert [axis.name for axis in result.profile] == ["batch", "token", "feature"]
    assert [axis.mismatched for axis in result.profile] == [(0, 1), (2, 3, 4, 5), (3,)]
    assert result.profile[1].max_abs[:2] == (0.0, 0.0)


def test_where_elements_lie_in_another_order_is_said(tmp_path: Path) -> None:
    found = IMAGE.copy()
    found[:, 1] = np.random.default_rng(7).permutation(found[:, 1].ravel()).reshape(2, 9, 9)

    causes = [cause.text for cause in origin(IMAGE, found, tmp_path).causes]

    assert causes[0] == "the same elements in another order"
    assert causes[1].startswith("only in channel 1 of 4")
