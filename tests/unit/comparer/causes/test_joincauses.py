"""Parts that were joined, positions, slopes, and scales of a feature each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer import CompareSettings, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import IMAGE, TOKENS, Array, glued, names, normal

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = normal(2, 6, 8, seed=81), normal(2, 6, 12, seed=82)


def test_parts_joined_the_other_way_round_are_named(tmp_path: Path) -> None:
    right, wrong = (np.concatenate(pair, -1) for pair in ((ONE, TWO), (TWO, ONE)))

    result = glued(right, wrong, tmp_path, ONE, TWO)

    assert names(result) == ["permuted"]
    assert "the candidate begins with what the reference has from 8 on" in result.causes[0].text


def test_the_function_of_one_part_of_what_was_joined_is_named(tmp_path: Path) -> None:
    right, wrong = (np.concatenate([make(ONE), TWO], -1) for make in (np.tanh, np.abs))
    wrong[..., :8] = np.maximum(ONE, 0)

    result = glued(right, wrong, tmp_path, ONE, TWO)

    assert "[:, :, 0:8]: the reference is tanh of part0 output" in result.causes[0].text


def test_a_map_resized_by_another_rule_beside_another_map_is_named(tmp_path: Path) -> None:
    small = normal(2, 3, 5, 5, seed=83)
    large = small.repeat(2, axis=2).repeat(2, axis=3)[:, :, :9, :9]
    other = small[:, :, np.arange(9) * 5 // 9][..., np.arange(9) * 5 // 9]
    places = np.clip((np.arange(9) + 0.5) * 5 / 9 - 0.5, 0, 4)
    weights = np.maximum(1 - np.abs(places[:, None] - np.arange(5)), 0)
    linear = np.einsum("ih,jw,bchw->bcij", weights, weights, small).astype(np.float32)
    assert large.shape == other.shape == linear.shape

    result = glued(
        np.concatenate([IMAGE, other], 1),
        np.concatenate([IMAGE, linear], 1),
        tmp_path,
        IMAGE,
        small,
    )

    assert "[:, 4:7]: the reference is part1 output resized by nearest" in result.causes[0].text
    assert result.causes[0].text.endswith("the candidate by linear")


def test_positions_that_no_table_holds_are_off_by_one(tmp_path: Path) -> None:
    table = np.sin(np.arange(7)[:, None] * np.arange(1, 9))
    right, wrong = ((3 * TOKENS + table[first : first + 6]).astype("f") for first in (0, 1))

    result = glued(right, wrong, tmp_path, TOKENS)

    assert names(result) == ["shifted"]
    assert "both are 3 * part0 output and something" in result.causes[0].text
    assert "1 further on: positions are off by 1" in result.causes[0].text


def test_another_slope_below_zero_is_named(tmp_path: Path) -> None:
    unknown = normal(2, 6, 8, seed=84)
    right, wrong = (np.where(unknown > 0, unknown, much * unknown) for much in (0.01, 0.1))

    result = glued(right.astype("f"), wrong.astype("f"), tmp_path, ONE)

    assert "the negative ones are 10 times the reference's" in result.causes[0].text


def test_a_product_of_which_one_factor_is_left_is_named(tmp_path: Path) -> None:
    between = [normal(2, 6, 8, seed=seed) for seed in range(85, 90)]

    result = glued(TOKENS * between[-1], between[-1], tmp_path, *between)

    assert "times (root) input[0], the candidate part4 output alone" in result.causes[0].text


def block(path: Path, made: Array, scale: Array) -> Path:
    built = DumpBuilder().module("", "Net").module("block", "Block").module("block.fc", "Part")
    built.tensor("block", "gamma", scale, role=Role.WEIGHT).enter("", inputs=[TOKENS])
    built.enter("block", inputs=[TOKENS]).call("block.fc", inputs=[TOKENS], outputs=[ONE])
    return built.leave(outputs=[made]).leave(outputs=[made]).write(path)


def test_a_scale_of_a_layer_that_is_left_out_is_named_with_its_weight(tmp_path: Path) -> None:
    scale, rest = normal(8, seed=91), normal(2, 6, 8, seed=92)
    right = block(tmp_path / "right", rest + scale * ONE, scale)
    wrong = block(tmp_path / "wrong", rest + ONE, scale)

    result = compare(right, wrong, CompareSettings(atol=1e-5, rtol=1e-5)).origins[0]

    said = "the reference has gamma * .fc output in a sum, the candidate .fc output alone"
    assert any(said in cause.text for cause in result.causes)
