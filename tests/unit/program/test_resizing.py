"""A program that was lowered for one number of elements is executed with another one."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumpfile import ProgramError
from padiff.program import Limits, execute
from tests.support.small_programs import lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.program import Lowered
    from padiff.program.lowering.builder import Term

COUNTING = Limits(counts_anew=True)
SHAPES = {"x": (5, 4), "mask": (5,), "bias": (1, 4)}


def _rows(terms: Mapping[str, Term], count: int) -> Term:
    b = terms["x"].builder
    found = b("reshape", b("nonzero", terms["mask"], count=count), shape=(count,))
    return b("take", terms["x"], found, axis=0)


def _split(terms: Mapping[str, Term], count: int) -> Term:
    b = terms["x"].builder
    parts = b("reshape", _rows(terms, count), shape=(1, count * 2, 2))
    return b("reshape", parts, shape=(count, 2, 2))


def _expanded(terms: Mapping[str, Term], count: int) -> Term:
    b = terms["x"].builder
    rows = b("reshape", _rows(terms, count), shape=(count, 1, 4))
    return b("expand", rows, shape=(count, 3, 4))


def _biased(terms: Mapping[str, Term], count: int) -> Term:
    b = terms["x"].builder
    return b("add", _rows(terms, count), b("expand", terms["bias"], shape=(count, 4)))


def _sliced(terms: Mapping[str, Term], count: int) -> Term:
    b = terms["x"].builder
    kept = b("slice", _rows(terms, count), axis=1, start=1, stop=3, step=1)
    return b("slice", kept, axis=0, start=0, stop=count, step=1)


FORMS = [_rows, _split, _expanded, _biased, _sliced]


def _program(form: Callable[[Mapping[str, Term], int], Term], count: int) -> tuple[Lowered, int]:
    return lowered(SHAPES, lambda terms: form(terms, count))


def _leaves(count: int) -> dict[int, np.ndarray]:
    mask = np.zeros(5)
    mask[np.random.default_rng(count).permutation(5)[:count]] = 1.0
    return {0: np.arange(20.0).reshape(5, 4), 1: mask, 2: np.arange(4.0).reshape(1, 4)}


@pytest.mark.parametrize(
    ("form", "counts"),
    [
        *product(FORMS, [(2, 4), (4, 1), (3, 0)]),
        *product([_rows, _split, _expanded, _sliced], [(0, 3)]),
    ],
)
def test_other_counts_give_what_a_program_of_them_gives(
    form: Callable[[Mapping[str, Term], int], Term], counts: tuple[int, int]
) -> None:
    known, result = _program(form, counts[1])
    other, _ = _program(form, counts[0])

    found = execute(other, _leaves(counts[1]), [result], limits=COUNTING)[result]

    np.testing.assert_array_equal(found, execute(known, _leaves(counts[1]), [result])[result])


def test_other_counts_are_refused_where_they_are_not_asked_for() -> None:
    program, result = _program(_rows, 2)

    with pytest.raises(ProgramError, match="expected 2 elements"):
        execute(program, _leaves(3), [result])


def test_what_cannot_take_another_count_is_refused() -> None:
    def paired(terms: Mapping[str, Term], count: int) -> Term:
        b = terms["x"].builder
        two = b("slice", terms["x"], axis=0, start=0, stop=count, step=1)
        return b("add", _rows(terms, count), two)

    program, result = _program(paired, 2)

    with pytest.raises(ProgramError, match="expected 1 or 3 along axis -2"):
        execute(program, _leaves(3), [result], limits=COUNTING)
