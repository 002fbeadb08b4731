"""Equal numbers are the same expression, however often axes are exchanged on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from padiff.program import Expressions
from tests.support.small_programs import lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.program.lowering.builder import Term

    Make = Callable[[Mapping[str, Term]], Term]

SHAPES = {"x": (2, 3), "w": (3, 3), "y": (2, 3)}


def numbers(expressions: Expressions, make: Make) -> tuple[int, list[int]]:
    """Return the number of a result, and those of the leaves."""
    program, result = lowered(SHAPES, make)
    leaves = {term: expressions.new(("leaf", value)) for term, value in program.leaves.items()}
    found = expressions.number(program, leaves)
    return found[program.terms[result]], [found[term] for term in program.leaves]


def turned(term: Term, *order: int) -> Term:
    return term.builder("transpose", term, order=order or (1, 0))


@pytest.mark.parametrize(
    ("one", "two", "is_same"),
    [
        (lambda t: t["x"] + t["x"], lambda t: t["x"] + t["x"], True),
        (lambda t: t["x"] + 1.0, lambda t: 1.0 + t["x"], True),
        (lambda t: t["x"] + 1.0, lambda t: t["x"] + 2.0, False),
        (lambda t: t["x"] * (1.0 / t["y"]), lambda t: t["x"] / t["y"], True),
        (lambda t: (1.0 / t["y"]) * t["x"], lambda t: t["x"] / t["y"], True),
        (lambda t: t["x"] * (2.0 / t["y"]), lambda t: t["x"] / t["y"], False),
        (lambda t: turned(turned(t["w"])), lambda t: t["w"], True),
        (lambda t: turned(t["w"]), lambda t: turned(t["w"], -1, 0), True),
        (lambda t: turned(t["w"]), lambda t: t["w"], False),
    ],
)
def test_numbers_are_equal_where_expressions_are(one: Make, two: Make, *, is_same: bool) -> None:
    expressions = Expressions()

    found = numbers(expressions, one)[0], numbers(expressions, two)[0]

    assert (found[0] == found[1]) is is_same


def test_a_matrix_that_lies_the_other_way_is_the_transposed_one() -> None:
    expressions = Expressions()

    made, leaves = numbers(expressions, lambda t: turned(t["w"]))

    assert expressions.transposed(leaves[1]) == made
    assert expressions.transposed(made) == leaves[1]


def reads(expressions: Expressions, make: Make, *, unknown: bool = False) -> dict[str, int]:
    """Return the numbers of what the leaves are read for, by name."""
    program, _ = lowered(SHAPES, make)
    leaves = list(program.leaves)
    found = expressions.number_reads(program, {}, leaves if unknown else ())
    return dict(zip(SHAPES, (found[term] for term in leaves), strict=True))


@pytest.mark.parametrize(
    ("one", "two", "is_same"),
    [
        (lambda t: t["x"] + t["y"], lambda t: t["y"] + t["x"], True),
        (lambda t: t["x"] - t["y"], lambda t: t["y"] - t["x"], False),
        (lambda t: (t["x"] + t["y"]) * 2.0, lambda t: t["x"] + t["y"], False),
        (lambda t: t["x"] - t["y"] + t["x"], lambda t: t["x"] - t["y"], False),
    ],
)
def test_values_are_read_alike_where_the_same_is_made_of_them(
    one: Make, two: Make, *, is_same: bool
) -> None:
    expressions = Expressions()

    found = reads(expressions, one)["x"], reads(expressions, two)["x"]

    assert (found[0] == found[1]) is is_same


def test_what_is_read_for_something_unknown_is_read_like_nothing_else() -> None:
    expressions = Expressions()

    found = [
        reads(expressions, lambda t: t["x"] + t["y"], unknown=unknown)["x"]
        for unknown in (False, True, True)
    ]

    assert len(set(found)) == 3
