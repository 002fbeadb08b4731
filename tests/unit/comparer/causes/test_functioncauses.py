"""Another function, another sum of the same tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest

from padiff.comparer import CompareSettings, compare
from tests.support.dumps import DumpBuilder
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


def test_a_gate_and_what_it_lets_through_that_are_swapped_are_said(tmp_path: Path) -> None:
    gate, up = normal(2, 6, 8, seed=32), normal(2, 6, 8, seed=33)

    result = glued(gelu(gate) * up, gelu(up) * gate, tmp_path, gate, up)

    assert names(result) == ["function"]
    said = "times gelu of part0 output, the candidate part0 output times gelu of part1 output"
    assert said in result.causes[0].text


def test_what_the_candidate_made_earlier_is_known(tmp_path: Path) -> None:
    """The reference calls ``last`` before ``other``, whose output the candidate gives to it."""
    first, second = normal(2, 6, 8, seed=34), normal(2, 6, 8, seed=35)
    paths = []
    for side, given in enumerate((first, second)):
        built = DumpBuilder().module("", "Net")
        for path in ("first", "last", "other"):
            built.module(path, path.title())
        parts = {"first": (TOKENS, first), "last": (given, given * 2), "other": (TOKENS, second)}
        built.enter("", inputs=[TOKENS])
        for path in ("first", "other", "last") if side else ("first", "last", "other"):
            built.call(path, inputs=[parts[path][0]], outputs=[parts[path][1]])
        paths.append(built.leave(outputs=[given * 2 * second]).write(tmp_path / str(side)))

    result = compare(paths[0], paths[1], CompareSettings()).origins[0]

    assert names(result) == ["combination"]
    assert "the reference is first output, the candidate other output" in result.causes[0].text


def test_next_to_a_large_difference_not_anything_is_a_function(tmp_path: Path) -> None:
    """Pictures that are divided by 255 are no sigmoids of those that are not."""
    pixels = np.round(np.abs(TOKENS) * 80).astype(np.float32)

    result = origin(pixels / np.float32(255), pixels, tmp_path, source=pixels)

    assert not any("sigmoid" in line for line in result.evidence)
