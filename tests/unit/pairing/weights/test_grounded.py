"""Pairs of containers that rest on nothing but pairs in doubt tell nothing of weights."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.pairing.result import ModulePair, PairedBy
from padiff.pairing.weights.tried import grounded
from tests.support.dumps import DumpBuilder, MemorySide

PATHS = ("", "block", "block.norm", "block.mlp")
ONE = np.ones(1, np.float32)


def _side() -> MemorySide:
    built = DumpBuilder(framework="torch")
    for path in PATHS:
        built.module(path, "Net", class_path="user.Net")
    return built.tensor("block.norm", "weight", ONE).tensor("block.mlp", "weight", ONE).side()


def _pair(place: int, *others: int) -> ModulePair:
    return ModulePair(
        reference=place,
        candidate=place,
        paired_by=PairedBy.STRUCTURE,
        confidence=0.5,
        alternatives=others,
    )


@pytest.mark.parametrize(
    ("layers", "kept"),
    [
        ([_pair(2, 3), _pair(3, 2)], []),  # the container goes with all that it holds
        ([_pair(2), _pair(3, 2)], [1, 2]),
        ([_pair(2), _pair(3)], [1, 2, 3]),
    ],
)
def test_container_counts_where_a_layer_inside_is_told(
    layers: list[ModulePair], kept: list[int]
) -> None:
    index = _side().index

    found = grounded([_pair(1), *layers], index, index)

    assert [pair.reference for pair in found] == kept


def test_container_that_holds_no_pair_is_kept() -> None:
    index = _side().index

    assert grounded([_pair(1)], index, index) == [_pair(1)]
