"""A third, more precise run tells whose error is larger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import CompareSettings, Comparison, JudgedPair, Verdict, compare
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder

if TYPE_CHECKING:
    from pathlib import Path

Array = npt.NDArray[Any]

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((6, 4))
W = RANDOM.standard_normal((3, 4))
G = RANDOM.standard_normal((6, 3))
FLOAT32, FLOAT64, BFLOAT16 = (
    np.dtype(np.float32),
    np.dtype(np.float64),
    np.dtype(ml_dtypes.bfloat16),
)


def written(
    path: Path,
    dtype: np.dtype[Any] = FLOAT32,
    *,
    framework: str = "torch",
    error: float = 0.0,
    gradient_error: float = 0.0,
    is_whole: bool = True,
) -> Path:
    """Write ``y = x @ W.T`` with errors added; Paddle keeps the weight transposed."""
    output = ((X @ W.T) * (1 + error)).astype(dtype)
    weight, gradient = W, (G.T @ X) * (1 + gradient_error)
    if framework == "paddle":
        weight, gradient = weight.T, gradient.T
    x = X.astype(dtype)
    built = DumpBuilder(framework=framework).module("", "Net").module("fc", "Linear")
    built.tensor("fc", "weight", np.ascontiguousarray(weight.astype(dtype)))
    built.enter("", inputs=[x])
    if is_whole:
        built.call("fc", inputs=[x], outputs=[output])
    built.leave(outputs=[output * 2])
    built.record(
        "fc", Role.WEIGHT_GRAD, np.ascontiguousarray(gradient.astype(dtype)), slot=".weight"
    )
    return built.write(path)


def judged(found: Comparison, role: Role, module: str = "fc") -> JudgedPair:
    return next(
        pair
        for pair in found.steps[0].pairs
        if pair.reference is not None
        and (pair.reference.address.module, pair.reference.address.role) == (module, role)
    )


def compared(golden: Path, reference: Path, candidate: Path) -> Comparison:
    return compare(reference, candidate, CompareSettings(golden=golden))


@pytest.mark.parametrize(
    ("reference", "candidate", "verdict"),
    [
        (1e-4, -4e-4, Verdict.MATCH),
        (1e-4, 6e-4, Verdict.DIVERGED),
        (0.0, 1e-3, Verdict.DIVERGED),
        (1e-3, 0.0, Verdict.MATCH),
    ],
)
def test_the_candidate_may_be_off_by_the_factor_times_the_reference(
    reference: float, candidate: float, verdict: Verdict, tmp_path: Path
) -> None:
    found = compared(
        written(tmp_path / "golden", FLOAT64),
        written(tmp_path / "known", error=reference),
        written(tmp_path / "found", error=candidate),
    )

    assert judged(found, Role.OUTPUT).verdict is verdict
    assert found.verdict is verdict


def test_a_candidate_that_is_more_precise_is_said_to_be(tmp_path: Path) -> None:
    found = compared(
        written(tmp_path / "golden", FLOAT64),
        written(tmp_path / "known", error=1e-3),
        written(tmp_path / "found", error=1e-6),
    )

    assert found.verdict is Verdict.MATCH
    assert "more precise than the reference" in judged(found, Role.OUTPUT).reason
    assert any("more precise" in note for note in found.notes)


def test_a_float32_candidate_of_a_bfloat16_reference_matches_by_a_float64_golden(
    tmp_path: Path,
) -> None:
    found = compared(
        written(tmp_path / "golden", FLOAT64),
        written(tmp_path / "known", BFLOAT16),
        written(tmp_path / "found", FLOAT32),
    )

    pair = judged(found, Role.OUTPUT)
    assert pair.verdict is Verdict.MATCH
    assert pair.errors is not None
    assert pair.errors.candidate < 1e-6
    assert pair.errors.reference > 1e-3


def test_rounding_of_a_bfloat16_candidate_is_no_error(tmp_path: Path) -> None:
    paths = written(tmp_path / "golden", FLOAT64), written(tmp_path / "known", FLOAT32)

    rounded = compared(*paths, written(tmp_path / "rounded", BFLOAT16))
    wrong = compared(*paths, written(tmp_path / "wrong", BFLOAT16, error=0.1))

    assert judged(rounded, Role.OUTPUT).verdict is Verdict.MATCH
    assert judged(wrong, Role.OUTPUT).verdict is Verdict.DIVERGED


def test_a_float32_golden_judges_a_bfloat16_pair(tmp_path: Path) -> None:
    paths = written(tmp_path / "golden", FLOAT32), written(tmp_path / "known", BFLOAT16)

    wrong = compared(*paths, written(tmp_path / "wrong", BFLOAT16, error=0.1))

    assert compared(*paths, written(tmp_path / "same", BFLOAT16)).verdict is Verdict.MATCH
    assert judged(wrong, Role.OUTPUT).verdict is Verdict.DIVERGED


def test_a_record_that_the_golden_lacks_is_judged_by_the_two_sides(tmp_path: Path) -> None:
    golden = written(tmp_path / "golden", FLOAT64, is_whole=False)
    known = written(tmp_path / "known")

    found = compared(golden, known, written(tmp_path / "found", error=1e-3))

    inner, root = judged(found, Role.OUTPUT), judged(found, Role.OUTPUT, "")
    assert inner.errors is None
    assert inner.verdict is Verdict.DIVERGED
    assert root.errors is not None
    plain = compare(known, tmp_path / "found", CompareSettings())
    assert inner == judged(plain, Role.OUTPUT)


@pytest.mark.parametrize("golden", ["torch", "paddle"])
def test_layouts_are_turned_before_errors_are_taken(golden: str, tmp_path: Path) -> None:
    found = compared(
        written(tmp_path / "golden", FLOAT64, framework=golden),
        written(tmp_path / "known", gradient_error=1e-4),
        written(tmp_path / "found", framework="paddle", gradient_error=2e-4),
    )

    pair = judged(found, Role.WEIGHT_GRAD)
    largest = float(np.abs(G.T @ X).max())
    assert pair.layout == "transpose"
    assert pair.errors is not None
    assert pair.errors.reference == pytest.approx(1e-4 * largest, rel=0.01)
    assert pair.errors.candidate == pytest.approx(2e-4 * largest, rel=0.01)
    assert pair.verdict is Verdict.MATCH


def test_nan_on_one_side_is_no_question_of_errors(tmp_path: Path) -> None:
    found = compared(
        written(tmp_path / "golden", FLOAT64),
        written(tmp_path / "known", error=1e-3),
        written(tmp_path / "found", error=float("nan")),
    )

    assert judged(found, Role.OUTPUT).verdict is Verdict.DIVERGED


def test_weights_that_were_rounded_to_the_candidates_dtype_agree(tmp_path: Path) -> None:
    golden, known = written(tmp_path / "golden", FLOAT64), written(tmp_path / "known")
    found = written(tmp_path / "found", BFLOAT16)

    result = compare(known, found, CompareSettings(golden=golden))

    weight = judged(result, Role.WEIGHT)
    assert (weight.verdict, weight.errors) == (Verdict.MATCH, None)


def test_another_weight_diverges_beside_a_golden_run(tmp_path: Path) -> None:
    golden, known = written(tmp_path / "golden", FLOAT64), written(tmp_path / "known")
    other = DumpBuilder(framework="torch").module("", "Net").module("fc", "Linear")
    other.tensor("fc", "weight", (W * 1.5).astype(np.float32))
    other.enter("", inputs=[X.astype(np.float32)]).leave(outputs=[X.astype(np.float32)])

    result = compare(known, other.write(tmp_path / "other"), CompareSettings(golden=golden))

    assert judged(result, Role.WEIGHT).verdict is Verdict.DIVERGED
