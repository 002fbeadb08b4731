"""What is wrong with an attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from tests.support.layer_pairs import Array, glued, names, normal

if TYPE_CHECKING:
    from pathlib import Path


def mixed(parts: list[Array], scale: float, *, is_causal: bool = False, axis: int = -1) -> Array:
    query, key, value = (part.reshape(2, 6, 2, 4).transpose(0, 2, 1, 3) for part in parts)
    scores = query @ key.swapaxes(2, 3) * scale
    if is_causal:
        scores = np.where(np.tril(np.ones((6, 6), bool)), scores, -np.inf)
    powers = np.exp(scores)
    made = powers / powers.sum(axis, keepdims=True) @ value
    whole: Array = made.transpose(0, 2, 1, 3).reshape(2, 6, 8).astype(np.float32)
    return whole


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scale": 1.0}, "scale 0.5 (1/sqrt(4)) on the reference, 1 on the candidate"),
        ({"scale": 0.5, "is_causal": True}, "mask none on the reference, causal on the candidate"),
        ({"scale": 0.5, "axis": -2}, "softmax runs over the queries"),
    ],
)
def test_what_is_wrong_with_an_attention_is_said(
    wrong: dict[str, Any], said: str, dtype: type, tmp_path: Path
) -> None:
    parts = [normal(2, 6, 8, seed=seed).astype(dtype).astype(np.float32) for seed in (41, 42, 43)]
    stored: list[Array] = [part.astype(dtype) for part in parts]

    result = glued(
        mixed(parts, 0.5).astype(dtype), mixed(parts, **wrong).astype(dtype), tmp_path, *stored
    )

    assert names(result) == ["attention"]
    assert any(said in line for line in result.evidence)


def test_queries_and_keys_that_are_swapped_are_said(tmp_path: Path) -> None:
    parts = [normal(2, 6, 8, seed=seed) for seed in (41, 42, 43)]

    result = glued(mixed(parts, 0.5), mixed([parts[1], parts[0], parts[2]], 0.5), tmp_path, *parts)

    said = "takes part1 output, part0 output, part2 output as queries, keys and values"
    assert any(said in line for line in result.evidence)
