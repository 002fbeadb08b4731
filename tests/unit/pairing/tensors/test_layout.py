"""Layouts between activations of paired calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing import RecordPair, pair
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = npt.NDArray[np.float32]


def chain(framework: str, outputs: Sequence[Floats]) -> MemorySide:
    built = DumpBuilder(framework=framework).module("", "Net")
    for place in range(len(outputs)):
        built.module(f"act{place}", "ReLU")
    built.enter("")
    for place, array in enumerate(outputs):
        built.call(f"act{place}", outputs=[array])
    return built.leave().side()


def pairs_of(reference: Sequence[Floats], candidate: Sequence[Floats]) -> list[RecordPair]:
    return list(pair(chain("torch", reference), chain("paddle", candidate)).records)


def random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_channels_last_is_found_and_verified() -> None:
    data = random(2, 3, 4, 5)

    found = pairs_of([data], [data.transpose(0, 2, 3, 1).copy()])

    assert [str(p.rule) for p in found] == ["permute 0 2 3 1"]
    assert "verified" in found[0].note


def test_merged_heads_are_found() -> None:
    data = random(2, 4, 7, 3)

    found = pairs_of([data], [data.transpose(0, 2, 1, 3).reshape(2, 7, 12).copy()])

    assert [str(p.rule) for p in found] == ["permute 0 2 1 3 | reshape"]


def test_split_heads_are_found() -> None:
    data = random(2, 7, 12)

    found = pairs_of([data], [data.reshape(2, 7, 4, 3).transpose(0, 2, 1, 3).copy()])

    assert [str(p.rule) for p in found] == ["reshape 2 7 4 3 | permute 0 2 1 3"]


def test_an_axis_of_length_one_needs_no_evidence() -> None:
    found = pairs_of([np.zeros((2, 3, 1, 1), np.float32)], [np.zeros((2, 3), np.float32)])

    assert [str(p.rule) for p in found] == ["reshape"]


def test_a_constant_is_no_evidence_of_a_layout() -> None:
    found = pairs_of([np.ones((2, 3, 4), np.float32)], [np.ones((2, 4, 3), np.float32)])

    assert [str(p.rule) for p in found] == ["identity"]


def test_a_diverged_tensor_takes_the_layout_of_its_like() -> None:
    good, other = random(2, 3, 4, 5), random(2, 3, 6, 5, seed=1)
    bad = random(2, 6, 5, 3, seed=2)

    found = pairs_of([good, other], [good.transpose(0, 2, 3, 1).copy(), bad])

    assert [str(p.rule) for p in found] == ["permute 0 2 3 1"] * 2


def test_one_reordered_tensor_of_equal_shape_stays_diverged() -> None:
    data = random(4, 4)

    found = pairs_of([data], [data.T.copy()])

    assert [str(p.rule) for p in found] == ["identity"]


def test_many_reordered_tensors_of_equal_shape_are_a_layout() -> None:
    arrays = [random(4, 4, 3, seed=seed) for seed in range(4)]

    found = pairs_of(arrays, [array.transpose(1, 0, 2).copy() for array in arrays])

    assert [str(p.rule) for p in found] == ["permute 1 0 2"] * 4


def test_a_reordered_cube_takes_the_layout_that_other_shapes_confirm() -> None:
    arrays = [random(2, 3, 4, 5), random(2, 6, 6, 6, seed=1)]

    found = pairs_of(arrays, [array.transpose(0, 2, 3, 1).copy() for array in arrays])

    assert [str(p.rule) for p in found] == ["permute 0 2 3 1"] * 2
