"""Rounding that adds up over 24 bfloat16 layers is told from a fault in one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from benchmarks.localisation.faults import plant
from benchmarks.localisation.models import WIDTH, Layer
from benchmarks.localisation.parts import restyle
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.locating.flow import DRIFT, call_errors
from padiff.dumpfile import Phase
from tests.support.drawing import draw

if TYPE_CHECKING:
    from pathlib import Path

LAYERS, FAULTY = 24, 12


def recorded(out: Path, name: str, *, style: str = "", fault: str = "") -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer() for _ in range(LAYERS)))
    if style:
        restyle(model, style)
    if fault:
        plant(model[FAULTY], fault)
    given = torch.randn(2, 8, WIDTH).bfloat16()
    with padiff.record(model.bfloat16().eval(), name=name, out=out) as recorder, torch.no_grad():
        model(given)
    assert recorder.path is not None
    return recorder.path


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    out = tmp_path_factory.mktemp("drift")
    return {
        "reference": recorded(out, "reference"),
        "other": recorded(out, "other", style="all"),
        "faulty": recorded(out, "faulty", style="all", fault="no attention scale"),
    }


@pytest.fixture(scope="module")
def drifted(paths: dict[str, Path]) -> Comparison:
    return compare(paths["reference"], paths["other"], CompareSettings())


@pytest.fixture(scope="module")
def faulty(paths: dict[str, Path]) -> Comparison:
    return compare(paths["reference"], paths["faulty"], CompareSettings())


def steps(found: Comparison) -> list[str]:
    """Name the layers in which the error grows by a step, those fed equal inputs left out."""
    return [
        error.module
        for error in call_errors(found.steps[0])
        if error.phase is Phase.FORWARD and error.module.isdigit()
        if error.entering and (error.amplification or 0) > DRIFT
    ]


def test_drift_is_no_divergence_and_shows_no_step(drifted: Comparison) -> None:
    errors = {error.module: error.leaving for error in call_errors(drifted.steps[0])}
    assert drifted.verdict is Verdict.MATCH
    assert errors[str(LAYERS - 1)] > 2 * errors["0"]
    assert steps(drifted) == []


def test_drift_past_a_tight_tolerance_is_called_drift(
    paths: dict[str, Path], drifted: Comparison
) -> None:
    largest = max(
        pair.metrics.max_abs or 0.0
        for pair in drifted.steps[0].pairs
        if pair.metrics is not None
        if pair.reference is not None and pair.reference.address.module == str(LAYERS // 2)
    )

    found = compare(
        paths["reference"], paths["other"], CompareSettings(atol=largest, rtol=0.0)
    ).origins[0]

    assert any("it drifted up to the tolerance" in line for line in found.evidence)
    assert not any("a step" in line for line in found.evidence)


def test_a_fault_on_top_of_the_drift_is_the_origin(faulty: Comparison) -> None:
    first = faulty.origins[0]
    assert first.pair.reference is not None
    assert first.pair.reference.address.module == f"{FAULTY}.attention"
    assert any("scale" in line for line in first.evidence)
    assert first.amplification is not None
    assert first.amplification > DRIFT


def test_the_verbose_report_lists_the_growth_of_every_call(faulty: Comparison) -> None:
    text = draw(faulty, verbose=True, max_rows=0, width=140)

    row = next(
        line for line in text.partition("GROWTH OF THE ERROR")[2].splitlines()
        if line.split()[:1] == [f"{FAULTY}.attention"]
    )  # fmt: skip
    assert "<--- a step" in row
