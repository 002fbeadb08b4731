"""A layout that only moves elements is an order of them, worked out once for all its pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer.judging.judge import AS_IT_IS, OTHERS, Layouts
from padiff.comparer.judging.smallpairs import SMALL
from padiff.dumpfile import Phase, RecordInfo, Role
from padiff.pairing import PairedBy, RecordPair, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


def record(shape: Shape) -> RecordInfo:
    return RecordInfo(
        id=0, module=0, call=None, phase=Phase.FORWARD, role=Role.WEIGHT, slot=".weight",
        order=0, shape=shape, value=0,
    )  # fmt: skip


def paired(text: str) -> RecordPair:
    rule = Rule.parse(text)
    return RecordPair(reference=(0,), candidate=0, paired_by=PairedBy.NAME, rule=rule)


@pytest.mark.parametrize(
    ("text", "known", "found"),
    [
        ("transpose", (3, 5), (5, 3)),
        ("permute 0 2 3 1", (2, 3, 4, 5), (2, 4, 5, 3)),
        ("reshape", (6, 4), (2, 12)),
        ("reshape 2 3 4 | permute 2 0 1", (6, 4), (4, 2, 3)),
        ("insert 1 | permute 2 1 0", (3, 4), (4, 1, 3)),
        ("squeeze 0 | transpose", (1, 3, 4), (4, 3)),
    ],
)
def test_the_order_is_what_the_rule_makes(text: str, known: Shape, found: Shape) -> None:
    array = np.random.default_rng(0).standard_normal(known)
    layouts = Layouts()

    (number,) = layouts.numbers([paired(text)], [record(known)], [record(found)])

    order = layouts.orders[number]
    assert order is not None
    expected = Rule.parse(text).apply([array], found)
    assert array.reshape(-1)[order].reshape(found).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("text", "known", "found"),
    [
        ("rows 0/2", (4, 3), (2, 3)),
        ("expand 4 3", (1, 3), (4, 3)),
        ("sum 0", (4, 3), (3,)),
        ("not", (4,), (4,)),
        ("transpose", (3, 5), (3, 5)),
        ("identity", (3, 5), (5, 3)),
        ("transpose", (SMALL, 2), (2, SMALL)),
        ("transpose", (0, 2), (2, 0)),
    ],
)
def test_what_is_no_order_of_few_elements_is_left_to_others(
    text: str, known: Shape, found: Shape
) -> None:
    layouts = Layouts()

    numbers = layouts.numbers([paired(text)], [record(known)], [record(found)])

    assert numbers.tolist() == [OTHERS]
    assert layouts.orders == [None]


def test_each_layout_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[Shape] = []
    apply = Rule.apply

    def counting(self: Rule, arrays: list[Array], shape: Shape) -> Array:
        applied.append(shape)
        return apply(self, arrays, shape)

    monkeypatch.setattr(Rule, "apply", counting)

    def each() -> Iterator[tuple[RecordPair, RecordInfo, RecordInfo]]:
        for _ in range(50):
            yield paired("transpose"), record((3, 5)), record((5, 3))
            yield paired("transpose"), record((2, 4)), record((4, 2))
            yield paired("identity"), record((2, 4)), record((2, 4))

    pairs, known, found = zip(*each(), strict=True)

    numbers = Layouts().numbers(pairs, known, found)

    assert applied == [(5, 3), (4, 2)]
    assert numbers.tolist() == [1, 2, AS_IT_IS] * 50
