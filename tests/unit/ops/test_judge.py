"""Who is wrong about a case, by its float64 program; no framework is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.ops.cases import Case, Fill, Tensor, signs
from padiff.ops.judging import Kind, Side, judge
from padiff.ops.table import TABLE
from padiff.ops.workers import Crash, Error, Outcome

if TYPE_CHECKING:
    from padiff.ops.judging import Finding

EXP = Case(operator="exp", arguments={"input": Tensor(shape=(2,), elements=(0.5, 1.0))})
RIGHT = np.exp(np.array([0.5, 1.0])).astype(np.float32)
ERROR = Error(kind="ValueError", text="no [2, 3]", stage="forward")


def outcome(elements: object, gradient: object = None, dtype: str = "float32") -> Outcome:
    """Make what a worker returns for one input and one output."""
    gradients = () if gradient is None else (np.array(gradient, np.float32),)
    outputs = (np.array(elements, dtype),)
    return Outcome(outputs=outputs, gradients=gradients, graphs=(bool(gradients),))


def finding(case: Case, reference: Outcome, candidate: Outcome) -> Finding | None:
    row = TABLE[case.operator]
    sides = {"torch": reference, "paddle": candidate}
    return judge(row, case, sides, reference="torch", candidate="paddle").finding


@pytest.mark.parametrize(
    ("reference", "candidate", "side"),
    [(1.0, 1.001, Side.CANDIDATE), (1.001, 1.0, Side.REFERENCE), (1.001, 1.001, Side.BOTH)],
)
def test_the_program_says_who_is_wrong(reference: float, candidate: float, side: Side) -> None:
    found = finding(EXP, outcome(RIGHT * reference), outcome(RIGHT * candidate))

    assert found is not None
    assert (found.bucket.kind, found.bucket.side) == (Kind.WRONG, side)
    assert found.bucket.place == "output[0]"
    assert found.is_candidates is (side is not Side.REFERENCE)


def test_a_few_units_in_the_last_place_are_rounding() -> None:
    off = np.nextafter(RIGHT, 9).astype(np.float32)

    assert finding(EXP, outcome(RIGHT), outcome(off)) is None


def test_a_wrong_gradient_is_found_where_the_output_is_right() -> None:
    # The gradient that arrives is what a worker lets arrive: signs(2, 0).
    right = signs(2, 0) * np.exp([0.5, 1.0])

    assert finding(EXP, outcome(RIGHT, right), outcome(RIGHT, right)) is None
    found = finding(EXP, outcome(RIGHT, right), outcome(RIGHT, right * [1, 0]))
    assert found is not None
    assert (found.bucket.place, found.bucket.side) == ("gradient[input]", Side.CANDIDATE)


def test_a_gradient_that_never_arrives_counts_as_zero() -> None:
    missing = Outcome(outputs=(RIGHT,), gradients=(None,), graphs=(True,))

    found = finding(EXP, outcome(RIGHT, [9.0, 9.0]), missing)

    assert found is not None
    assert found.bucket.place == "gradient[input]"


def test_nan_where_a_number_belongs_is_wrong_and_nan_for_nan_is_right() -> None:
    case = Case(operator="relu", arguments={"input": Tensor(shape=(), fill=Fill.SPECIAL, seed=2)})

    assert finding(case, outcome(np.nan), outcome(np.nan)) is None
    found = finding(case, outcome(np.nan), outcome(0.0))
    assert found is not None
    assert found.bucket.side is Side.CANDIDATE


def test_what_kernels_flush_to_zero_is_no_error() -> None:
    case = Case(operator="exp", arguments={"input": Tensor(shape=(2,), elements=(-95.0, 1.0))})

    exact = np.exp(np.array([-95.0, 1.0])).astype(np.float32)
    assert exact[0] > 0
    assert finding(case, outcome(exact), outcome(exact * [0, 1])) is None


def test_another_dtype_or_shape_is_a_finding_of_its_own() -> None:
    dtype = finding(EXP, outcome(RIGHT), outcome(RIGHT, dtype="float64"))
    shape = finding(EXP, outcome(RIGHT), outcome(RIGHT[None]))

    assert dtype is not None
    assert dtype.bucket.kind is Kind.DTYPE
    assert shape is not None
    assert (shape.bucket.kind, shape.bucket.side) == (Kind.SHAPE, Side.CANDIDATE)


def test_a_gradient_of_another_shape_is_a_finding() -> None:
    found = finding(EXP, outcome(RIGHT, [1.0, 1.0]), outcome(RIGHT, [[1.0, 1.0]]))

    assert found is not None
    assert (found.bucket.kind, found.bucket.place) == (Kind.SHAPE, "gradient[input]")
    assert found.bucket.side is Side.CANDIDATE


def test_refusals_and_crashes_are_told_apart() -> None:
    refused, crashed = Outcome(error=ERROR), Outcome(crash=Crash(ended_by=11))
    late = Outcome(crash=Crash(ended_by=9, is_late=True))

    found = [
        finding(EXP, *sides)
        for sides in (
            (outcome(RIGHT), refused),
            (refused, refused),
            (outcome(RIGHT), crashed),
            (late, outcome(RIGHT)),
        )
    ]

    assert [one and (one.bucket.kind, one.bucket.side) for one in found] == [
        (Kind.REJECTS, Side.CANDIDATE),
        (Kind.BOTH_REJECT, Side.BOTH),
        (Kind.CRASH, Side.CANDIDATE),
        (Kind.TIME_LIMIT, Side.REFERENCE),
    ]
    assert found[2] is not None
    assert found[2].bucket.detail == "SIGSEGV"


def test_an_error_with_other_numbers_is_in_the_same_bucket() -> None:
    other = Error(kind="ValueError", text="no [7]", stage="forward")

    found = [finding(EXP, outcome(RIGHT), Outcome(error=one)) for one in (ERROR, other)]

    assert found[0] is not None
    assert found[1] is not None
    assert found[0].bucket == found[1].bucket


EXTREME = (1.7e308, -1e300, 5e-324, -1e-310, 0.0, -0.0, np.nan, np.inf, -np.inf, 1.0)


@pytest.mark.parametrize("name", ["relu", "cos", "selu", "glu", "log_softmax", "softplus", "prod"])
@pytest.mark.parametrize("elements", [EXTREME, EXTREME[:4], EXTREME[2:4], (1.7e308, 1.0), ()])
def test_no_element_makes_a_warning(name: str, elements: tuple[float, ...]) -> None:
    # The tests' settings turn a warning into an error.
    tensor = Tensor(shape=(len(elements),), dtype="float64", elements=elements)
    takes_axis = name in ("glu", "log_softmax", "prod")
    case = Case(operator=name, arguments={"input": tensor} | ({"dim": 0} if takes_axis else {}))
    array = np.array(elements)
    output = {"glu": array[: len(array) // 2], "prod": np.array(1e308)}.get(name, array)

    sides = [
        Outcome(outputs=(one,), gradients=(np.full_like(array, 1e308),), graphs=(True,))
        for one in (output, output[::-1] if output.ndim else -output)
    ]
    found = finding(case, *sides)

    assert found is None or found.bucket.kind is Kind.WRONG


@pytest.mark.parametrize("name", ["mm", "mv"])
@pytest.mark.parametrize("size", [1.7e308, 1e300, 1e154, 5e-324])
def test_products_of_extreme_numbers_make_no_error(name: str, size: float) -> None:
    taken: dict[str, dict[str, tuple[int, ...]]] = {
        "mm": {"input": (1, 1), "mat2": (1, 1)},
        "mv": {"input": (1, 1), "vec": (1,)},
    }
    inputs = {
        argument: Tensor(shape=shape, dtype="float64", elements=(size,))
        for argument, shape in taken[name].items()
    }
    case = Case(operator=name, arguments=inputs)
    with np.errstate(all="ignore"):
        product = np.square(np.full((1, 1) if name == "mm" else (1,), size))
    right = Outcome(outputs=(product,), graphs=(False,))

    assert finding(case, right, right) is None


def test_a_gradient_at_a_jump_that_both_agree_on_is_no_finding() -> None:
    inputs = {
        name: Tensor(shape=(1,), dtype="float64", elements=(one,))
        for name, one in (("input", 2.0), ("other", 1.0))
    }
    case = Case(operator="remainder", arguments=inputs)
    [arriving] = signs(1, 0)

    def sides(by_input: float) -> Outcome:
        gradients = (np.array([by_input]), np.array([-2 * arriving]))
        return Outcome(outputs=(np.array([0.0]),), gradients=gradients, graphs=(True,))

    assert finding(case, sides(arriving), sides(arriving)) is None
    assert finding(case, sides(arriving), sides(3 * arriving)) is not None
