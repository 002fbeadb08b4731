"""Edits in words: numbers that differ never read alike, and short ones stay short."""

from __future__ import annotations

import pytest

from padiff.comparer.proving import Change, Edit, EditKind, Place, UsedOperator
from padiff.comparer.report.fault_words import worded_edit

PLACE = Place(operator="F.hardsigmoid", module="a", class_name="A", site=None, operators=1)


@pytest.mark.parametrize(
    ("known", "found", "words"),
    [
        (0.25, 0.5, "0.5 where the reference has 0.25"),
        (1 / 6, 0.1666667, "0.1666667 where the reference has 0.16666667"),
        (1 / 3, 1 / 3 + 2**-54, "0.3333333333333334 where the reference has 0.3333333333333333"),
        (1.0, 1, "1 where the reference has 1"),
    ],
)
def test_changes_show_as_many_digits_as_differ(known: float, found: float, words: str) -> None:
    change = Change(name="slope", known=known, found=found)
    edit = Edit(kind=EditKind.ARGUMENT, reference=PLACE, candidate=PLACE, changes=(change,))

    assert worded_edit(edit) == f"slope of hardsigmoid: {words}"


def test_exchanged_operators_show_as_many_digits_as_differ() -> None:
    known, found = ((UsedOperator(name="mul", arguments=(one,)),) for one in (0.125, 0.125000001))
    edit = Edit(kind=EditKind.OTHER, reference=PLACE, candidate=PLACE, operators=(known, found))

    assert worded_edit(edit) == ("mul, times 0.125000001 where the reference has mul, times 0.125")


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (9, ", ".join(f"step{number}" for number in range(9))),
        (10, f"{', '.join(f'step{number}' for number in range(8))}, 2 more"),
    ],
)
def test_of_long_slices_the_first_operators_are_named(length: int, words: str) -> None:
    steps = tuple(UsedOperator(name=f"step{number}", arguments=()) for number in range(length))
    edit = Edit(kind=EditKind.MISSING, reference=PLACE, candidate=PLACE, operators=(steps, ()))

    assert worded_edit(edit) == f"left out: {words}"


def test_of_an_operator_in_part_the_primitives_are_named() -> None:
    norm = UsedOperator(name="F.layer_norm", arguments=((8,), 1e-5), parts=("mean", "sub"))
    edit = Edit(kind=EditKind.MISSING, reference=PLACE, candidate=PLACE, operators=((norm,), ()))

    assert worded_edit(edit) == "left out: mean, sub in layer_norm"
