"""Buffers that are overwritten by others of their size are told; tables of a formula are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import Role
from padiff.pairing.weights.plan import plan_weights
from tests.support.dumps import DumpBuilder, MemorySide

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

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


@pytest.mark.parametrize(
    ("made", "is_own"),
    [
        (lambda x: np.sqrt(1 - x), True),
        (lambda x: x[:, :2].repeat(2, axis=1), False),
        (lambda x: x * np.float32(1 + 2**-23), False),
    ],
    ids=["by a formula", "by another order", "rounded otherwise"],
)
def test_a_table_that_a_formula_makes_of_the_references_has_no_partner(
    made: Callable[[NDArray[np.float32]], NDArray[np.float32]], is_own: bool
) -> None:
    table = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(3, 4)
    sides = []
    for name, elements in (("level", table), ("noise", made(table))):
        built = DumpBuilder(framework="torch").module("", "Net", class_path=f"user.{name}")
        built.tensor("", "weight", NUMBERS[0])
        built.tensor("", name, elements, role=Role.BUFFER)
        sides.append(built.side())

    plan = plan_weights(*sides)

    records = sides[1].index.records
    paired = {records[pair.candidate].slot for pair in plan.pairs}
    assert any("noise" in slot for slot in paired) is not is_own
    assert any("not overwritten: noise by level" in note for note in plan.notes) is is_own
    assert not plan.missing
