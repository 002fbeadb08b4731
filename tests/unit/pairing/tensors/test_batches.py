"""One call for a whole against several for its parts: how the parts lie, and when they are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.dumpfile import Role
from padiff.pairing import pair
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import normal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.pairing import Pairing

Array = npt.NDArray[Any]
WEIGHT = normal(5, 5, seed=9)
PARTS = [normal(2, 4, 5, seed=seed) for seed in range(3)]


def net(calls: Sequence[Array], *, wrong: float = 1.0) -> DumpBuilder:
    """Run one layer for each array, and a second one on what the first gives."""
    built = DumpBuilder().module("", "Net").module("one", "Linear").module("two", "Linear")
    built.tensor("one", "weight", WEIGHT).tensor("two", "weight", WEIGHT.T.copy())
    built.enter("", inputs=list(calls))
    made = [(x @ WEIGHT.T * np.float32(wrong)).astype(np.float32) for x in calls]
    for given, output in zip(calls, made, strict=True):
        built.call("one", inputs=[given], outputs=[output])
    last = [(x @ WEIGHT).astype(np.float32) for x in made]
    for given, output in zip(made, last, strict=True):
        built.call("two", inputs=[given], outputs=[output])
    return built.leave(outputs=last)


def rules(found: Pairing, sides: tuple[DumpBuilder, DumpBuilder]) -> list[str]:
    """Give the rules of the outputs of the first layer."""
    index = sides[1].side().index
    return [
        str(one.rule)
        for one in found.records
        if index.records[one.candidate].role is Role.OUTPUT
        and index.modules[index.records[one.candidate].module].path == "one"
    ]


def paired(known: DumpBuilder, found: DumpBuilder) -> Pairing:
    return pair(known.side(), found.side())


@pytest.mark.parametrize(
    ("whole", "cut"),
    [
        (np.concatenate(PARTS), "reshape 3 2 4 5"),
        (np.stack(PARTS, 1).reshape(6, 4, 5), "reshape 2 3 4 5 | permute 1 0 2 3"),
        (np.concatenate(PARTS, 1), "reshape 2 3 4 5 | permute 1 0 2 3"),
        (np.stack(PARTS, 2), "reshape 2 4 3 5 | permute 2 0 1 3"),
    ],
    ids=["blocks", "turns", "along another axis", "an axis of their own"],
)
def test_parts_are_cut_out_of_the_whole(whole: Array, cut: str) -> None:
    sides = net([whole]), net(PARTS)

    found = rules(paired(*sides), sides)

    assert found == [f"{cut} | take {number}" for number in range(3)]


@pytest.mark.parametrize("axis", [0, 1])
def test_parts_are_joined_to_the_whole_in_its_order(axis: int) -> None:
    whole = np.concatenate([PARTS[2], PARTS[0], PARTS[1]], axis)
    sides = net(PARTS), net([whole])

    found = paired(*sides)

    (one,) = [
        one
        for one in found.records
        if len(one.reference) == 3
        and sides[1].side().index.records[one.candidate].role is Role.INPUT
        and sides[1].side().index.records[one.candidate].module == 1
    ]
    arrays = [sides[0].side().array(sides[0].side().index.records[at]) for at in one.reference]
    assert np.array_equal(one.rule.apply(arrays, whole.shape), whole)


def test_what_diverged_is_cut_as_what_agrees() -> None:
    sides = net([np.concatenate(PARTS)]), net(PARTS, wrong=3.0)

    found = paired(*sides)

    index = sides[1].side().index
    cut = {
        index.modules[index.records[one.candidate].module].path
        for one in found.records
        if "take" in str(one.rule)
    }
    assert cut == {"one", "two"}


def test_calls_of_other_content_are_no_parts() -> None:
    sides = net([np.concatenate(PARTS)]), net([normal(2, 4, 5, seed=20 + at) for at in range(3)])

    assert not any("take" in rule for rule in rules(paired(*sides), sides))


def test_as_many_calls_on_both_sides_are_paired_one_by_one() -> None:
    sides = net(PARTS), net(PARTS)

    assert rules(paired(*sides), sides) == ["identity"] * 3


def one_of(gradient: Array | None) -> tuple[DumpBuilder, DumpBuilder]:
    """Run the layers on all three, and on the second alone."""
    sides = net([np.stack(PARTS, 1)]), net([PARTS[1]])
    if gradient is not None:
        sides[0].record("one", Role.GRAD_OUTPUT, gradient)
    return sides


def used(*parts: int) -> Array:
    gradient = np.zeros((2, 3, 4, 5), np.float32)
    gradient[:, list(parts)] = 1
    return gradient


@pytest.mark.parametrize(
    ("gradient", "rule"),
    [(None, 1), (used(1), 1), (used(2), 2)],
    ids=["by its elements", "by its gradient", "by a gradient that tells of another"],
)
def test_one_part_alone_is_cut_out_where_nothing_comes_of_the_others(
    gradient: Array | None, rule: int
) -> None:
    sides = one_of(gradient)

    found = rules(paired(*sides), sides)

    assert found == [f"reshape 2 3 4 5 | permute 1 0 2 3 | take {rule}"]


def test_a_part_is_not_cut_out_where_more_is_used() -> None:
    sides = one_of(used(0, 1))

    assert not any("take" in rule for rule in rules(paired(*sides), sides))
