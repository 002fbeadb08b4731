"""One part of a sum, another pooling, other rows of a table, a clamp, a norm at another place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, compare
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import TOKENS, Array, glued, names, normal, origin

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN = normal(2, 6, 8, seed=51)
"""A term that no call gave."""


@pytest.mark.parametrize(
    "made",
    [normal(2, 6, 8, seed=52), normal(2, 8, 6, seed=53), normal(2, 8, 2, 3, seed=54)],
    ids=["as it lies", "channels first", "an image"],
)
def test_another_function_inside_a_sum_is_named(made: Array, tmp_path: Path) -> None:
    laid = made.reshape(2, 8, 6).transpose(0, 2, 1) if made.shape != (2, 6, 8) else made

    result = glued(np.tanh(laid) + UNKNOWN, np.maximum(laid, 0) + UNKNOWN, tmp_path, made)

    assert names(result) == ["function"]
    assert "has tanh of part0 output in a sum, the candidate relu" in result.causes[0].text


def test_a_term_left_out_beside_unknown_ones_is_named(tmp_path: Path) -> None:
    made = normal(2, 6, 8, seed=55)

    result = glued(made + np.cos(UNKNOWN), np.cos(UNKNOWN), tmp_path, made)

    assert names(result) == ["combination"]
    assert "the candidate is the reference - part0 output" in result.causes[0].text


def test_an_unknown_error_is_no_term(tmp_path: Path) -> None:
    made = normal(2, 6, 8, seed=56)

    result = glued(made + UNKNOWN, made + normal(2, 6, 8, seed=57), tmp_path, made)

    assert not names(result)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (TOKENS.max(1), TOKENS.mean(1), "is max along axis 1 of part0 output, the candidate mean"),
        (TOKENS[:, 0], TOKENS[:, -1], "is the first along axis 1"),
        (np.maximum(TOKENS, 0).mean(1), np.maximum(TOKENS, 0).max(1), "of relu of part0 output"),
    ],
)
def test_another_pooling_is_named(right: Array, wrong: Array, said: str, tmp_path: Path) -> None:
    result = glued(right, wrong, tmp_path, TOKENS)

    assert names(result) == ["function"]
    assert said in result.causes[0].text


def test_a_gate_in_the_other_half_is_named(tmp_path: Path) -> None:
    made = normal(2, 6, 16, seed=58)
    one, two = np.split(made, 2, axis=-1)

    result = glued(one / (1 + np.exp(-two)), two / (1 + np.exp(-one)), tmp_path, made)

    assert "the second half of part0 output" in result.causes[0].text
    assert result.causes[0].text.endswith("the two are swapped")


def test_positions_that_are_off_are_named_with_their_table(tmp_path: Path) -> None:
    table = normal(10, 8, seed=59)
    paths = []
    for first in (0, 2):
        given = TOKENS + table[first : first + 6]
        built = DumpBuilder().module("", "Net").module("embed", "Embed").module("last", "Last")
        built.tensor("", "positions", table).enter("", inputs=[TOKENS])
        built.call("embed", inputs=[TOKENS], outputs=[TOKENS])
        built.call("last", inputs=[given], outputs=[given * 2]).leave(outputs=[given * 2])
        paths.append(built.write(tmp_path / str(first)))

    result = compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]

    assert "from 0 on, the candidate from 2 on: positions are off by 2" in result.causes[0].text


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_clamp_is_named_and_is_no_scale(tmp_path: Path, *, is_turned: bool) -> None:
    wide = normal(4, 8, seed=60) * 1e4
    cut = np.maximum(wide, -64.0)

    result = origin(cut, wide, tmp_path) if is_turned else origin(wide, cut, tmp_path)

    assert names(result) == ["function"]
    assert "clamped to at least -64" in result.causes[0].text


def test_next_to_nothing_is_no_multiple(tmp_path: Path) -> None:
    result = origin(normal(4, 8, seed=61) * 1e4, normal(4, 8, seed=62), tmp_path)

    assert "factor" not in names(result)


@pytest.mark.parametrize("is_pre", [True, False])
def test_a_norm_at_the_other_side_of_a_layer_is_told(tmp_path: Path, *, is_pre: bool) -> None:
    paths = []
    for side, is_first in enumerate((is_pre, not is_pre)):
        built = DumpBuilder().module("", "Net")
        built.module("norm", "LayerNorm", class_path="torch.nn.modules.normalization.LayerNorm")
        built.module("mix", "Mix", class_path="user.Mix").enter("", inputs=[TOKENS])
        made = TOKENS
        for call in ("norm", "mix") if is_first else ("mix", "norm"):
            given, made = made, np.tanh(made) if call == "norm" else made * 3 + 1
            built.call(call, inputs=[given], outputs=[made])
        paths.append(built.leave(outputs=[made]).write(tmp_path / str(side)))

    result = compare(paths[0], paths[1], CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]

    first, last = ("reference", "candidate")[:: 1 if is_pre else -1]
    assert f"norm comes before mix on the {first}, after it on the {last}" in str(result.evidence)
