"""Buffers that are overwritten by others of their size are told."""

from __future__ import annotations

import numpy as np
import pytest

from padiff.dumpfile import Role
from padiff.pairing.weights.plan import plan_weights
from tests.support.dumps import DumpBuilder, MemorySide

NUMBERS = np.random.default_rng(23).normal(size=(3, 4))


def _side(name: str, class_path: str, place: int) -> MemorySide:
    built = DumpBuilder(framework="torch").module("", "Net", class_path="user.Net")
    for block in range(2):
        path = f"blocks.{block}"
        built.module(path, "Mix", class_path=class_path)
        built.tensor(path, "weight", NUMBERS[place + block][:3])
        built.tensor(path, name, NUMBERS[place] + block, role=Role.BUFFER)
    return built.side()


@pytest.mark.parametrize(
    ("name", "place", "is_told"),
    [("rate", 1, True), ("log_decay", 1, False), ("rate", 0, False)],
)
def test_a_buffer_of_another_name_is_told_unless_it_holds_the_same(
    name: str, place: int, is_told: bool
) -> None:
    one, two = _side("decay", "user.Mix", 0), _side(name, "other.Mix", place)

    notes = plan_weights(one, two).notes

    told = [note for note in notes if "blocks.#.rate by blocks.#.decay" in note]
    assert bool(told) is is_told
    assert len(notes) == is_told
