"""Results of two programs agree, or differ, with as few executions as tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.comparer.proving.executed import Runs, Sink, disturbing, is_near
from tests.support.small_programs import lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.program import Rounding
    from padiff.program.lowering.builder import Term
    from padiff.program.primitives import Array

SHAPES = {"x": (64,), "large": (64,)}
SINK = Sink(2, 2, None)
GIVEN = {
    0: np.random.default_rng(0).uniform(1, 2, 64),
    1: np.random.default_rng(1).uniform(1e9, 2e9, 64),
}


class _Counted(Runs):
    """Counts the executions with random errors."""

    disturbed = 0

    def execute(
        self, which: int, rounding: Rounding | None = None, sinks: Sequence[Sink] | None = None
    ) -> dict[int, Array]:
        self.disturbed += rounding is not None
        return super().execute(which, rounding, sinks)


def runs_of(*makes: Callable[[Mapping[str, Term]], Term]) -> _Counted:
    """Execute two programs of the same leaves."""
    program = SimpleNamespace(operators=(None,))
    sides: Any = tuple(
        SimpleNamespace(lowered=lowered(SHAPES, make)[0], program=program) for make in makes
    )
    return _Counted(sides, (GIVEN, GIVEN), [SINK])


def plain(leaves: Mapping[str, Term]) -> Term:
    return leaves["x"] + leaves["large"] * 0.0


def left_behind(leaves: Mapping[str, Term]) -> Term:
    """The same, as what a sum of large numbers leaves of it."""
    sums = leaves["x"]
    for count in range(1, 9):
        sums = sums + leaves["large"] * float(count)
    for count in range(1, 9):
        sums = sums - leaves["large"] * float(count)
    return sums


def scaled(by: float) -> Callable[[Mapping[str, Term]], Term]:
    return lambda leaves: plain(leaves) * by


def spotted(leaves: Mapping[str, Term]) -> Term:
    """Another one where an element is the largest."""
    largest = leaves["large"].builder("amax", leaves["large"], axes=(0,), keepdims=True)
    is_less = leaves["large"] < largest
    return leaves["large"].builder("where", is_less, plain(leaves), plain(leaves) * 1.0001)


def test_what_a_sum_of_large_numbers_leaves_behind_agrees() -> None:
    runs = runs_of(plain, left_behind)

    assert np.max(np.abs(np.subtract(*runs.pair(SINK)))) > 1e-8
    assert runs.agree(SINK)
    assert runs.disturbed == 2  # one seed, both sides


def test_elements_that_are_the_same_need_no_errors() -> None:
    runs = runs_of(plain, scaled(1 + 1e-12))

    assert runs.agree(SINK)
    assert runs.disturbed == 0


@pytest.mark.parametrize(("by", "count"), [(1.1, 0), (1.0001, 2)])
def test_a_large_difference_needs_one_seed_at_most(by: float, count: int) -> None:
    runs = runs_of(plain, scaled(by))

    assert not runs.agree(SINK)
    assert runs.disturbed == count


def test_a_difference_near_to_what_is_allowed_needs_both_seeds() -> None:
    runs = runs_of(plain, scaled(1 + 2e-9))

    assert not runs.agree(SINK)
    assert runs.disturbed == 4


def test_larger_errors_tell_what_differs() -> None:
    far, near = runs_of(plain, scaled(1 + 1e-6)), runs_of(plain, scaled(1 + 1e-12))

    assert not far.agree(SINK, lambda: (np.full(64, 1e-7), 2.0**29))
    assert far.disturbed == 0
    assert near.agree(SINK, lambda: pytest.fail("right forms differ by as much"))


def test_larger_errors_that_move_a_result_further_leave_it_to_those_of_float64() -> None:
    runs = runs_of(plain, scaled(1 + 1e-6))

    assert not runs.agree(SINK, lambda: (np.full(64, 1e-4), 2.0**29))
    assert runs.disturbed == 2


def test_a_difference_of_few_elements_is_left_to_the_errors_of_float64() -> None:
    runs = runs_of(plain, spotted)

    assert not runs.agree(SINK, lambda: pytest.fail("most elements agree"))
    assert runs.disturbed


def test_what_was_executed_before_is_not_executed_again_but_with_errors() -> None:
    before = np.full(64, 7.0)
    program = SimpleNamespace(operators=(None,))
    side: Any = SimpleNamespace(lowered=lowered(SHAPES, plain)[0], program=program)

    runs = Runs((side, side), (GIVEN, GIVEN), [SINK], ({2: before}, {}))

    known, found = runs.pair(SINK)
    assert np.array_equal(known, before)
    assert np.array_equal(found, GIVEN[0])
    disturbed = runs.execute(0, disturbing(1, seed=1))[2]
    np.testing.assert_allclose(disturbed, GIVEN[0], rtol=1e-12)


def test_elements_beside_the_number_of_a_mask_have_a_size_of_their_own() -> None:
    known = np.array([[0.5, -3.4e38], [0.25, 0.75]])

    assert is_near(known * (1 + 1e-12), known)
    assert not is_near(known + np.array([[0.0, 0.0], [0.01, 0.0]]), known)
