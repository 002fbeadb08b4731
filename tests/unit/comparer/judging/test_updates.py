"""What updates leave to later steps is of one rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.judging.rejudge import Outcome, rejudge
from padiff.dumpfile import Phase, Role
from tests.support.dumps import DumpBuilder, write_dump

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Array = npt.NDArray[np.float32]

WEIGHT = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
GRADIENT = np.full((4, 4), 0.5, np.float32)
GRADIENT[0, 0] = 1e-9
MOVE = np.full((4, 4), 0.01, np.float32)
TURNED = MOVE.copy()
TURNED[0, 0] = -0.01
"""As ``MOVE``, but for the element of which the gradient is rounding noise."""
NEARLY = np.float32(1.1e-5)
"""More than a weight's own rounding, less than an update's default tolerance: 1.2e-3 of 0.01."""
OFF = 1e-3
GIVEN = 5e-3
"""Less than the turned element moves the output by, and more than an eighth of that."""


def step(
    number: int, rank: int, *, before: Array, moved: Array, output: float = 0.0
) -> DumpBuilder:
    """Build a step of one Linear that Adam updates."""
    x = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
    made = x @ before.T + np.float32(output)
    builder = DumpBuilder(step=number, rank=rank).module("", "Net").module("fc", "Linear")
    builder.tensor("fc", "weight", before).enter("", inputs=[x])
    builder.call("fc", inputs=[x], outputs=[made]).leave(outputs=[made])
    builder.record("fc", Role.WEIGHT_GRAD, GRADIENT, slot=".weight")
    return builder.record("fc", Role.WEIGHT, before - moved, slot=".weight", phase=Phase.UPDATE)


def compared(
    tmp_path: Path, *candidate: DumpBuilder, atol: float | None = None, rtol: float | None = None
) -> Comparison:
    """Compare steps with those of a reference whose weights all go down."""
    reference = [
        step(one.step, one.rank, before=WEIGHT - one.step * MOVE, moved=MOVE) for one in candidate
    ]
    return compare(
        write_dump(tmp_path / "reference", *reference),
        write_dump(tmp_path / "candidate", *candidate),
        CompareSettings(atol=atol, rtol=rtol),
    )


def diverged(comparison: Comparison) -> list[tuple[int, int]]:
    """Give the steps and ranks in which a record diverged."""
    return [
        (found.step, found.rank)
        for found in comparison.steps
        if any(pair.verdict is Verdict.DIVERGED for pair in found.pairs)
    ]


def test_drift_of_a_rank_is_allowed_in_its_later_steps(tmp_path: Path) -> None:
    comparison = compared(
        tmp_path,
        step(0, 0, before=WEIGHT, moved=TURNED),
        step(1, 0, before=WEIGHT - TURNED, moved=MOVE, output=OFF),
    )

    assert diverged(comparison) == []


def test_drift_does_not_loosen_a_tolerance_that_was_given(tmp_path: Path) -> None:
    comparison = compared(
        tmp_path,
        step(0, 0, before=WEIGHT, moved=TURNED),
        step(1, 0, before=WEIGHT - TURNED, moved=MOVE, output=OFF),
        atol=GIVEN,
        rtol=0.0,
    )

    outputs = [
        pair
        for pair in comparison.steps[1].pairs
        if pair.reference is not None and pair.reference.address.role is Role.OUTPUT
    ]
    assert {pair.verdict for pair in outputs} == {Verdict.DIVERGED}


@pytest.mark.parametrize("atol", [0.0, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("moved", [TURNED, MOVE + NEARLY], ids=["noise", "nearly"])
def test_an_atol_alone_is_never_stricter_for_updates_than_the_default(
    moved: Array, atol: float, tmp_path: Path
) -> None:
    comparison = compared(tmp_path, step(0, 0, before=WEIGHT, moved=moved), atol=atol)

    assert diverged(comparison) == []


@pytest.mark.parametrize(("atol", "expected"), [(None, [(0, 0)]), (OFF / 2, [(0, 0)]), (GIVEN, [])])
def test_an_atol_alone_loosens_updates(
    atol: float | None, expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    moved = MOVE + np.float32(OFF)

    comparison = compared(tmp_path, step(0, 0, before=WEIGHT, moved=moved), atol=atol)

    assert diverged(comparison) == expected


@pytest.mark.parametrize("before", [None, 1e-9, 1e-6, OFF / 2, GIVEN])
@pytest.mark.parametrize("again", [0.0, 1e-9, 1e-6, OFF / 2, GIVEN, 1.0])
@pytest.mark.parametrize("moved", [TURNED, MOVE + NEARLY, MOVE + np.float32(OFF)])
def test_judging_updates_again_is_comparing_again_or_open(
    moved: Array, before: float | None, again: float, tmp_path: Path
) -> None:
    candidate = step(0, 0, before=WEIGHT, moved=moved)
    report = compared(tmp_path / "before", candidate, atol=before)
    comparison = compared(tmp_path / "again", candidate, atol=again)

    (found,) = rejudge(report, atol=again, rtol=None).pairs  # all else is equal by digest

    is_known = found.outcome is not Outcome.UNDECIDED
    assert is_known or before is None or again < before or diverged(comparison)
    assert not is_known or found.agrees is (not diverged(comparison))


def test_atol_and_rtol_together_are_the_rule_for_updates_too(tmp_path: Path) -> None:
    candidate = step(0, 0, before=WEIGHT, moved=MOVE + NEARLY)

    comparison = compared(tmp_path, candidate, atol=1e-6, rtol=0.0)

    assert diverged(comparison) == [(0, 0)]


@pytest.mark.parametrize("atol", [None, 0.0, 1e-12, 1e-6])
def test_an_atol_alone_is_never_stricter_for_moments_than_the_default(
    atol: float | None, tmp_path: Path
) -> None:
    moment, slot = np.linspace(0, 10, 16, dtype=np.float32).reshape(4, 4), ".weight['exp_avg']"
    paths = []
    for name, off in (("reference", 0.0), ("candidate", 2e-4)):
        built = step(0, 0, before=WEIGHT, moved=MOVE)
        after = moment + np.float32(off)
        built.record("fc", Role.OPTIMIZER_STATE, after, slot=slot, phase=Phase.UPDATE)
        paths.append(write_dump(tmp_path / name, built))

    assert diverged(compare(paths[0], paths[1], CompareSettings(atol=atol))) == []


def test_drift_of_a_rank_is_not_allowed_to_another(tmp_path: Path) -> None:
    comparison = compared(
        tmp_path,
        step(0, 0, before=WEIGHT, moved=TURNED),
        step(0, 1, before=WEIGHT, moved=MOVE, output=OFF),
        step(1, 0, before=WEIGHT - TURNED, moved=MOVE),
        step(1, 1, before=WEIGHT - MOVE, moved=MOVE, output=OFF),
    )

    assert diverged(comparison) == [(0, 1), (1, 1)]


def biased(gradient: float, moved: float) -> DumpBuilder:
    """Build a step of one Linear whose bias stands before a batch norm: its gradient is noise."""
    x = np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4)
    builder = DumpBuilder(step=0, rank=0).module("", "Net").module("fc", "Linear")
    builder.tensor("fc", "weight", WEIGHT).tensor("fc", "bias", np.zeros(4, np.float32))
    builder.enter("", inputs=[x]).call("fc", inputs=[x], outputs=[x @ WEIGHT.T])
    builder.leave(outputs=[x @ WEIGHT.T])
    for name, value, after in (
        ("weight", GRADIENT, WEIGHT - MOVE),
        ("bias", np.full(4, gradient, np.float32), np.full(4, -moved, np.float32)),
    ):
        builder.record("fc", Role.WEIGHT_GRAD, value, slot=f".{name}")
        builder.record("fc", Role.WEIGHT, after, slot=f".{name}", phase=Phase.UPDATE)
    return builder


def noisy(tmp_path: Path, gradient: float) -> list[tuple[int, int]]:
    """Compare an update that Adam's epsilon kept small with one that it did not."""
    reference = write_dump(tmp_path / "reference", biased(1e-9, 1e-3))
    candidate = write_dump(tmp_path / "candidate", biased(gradient, 9e-3))
    return diverged(compare(reference, candidate, CompareSettings()))


def test_a_larger_update_from_other_noise_is_no_divergence(tmp_path: Path) -> None:
    assert noisy(tmp_path, 1e-7) == []


def test_a_larger_update_from_the_same_gradient_is_a_divergence(tmp_path: Path) -> None:
    assert noisy(tmp_path, 1e-9) == [(0, 0)]
