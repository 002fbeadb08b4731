"""Another function, another sum of the same tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from tests.support.layer_pairs import TOKENS, Array, glued, names, normal, origin

if TYPE_CHECKING:
    from pathlib import Path


def gelu(x: Array) -> Array:
    made: Array = 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
    return made.astype(np.float32)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (gelu(TOKENS), np.maximum(TOKENS, 0), "is gelu of own input[0], the candidate relu"),
        (gelu(TOKENS), TOKENS / (1 + np.exp(-1.702 * TOKENS)), "the candidate gelu by sigmoid"),
        (np.tanh(TOKENS), TOKENS, "the candidate its input unchanged"),
        (np.exp(TOKENS) / np.exp(TOKENS).sum(2, keepdims=True),
         np.exp(TOKENS) / np.exp(TOKENS).sum(1, keepdims=True), "softmax along axis 1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_another_function_of_the_same_input_is_named(
    right: Array, wrong: Array, said: str, dtype: type, tmp_path: Path
) -> None:
    result = origin(
        right.astype(dtype), wrong.astype(np.float32).astype(dtype), tmp_path,
        source=TOKENS.astype(dtype).astype(np.float32),
    )  # fmt: skip

    assert names(result) == ["function"]
    assert any(said in line for line in result.evidence)


@pytest.mark.parametrize(("kind", "is_centred"), [("LayerNorm", True), ("LlamaRMSNorm", False)])
def test_another_epsilon_is_computed(kind: str, *, is_centred: bool, tmp_path: Path) -> None:
    small = TOKENS * np.float32(0.01)
    weight = normal(8, seed=11)

    def normalised(eps: float) -> Array:
        given = small - small.mean(-1, keepdims=True) if is_centred else small
        power = (given * given).mean(-1, keepdims=True)
        made: Array = (given / np.sqrt(power + eps) * weight).astype(np.float32)
        return made

    result = origin(
        normalised(1e-6), normalised(1e-5), tmp_path, kind=kind, source=small,
        states={"weight": (weight, weight)}, attributes={"eps": 1e-6},
    )  # fmt: skip

    assert any("gives with eps 1e-05, not 1e-06" in line for line in result.evidence)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_residual_left_out_is_said(dtype: type, tmp_path: Path) -> None:
    made: Array = normal(2, 6, 8, seed=31).astype(dtype)
    given: Array = TOKENS.astype(dtype)

    result = glued(
        (given + made).astype(dtype), (made * dtype(0.5) + given).astype(dtype), tmp_path,
        given, made,
    )  # fmt: skip

    assert names(result) == ["combination"]
    assert "0.5 * part1 output" in result.causes[0].text.partition(", the candidate ")[2]


def test_another_gate_is_said(tmp_path: Path) -> None:
    gate, up = normal(2, 6, 8, seed=32), normal(2, 6, 8, seed=33)
    silu = (gate / (1 + np.exp(-gate)) * up).astype(np.float32)

    result = glued(silu, gelu(gate) * up, tmp_path, gate, up)

    said = "is part1 output times silu of part0 output, the candidate times gelu of it"
    assert names(result) == ["function"]
    assert said in result.causes[0].text
