"""Square matrices of users' own classes, which may lie as those of their framework's layers do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.pairing.weights.plan import plan_weights
from tests.support.dumps import DumpBuilder, MemorySide

Array = npt.NDArray[Any]
RNG = np.random.default_rng(17)
SIZES = (6, 6), (4, 6), (6, 6)


def _side(framework: str, sizes: tuple[tuple[int, int], ...], *, is_turned: bool) -> MemorySide:
    built = DumpBuilder(framework=framework).module("", "Net", class_path="user.Net")
    for place, size in enumerate(sizes):
        path = f"layers.{place}"
        built.module(path, "Scaled", class_path=f"user.{framework}.Scaled")
        weight: Array = RNG.normal(size=size)
        built.tensor(path, "weight", weight.T if is_turned else weight)
        built.tensor(path, "bias", RNG.normal(size=size[0]))
    return built.side()


@pytest.mark.parametrize("is_turned", [True, False])
def test_square_matrix_lies_as_others_of_its_classes_do(is_turned: bool) -> None:
    one, two = _side("torch", SIZES, is_turned=False), _side("paddle", SIZES, is_turned=is_turned)

    plan = plan_weights(one, two)

    matrices = [pair for pair in plan.pairs if len(two.index.records[pair.candidate].shape) > 1]
    assert {str(pair.rule) for pair in matrices} == {"transpose" if is_turned else "identity"}
    assert not plan.choices
    assert not plan.ambiguous


def test_a_run_is_asked_where_no_other_matrix_tells() -> None:
    one, two = (_side(name, SIZES[:1], is_turned=False) for name in ("torch", "paddle"))

    (choice,) = plan_weights(one, two).choices

    assert [way.label for way in choice.ways] == ["identity", "transpose"]


def test_within_one_framework_a_square_matrix_is_taken_as_it_lies() -> None:
    one, two = (_side("torch", SIZES[:1], is_turned=False) for _ in range(2))

    plan = plan_weights(one, two)

    assert not plan.choices
    assert not plan.ambiguous
