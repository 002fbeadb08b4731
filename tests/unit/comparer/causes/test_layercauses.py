"""What a layer is known to do wrong, from its inputs, weights and attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, compare
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import IMAGE, SQUARE, TOKENS, Array, names, normal, origin

if TYPE_CHECKING:
    from pathlib import Path


def test_a_weight_that_belongs_elsewhere_is_recognised(tmp_path: Path) -> None:
    first, second = normal(5, 5, seed=1), normal(5, 5, seed=2)
    paths = []
    for side, weights in enumerate(((first, second), (second, first))):
        built = DumpBuilder().module("", "Net")
        for name, weight in zip(("query", "key"), weights, strict=True):
            built.module(name, "Linear").tensor(name, "weight", weight)
        built.enter("", inputs=[SQUARE])
        for name, weight in zip(("query", "key"), weights, strict=True):
            built.call(name, inputs=[SQUARE], outputs=[weight * 2])
        paths.append(built.leave(outputs=[SQUARE]).write(tmp_path / str(side)))

    result = compare(paths[0], paths[1], CompareSettings()).origins[0]

    said = "weight 'weight': it holds what is 'key.weight' on the reference"
    assert any(said in line for line in result.evidence)


def test_swapped_weights_are_told_in_the_order_in_which_their_modules_ran(tmp_path: Path) -> None:
    """The module that ran first was made last; the second one's input differs too."""
    first, second = normal(4, seed=1), normal(4, seed=2)
    paths = []
    for side, weights in enumerate(((first, second), (second, first))):
        built = DumpBuilder().module("", "Net")
        for name, weight in (("late", weights[1]), ("early", weights[0])):
            built.module(name, "Scale").tensor(name, "weight", weight)
        built.enter("", inputs=[SQUARE]).call(
            "early", inputs=[SQUARE], outputs=[SQUARE * weights[0]]
        )
        result = SQUARE * weights[0] * weights[1] + np.float32(side)
        built.call("late", inputs=[SQUARE * weights[0]], outputs=[result])
        paths.append(built.leave(outputs=[result]).write(tmp_path / str(side)))

    found = compare(paths[0], paths[1], CompareSettings()).origins

    named = [one.pair.reference.address.module for one in found if one.pair.reference]
    assert named == ["early", "late"]
    assert "it holds what is 'early.weight' on the reference" in found[1].causes[0].text


def test_a_bias_left_out_is_recognised(tmp_path: Path) -> None:
    bias = normal(8, seed=4)

    result = origin(TOKENS + bias, TOKENS, tmp_path, states={"bias": (bias, bias)})

    assert any("bias, left out" in line for line in result.evidence)


def test_only_some_heads(tmp_path: Path) -> None:
    found = TOKENS.copy()
    found[:, :, 4:6] = normal(2, 6, 2, seed=8)

    result = origin(TOKENS, found, tmp_path, attributes={"num_heads": 4})

    assert "heads" in names(result)
    assert any("head 2 of 4" in line for line in result.evidence)


def test_batch_norm_in_the_other_mode(tmp_path: Path) -> None:
    mean, variance = normal(4, seed=6), np.abs(normal(4, seed=7)) + 1
    shape = (1, 4, 1, 1)

    def normalised(mean: Array, variance: Array) -> Array:
        given = (IMAGE - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + np.float32(1e-5))
        result: Array = given.astype(np.float32)
        return result

    result = origin(
        normalised(mean, variance),
        normalised(IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))),
        tmp_path,
        kind="BatchNorm2d",
        source=IMAGE,
        states={"running_mean": (mean, mean), "running_var": (variance, variance)},
        attributes={"eps": 1e-5},
    )

    assert names(result) == ["batch_statistics"]
    assert any("in training mode" in line for line in result.evidence)


def test_dropout_on_one_side(tmp_path: Path) -> None:
    keep = np.random.default_rng(0).random(IMAGE.shape) > 0.25

    result = origin(IMAGE, (IMAGE * keep / np.float32(0.75)).astype(np.float32), tmp_path)

    assert names(result) == ["dropout"]


def test_a_transposed_square_weight(tmp_path: Path) -> None:
    weight, source = normal(5, 5, seed=8), normal(3, 5, seed=9)

    result = origin(
        source @ weight.T,
        source @ weight,
        tmp_path,
        kind="Linear",
        source=source,
        states={"weight": (weight, weight)},
    )

    assert names(result) == ["transposed_weight"]


def test_a_weight_that_was_loaded_transposed(tmp_path: Path) -> None:
    weight, source = normal(5, 5, seed=8), normal(3, 5, seed=9)

    result = origin(
        source @ weight.T,
        source @ weight,
        tmp_path,
        kind="Layer",
        source=source,
        states={"weight": (weight, weight.T.copy())},
    )

    assert any("weight 'weight': equal after transposing" in line for line in result.evidence)


@pytest.mark.parametrize("by", [1, -1])
def test_learnt_positions_that_are_off_by_one_are_said(by: int, tmp_path: Path) -> None:
    table = normal(1, 6, 8, seed=71)

    result = origin(
        TOKENS + table, TOKENS + np.roll(table, by, axis=1), tmp_path,
        states={"positions": (table, table)},
    )  # fmt: skip

    assert names(result) == ["shifted"]
    assert any(f"'positions' and the same moved by {by:+d}" in line for line in result.evidence)


def test_the_border_of_a_line_is_one(tmp_path: Path) -> None:
    line = normal(2, 4, 12, seed=72)

    found = line.copy()
    found[:, :, 0] = normal(2, 4, seed=73)

    result = origin(line, found, tmp_path, kind="Conv1d")

    assert names(result) == ["border"]
    assert any("positions within 1 of an end of 12" in line for line in result.evidence)


@pytest.mark.parametrize("mode", ["training", "eval"])
@pytest.mark.parametrize("eps", [1.1e-3, 1e-1])
def test_batch_norm_with_another_epsilon(mode: str, eps: float, tmp_path: Path) -> None:
    mean, variance = normal(4, seed=6), np.abs(normal(4, seed=7)) + 1
    used = (mean, variance) if mode == "eval" else (IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3)))
    weight, bias = normal(4, seed=8), normal(4, seed=9)
    shape = (1, 4, 1, 1)

    def normalised(eps: float) -> Array:
        scale = weight.reshape(shape) / np.sqrt(used[1].reshape(shape) + np.float32(eps))
        made: Array = (IMAGE - used[0].reshape(shape)) * scale + bias.reshape(shape)
        return made.astype(np.float32)

    result = origin(
        normalised(1e-5), normalised(eps), tmp_path,
        kind="BatchNorm2d",
        source=IMAGE,
        states={
            "weight": (weight, weight),
            "bias": (bias, bias),
            "running_mean": (mean, mean),
            "running_var": (variance, variance),
        },
        attributes={"eps": 1e-5},
    )  # fmt: skip

    assert names(result) == ["function"]
    assert any(f"BatchNorm gives with eps {eps:.3g}" in line for line in result.evidence)


def test_dropout_on_both_sides_with_another_scale(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    kept = random.random(IMAGE.shape) > 0.3, random.random(IMAGE.shape) > 0.3

    result = origin(
        (IMAGE * kept[0] / np.float32(0.7)).astype(np.float32), IMAGE * kept[1], tmp_path
    )

    assert names(result) == ["dropout"]
    assert any("active on both sides" in line for line in result.evidence)
