"""Rounding that grew step by step is no divergence; a step is, however small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
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
    from collections.abc import Sequence
    from pathlib import Path

Array = npt.NDArray[Any]
LENGTH = 40
SOUND = [0.0] * LENGTH
DRIFTING = [1e-6] * LENGTH
"""Relative errors that layers add; together they pass the tolerance, which allows 4e-6."""
STEP = [5e-5 if place == 30 else error for place, error in enumerate(DRIFTING)]
X = normal(4, 8, seed=1)
SIGN = np.where(normal(4, 8, seed=2) > 0, 1, -1)


def chain(
    forward: Sequence[float],
    backward: Sequence[float] = SOUND,
    *,
    dtype: Any = np.float32,  # noqa: ANN401
    loss: float | None = None,
) -> DumpBuilder:
    """Write layers that give a little more than they get, each with an error of its own."""
    paths = [f"layer{place}" for place in range(LENGTH)]
    built = DumpBuilder().module("", "Net")
    for path in paths:
        built.module(path, "Layer")
    hidden = X.astype(dtype)
    built.enter("", inputs=[hidden])
    for path, error in zip(paths, forward, strict=True):
        made = (hidden.astype(np.float64) * 1.05 * (1 + error * SIGN)).astype(dtype)
        built.call(path, inputs=[hidden], outputs=[made])
        hidden = made
    built.leave(outputs=[hidden])
    gradient = np.ones_like(hidden)
    built.record("", Role.GRAD_OUTPUT, gradient)
    if loss is not None:
        built.record("", Role.LOSS, np.asarray(loss, np.float32))
    for path, error in zip(reversed(paths), backward, strict=True):
        passed = (gradient.astype(np.float64) * 1.05 * (1 + error * SIGN)).astype(dtype)
        built.record(path, Role.GRAD_OUTPUT, gradient)
        built.record(path, Role.GRAD_INPUT, passed, slot="[0]")
        gradient = passed
    built.record("", Role.GRAD_INPUT, gradient, slot="[0]")
    return built


def compared(
    tmp_path: Path, known: DumpBuilder, found: DumpBuilder, settings: CompareSettings | None = None
) -> Comparison:
    sides = known.write(tmp_path / "known"), found.write(tmp_path / "found")
    return compare(*sides, settings or CompareSettings())


def origins(found: Comparison) -> list[str]:
    return [one.pair.reference.address.module for one in found.origins if one.pair.reference]


def test_rounding_that_grew_step_by_step_is_no_divergence(tmp_path: Path) -> None:
    found = compared(tmp_path, chain(SOUND), chain(DRIFTING))

    excused = [one for one in found.steps[0].pairs if "grew step by step" in one.reason]
    assert (found.verdict, found.reasons) == (Verdict.MATCH, ())
    assert {one.metrics.mismatched > 0 for one in excused if one.metrics} == {True}
    (note,) = (note for note in found.steps[0].notes if "grew step by step" in note)
    assert note.startswith(f"{len(excused)} records go beyond the tolerance")


def test_a_step_on_top_of_it_is_the_only_origin(tmp_path: Path) -> None:
    found = compared(tmp_path, chain(SOUND), chain(STEP))

    assert origins(found) == ["layer30"]


def test_gradients_drift_too_and_a_step_in_them_is_named(tmp_path: Path) -> None:
    drifted = compared(tmp_path / "drift", chain(SOUND), chain(SOUND, DRIFTING))
    stepped = compared(tmp_path / "step", chain(SOUND), chain(SOUND, STEP))

    assert drifted.verdict is Verdict.MATCH
    assert origins(stepped) == ["layer9"]


@pytest.mark.parametrize(
    "settings",
    [
        CompareSettings(rtol=1.3e-6),
        CompareSettings(rules=(ToleranceRule(pattern="layer3*", atol=1e-6),)),
    ],
)
def test_an_rtol_or_a_rule_that_the_user_gave_is_taken_as_it_is(
    settings: CompareSettings, tmp_path: Path
) -> None:
    assert compared(tmp_path, chain(SOUND), chain(DRIFTING), settings).verdict is Verdict.DIVERGED


def test_in_a_coarse_dtype_a_small_fault_looks_the_same_and_is_not_excused(tmp_path: Path) -> None:
    known = chain(SOUND, dtype=ml_dtypes.bfloat16)
    found = chain([0.004] * LENGTH, dtype=ml_dtypes.bfloat16)

    assert compared(tmp_path, known, found).verdict is Verdict.DIVERGED


def gated(path: Path, *, kind: str, error: float) -> Path:
    """Write a layer that gives huge values, one that clamps them to its range, and one behind."""
    wide = normal(64, 64, seed=3) * 1000
    off = (wide + error * 1000 * np.sign(normal(64, 64, seed=4))).astype(np.float32)
    given = np.clip(off / 6 + 0.5, 0, 1).astype(np.float32)
    built = DumpBuilder().module("", "Net").module("wide", "Wide")
    built.module("gate", kind, class_path=f"torch.nn.modules.activation.{kind}")
    built.module("behind", "Layer").enter("", inputs=[X])
    built.call("wide", inputs=[X], outputs=[off]).call("gate", inputs=[off], outputs=[given])
    built.call("behind", inputs=[given], outputs=[given * 2]).leave(outputs=[given * 2])
    return built.write(path)


@pytest.mark.parametrize(
    ("kind", "verdict"), [("Hardsigmoid", Verdict.MATCH), ("Bilinear", Verdict.DIVERGED)]
)
def test_an_activation_passes_on_an_absolute_error(
    kind: str, verdict: Verdict, tmp_path: Path
) -> None:
    known = gated(tmp_path / "known", kind=kind, error=0)
    found = gated(tmp_path / "found", kind=kind, error=1.8e-6)

    result = compare(known, found, CompareSettings())

    (behind,) = (
        one.metrics for one in result.steps[0].pairs
        if one.reference and one.reference.address.module == "behind"
        if one.reference.address.role is Role.OUTPUT
    )  # fmt: skip
    assert behind is not None
    assert behind.mismatched
    assert result.verdict is verdict


@pytest.mark.parametrize(("loss", "verdict"), [(4e-3, Verdict.MATCH), (4e-1, Verdict.DIVERGED)])
def test_a_loss_is_off_by_what_the_outputs_are(
    loss: float, verdict: Verdict, tmp_path: Path
) -> None:
    known, found = chain(SOUND, loss=0), chain(DRIFTING, loss=loss)

    result = compared(tmp_path, known, found)

    assert result.verdict is verdict
    (pair,) = (one for one in result.steps[0].pairs if one.reference
               and one.reference.address.role is Role.LOSS)  # fmt: skip
    assert pair.metrics is not None
    assert pair.metrics.mismatched


def test_judging_again_excuses_what_was_excused_and_leaves_open_what_was_not_asked(
    tmp_path: Path,
) -> None:
    report = to_json(compared(tmp_path / "default", chain(SOUND), chain(DRIFTING)))
    loose = to_json(
        compared(tmp_path / "loose", chain(SOUND), chain(DRIFTING), CompareSettings(atol=1.0))
    )
    stepped = to_json(compared(tmp_path / "step", chain(SOUND), chain(STEP)))

    again = rejudge(report, atol=3e-5, rtol=None)
    bare = rejudge(report, atol=3e-5, rtol=1e-7)
    opened = rejudge(loose, atol=1e-5, rtol=None)
    wrong = rejudge(stepped, atol=3e-5, rtol=None)

    assert (again.reasons, again.undecided) == ((), ())
    assert bare.diverged
    assert opened.reasons == ()
    assert {"only the dumps show" in one.why for one in opened.undecided} == {True}
    assert len(wrong.diverged) > LENGTH - 30
