"""The work of planning weights grows with their number, not with its square."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import Role
from padiff.pairing import plan_weights
from padiff.pairing.result import ModulePair, PairedBy, SideName
from padiff.pairing.weights.inventory import UnitPair, inventory_of
from padiff.pairing.weights.resolve import resolve
from tests.support.dumps import DumpBuilder, MemorySide
from tests.support.extremes import Dialect, extreme
from tests.support.work import calls_made

if TYPE_CHECKING:
    from collections.abc import Callable

Shape = tuple[int, ...]


def _bag(count: int, word: str, shape: Callable[[int], Shape] = lambda _: (3, 2)) -> MemorySide:
    """Give a module of a user's own class with so many parameters."""
    rng = np.random.default_rng(len(word))
    builder = DumpBuilder().module("", "Net", class_path="user.Net")
    builder.module("bag", "Bag", class_path="user.Bag")
    for number in range(count):
        builder.tensor("bag", f"{word}{number}", rng.normal(size=shape(number)), role=Role.WEIGHT)
    return builder.side()


def _tied(count: int, word: str) -> MemorySide:
    """Give so many layers that share one weight."""
    builder = DumpBuilder().module("", "Net", class_path="user.Net")
    for number in range(count):
        builder.module(f"{word}{number}", "Linear")
        builder.tensor(f"{word}{number}", "weight", np.eye(4), role=Role.WEIGHT, tensor=0)
    return builder.side()


def _layers(count: int, kind: str, shape: Shape) -> MemorySide:
    builder = DumpBuilder().module("", "Net", class_path="user.Net")
    for number in range(count):
        name = "abcdefghij"[number % 10] + "klmnopqrst"[number // 10 % 10] + f"x{number // 100}"
        builder.module(name, kind)
        builder.tensor(name, "weight", np.arange(4.0).reshape(shape) + number, role=Role.WEIGHT)
    return builder.side()


FORMS: dict[str, Callable[[int], tuple[MemorySide, MemorySide]]] = {
    "parameters of one module": lambda n: (_bag(n, ""), _bag(n, "")),
    "parameters of other names": lambda n: (_bag(n, "p"), _bag(n, "other_")),
    "parameters of other names and sizes": lambda n: (
        _bag(n, "p", lambda number: (number + 2,)),
        _bag(n, "other_", lambda number: (number + 2,)),
    ),
    "tied weights": lambda n: (_tied(n, "a"), _tied(n, "b")),
}


@pytest.mark.parametrize("form", FORMS)
def test_work_grows_with_the_number_of_weights(form: str) -> None:
    sides = [FORMS[form](count) for count in (100, 400)]

    few, many = (calls_made(partial(plan_weights, *both)) for both in sides)

    assert many < 6 * few, "four times as many, sixteen times the work"


def test_parameters_of_one_module_are_paired_by_their_numbers() -> None:
    plan = plan_weights(_bag(600, "p"), _bag(600, "other_"))

    assert [pair.reference for pair in plan.pairs] == [(n,) for n in range(600)]


def test_kinds_of_which_none_does_the_others_job_are_told_by_kind() -> None:
    def resolved(count: int) -> int:
        tables, norms = _layers(count, "Embedding", (4, 1)), _layers(count, "LayerNorm", (4,))
        one, two = (inventory_of(side, SideName.REFERENCE).units for side in (tables, norms))
        by = PairedBy.STRUCTURE
        return calls_made(
            lambda: found.extend(resolve(one, two, by, is_strict=False, is_last=False))
        )

    found: list[UnitPair] = []
    few, many = resolved(100), resolved(400)

    assert not found
    assert many < 6 * few, "four times as many, sixteen times the work"


def test_nobody_asks_where_units_stand_whose_modules_are_known() -> None:
    count = 50
    sides = (
        extreme("equal layers", count, Dialect.SAME),
        extreme("equal layers", count, Dialect.STRANGE, seed=1),
    )
    known = [
        ModulePair(reference=number, candidate=number, paired_by=PairedBy.FLOW)
        for number in range(count)
    ]

    told, searched = (
        calls_made(partial(plan_weights, *sides, modules=modules)) for modules in (known, [])
    )

    assert 2 * told < searched
