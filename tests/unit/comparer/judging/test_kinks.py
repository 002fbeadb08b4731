"""Gradients behind an activation that is on the other side of its kink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest

from padiff.comparer import CompareSettings, Comparison, ToleranceRule, Verdict, compare
from padiff.comparer.judging.rejudge import rejudge
from padiff.comparer.report.json_report import to_json
from padiff.dumpfile import Role
from tests.support.dumps import DumpBuilder
from tests.support.layer_pairs import normal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Array = npt.NDArray[Any]
X, FIRST, LAST = normal(32, 16, seed=1), normal(16, 16, seed=2), normal(16, 8, seed=3)
ARRIVING = normal(32, 8, seed=4)
NEAR = np.zeros((32, 16), np.float32)
NEAR[5, 3], NEAR[20, 9] = 1, -1
"""Where the hidden state lies within rounding of the kink, and on which side of it."""


def clamped(high: float) -> Callable[[Array], Array]:
    def clamp(hidden: Array) -> Array:
        return np.clip(hidden, 0, np.float32(high))

    return clamp


def net(  # noqa: PLR0913
    path: Path,
    *,
    shift: float = 0.0,
    high: float = np.inf,
    wrong: float = 1.0,
    forward: float = 1.0,
    kink: float = 0.0,
    left_out: float = 0,
    slope: float = 0.0,
) -> Path:
    """Write two products with a clamp between them, forward and backward by hand.

    Args:
        path: Where to.
        shift: How far from the kink the two elements lie.
        high: Upper end of the clamp.
        wrong: Factor on the gradient that the first product passes on.
        forward: Factor on what the model gives.
        kink: Where the two elements lie, but for the shift.
        left_out: How many rows the gradient of the clamp's result lacks.
        slope: Of a leaky ReLU instead of the clamp, below zero.
    """
    hidden = X @ FIRST
    hidden = np.where(NEAR != 0, np.float32(kink) + NEAR * np.float32(shift), hidden)
    active, gate = np.clip(hidden, 0, np.float32(high)), (hidden > 0) & (hidden < high)
    if slope:
        gate = np.where(hidden > 0, np.float32(1), np.float32(slope))
        active = hidden * gate
    result = active @ LAST * np.float32(forward)
    behind = ARRIVING @ LAST.T
    inner = behind * gate
    built = (
        DumpBuilder()
        .module("", "Net")
        .module("first", "Linear")
        .module("act", "LeakyReLU" if slope else "ReLU")
    )
    built.module("last", "Linear").tensor("first", "weight", FIRST).tensor("last", "weight", LAST)
    built.enter("", inputs=[X]).call("first", inputs=[X], outputs=[hidden])
    built.call("act", inputs=[hidden], outputs=[active])
    built.call("last", inputs=[active], outputs=[result]).leave(outputs=[result])
    for module, entering, leaving in (
        ("last", ARRIVING, behind),
        ("act", behind, inner),
        ("first", inner, inner @ FIRST.T * np.float32(wrong)),
    ):
        built.record(
            module, Role.GRAD_OUTPUT, entering[int(left_out) :] if module == "act" else entering
        )
        built.record(module, Role.GRAD_INPUT, leaving, slot="[0]")
    built.record("", Role.GRAD_INPUT, leaving, slot="[0]")
    built.record("first", Role.WEIGHT_GRAD, X.T @ inner, slot=".weight")
    return built.write(path)


def compared(
    tmp_path: Path, *, settings: CompareSettings | None = None, **changes: float
) -> Comparison:
    """Compare two sides between which the two elements went over the kink."""
    both = {name: changes.pop(name) for name in ("high", "kink", "slope") if name in changes}
    known = net(tmp_path / "known", shift=1e-7, **both)
    found = net(tmp_path / "found", shift=-1e-7, **both, **changes)
    return compare(known, found, settings or CompareSettings())


def test_what_an_element_over_a_relu_adds_to_gradients_is_no_divergence(tmp_path: Path) -> None:
    found = compared(tmp_path)

    assert (found.verdict, found.steps[0].divergences) == (Verdict.MATCH, ())
    excused = [pair for pair in found.steps[0].pairs if "other side of a kink" in pair.reason]
    assert {pair.metrics.mismatched > 0 for pair in excused if pair.metrics} == {True}
    (note,) = (note for note in found.steps[0].notes if "kink" in note)
    assert f"{len(excused)} gradients" in note
    assert "first at step 0 act#0 grad_input[0]" in note


def test_the_upper_end_of_a_clamp_is_a_kink_too(tmp_path: Path) -> None:
    high = float((X @ FIRST).max()) / 4

    assert compared(tmp_path, high=high, kink=high).verdict is Verdict.MATCH


def test_zero_is_a_kink_of_a_leaky_relu(tmp_path: Path) -> None:
    found = compared(tmp_path, slope=0.2)

    assert found.verdict is Verdict.MATCH
    assert any("kink" in note for note in found.steps[0].notes)


def test_a_wrong_gradient_behind_a_leaky_relu_is_still_a_divergence(tmp_path: Path) -> None:
    assert compared(tmp_path, slope=0.2, wrong=1.5).verdict is Verdict.DIVERGED


def test_a_wrong_gradient_behind_a_kink_is_still_a_divergence(tmp_path: Path) -> None:
    found = compared(tmp_path, wrong=1.25)

    assert found.verdict is Verdict.DIVERGED
    assert [one.pair.reference.address.module for one in found.origins if one.pair.reference] == [
        "first"
    ]


def test_a_gradient_of_another_shape_is_no_measure_of_a_kink(tmp_path: Path) -> None:
    found = compared(tmp_path, left_out=1)

    verdicts = {pair.verdict for pair in found.steps[0].pairs}
    assert Verdict.INCOMPARABLE in verdicts
    assert found.verdict is Verdict.DIVERGED


def test_without_an_element_at_a_kink_the_same_gradients_diverge(tmp_path: Path) -> None:
    known, found = net(tmp_path / "known", shift=1e-7), net(tmp_path / "found", shift=1e-7)
    assert compare(known, found, CompareSettings()).verdict is Verdict.MATCH

    other = net(tmp_path / "other", shift=1e-7, wrong=1 + 1e-3)

    assert compare(known, other, CompareSettings()).verdict is Verdict.DIVERGED


def test_where_the_forward_pass_diverged_no_gradient_is_excused(tmp_path: Path) -> None:
    found = compared(tmp_path, forward=1.01)

    assert not [pair for pair in found.steps[0].pairs if "kink" in pair.reason]
    assert any("grad_input" in str(one.pair.reference.address) for one in found.steps[0].divergences
               if one.pair.reference)  # fmt: skip


@pytest.mark.parametrize(
    "settings",
    [
        CompareSettings(rtol=1e-5),
        CompareSettings(atol=1e-5, rtol=1e-5),
        CompareSettings(rules=(ToleranceRule(pattern="first", atol=1e-5, role=Role.WEIGHT_GRAD),)),
    ],
)
def test_an_rtol_or_a_rule_that_the_user_gave_is_taken_as_it_is(
    settings: CompareSettings, tmp_path: Path
) -> None:
    found = compared(tmp_path, settings=settings)

    assert found.verdict is Verdict.DIVERGED


def test_an_atol_alone_leaves_kinks_excused(tmp_path: Path) -> None:
    assert compared(tmp_path, settings=CompareSettings(atol=1e-4)).verdict is Verdict.MATCH


def bad(comparison: Comparison) -> set[str]:
    pairs = comparison.steps[0].pairs
    return {str(one.reference.address) for one in pairs if one.fatal and one.reference}


def test_judging_again_at_another_atol_excuses_the_same(tmp_path: Path) -> None:
    report = to_json(compared(tmp_path))

    again = rejudge(report, atol=1e-4, rtol=None)

    assert (again.reasons, again.undecided) == ((), ())
    assert bad(compared(tmp_path, settings=CompareSettings(atol=1e-4))) == set()


def test_judging_again_at_an_rtol_excuses_nothing(tmp_path: Path) -> None:
    report = to_json(compared(tmp_path))

    assert rejudge(report, atol=None, rtol=None).reasons == ()
    wanted = bad(compared(tmp_path, settings=CompareSettings(atol=1e-4, rtol=1e-5)))
    again = rejudge(report, atol=1e-4, rtol=1e-5)
    assert {one.name for one in again.diverged} <= wanted
    assert {one.name for one in (*again.diverged, *again.undecided)} == wanted
    assert again.diverged


def test_judging_again_leaves_open_what_kinks_were_not_looked_for(tmp_path: Path) -> None:
    loose = compared(tmp_path, settings=CompareSettings(atol=1e3))
    assert not [pair for pair in loose.steps[0].pairs if pair.reason]

    again = rejudge(to_json(loose), atol=1e-4, rtol=None)

    assert again.reasons == ()
    assert {"kink" in one.why for one in again.undecided} == {True}


def test_judging_again_excuses_nothing_where_the_forward_phase_comes_to_diverge(
    tmp_path: Path,
) -> None:
    loose = compared(tmp_path, forward=1.01, settings=CompareSettings(atol=1e3))
    wanted = bad(compared(tmp_path, forward=1.01, settings=CompareSettings(atol=1e-4)))

    again = rejudge(to_json(loose), atol=1e-4, rtol=None)

    assert {one.name for one in (*again.diverged, *again.undecided)} == wanted
    assert not [one for one in again.undecided if "kink" in one.why]


def pooled(path: Path, *, ahead: float, is_lost: bool = False) -> Path:
    """Write a max pooling over pairs; in the first, one is ahead of the other by rounding."""
    given = normal(4, 64, seed=6)
    given[0, :2] = 1, 1 + np.float32(ahead)
    windows = given.reshape(4, 32, 2)
    largest, winner = windows.max(-1), windows.argmax(-1)
    gradient = normal(4, 32, seed=7)
    passed = np.where(np.arange(2) == winner[..., None], gradient[..., None], 0).reshape(4, 64)
    passed[0, :2] = passed[0, 1::-1] if is_lost else passed[0, :2]
    before = np.tanh(given).astype(np.float32)
    built = DumpBuilder().module("", "Net").module("first", "Tanh")
    built.module("pool", "MaxPool1d", class_path="torch.nn.modules.pooling.MaxPool1d")
    built.enter("", inputs=[before]).call("first", inputs=[before], outputs=[given])
    built.call("pool", inputs=[given], outputs=[largest]).leave(outputs=[largest])
    built.record("pool", Role.GRAD_OUTPUT, gradient)
    built.record("pool", Role.GRAD_INPUT, passed, slot="[0]")
    built.record("first", Role.GRAD_OUTPUT, passed)
    built.record("first", Role.GRAD_INPUT, passed * np.float32(0.5), slot="[0]")
    return built.write(path)


def test_another_largest_element_of_a_window_is_a_kink(tmp_path: Path) -> None:
    known = pooled(tmp_path / "known", ahead=1e-6)

    found = compare(known, pooled(tmp_path / "found", ahead=-1e-6), CompareSettings())

    assert found.verdict is Verdict.MATCH
    assert any("kink" in note for note in found.steps[0].notes)


def test_a_gradient_that_goes_to_another_than_the_largest_diverges(tmp_path: Path) -> None:
    known = pooled(tmp_path / "known", ahead=0.5)
    wrong = pooled(tmp_path / "found", ahead=0.5 + 1e-6, is_lost=True)

    found = compare(known, wrong, CompareSettings())

    assert found.verdict is Verdict.DIVERGED


def test_nothing_is_read_where_all_gradients_agree(tmp_path: Path) -> None:
    known = net(tmp_path / "known", shift=1e-7)

    found = compare(known, known, CompareSettings())

    assert found.steps[0].notes == ()
