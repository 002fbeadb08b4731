"""Real transformers against ports whose module trees differ: no map file, weights carried over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.inputs import InputFile
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import Role, open_dump
from tests.support.leaves import layers_that_ran, paired_layers

PORTS = Path(__file__).parents[1] / "support" / "ports"
COVERAGE = 0.95
FAULTS = {"bert": "blocks.1.norm_att", "gpt2": "stack.0.ln_b", "vit": "layers.1.ln_a"}
"""The norm of the port that gets a wrong epsilon, by ``faulty_*`` of it; cases of the score."""


def dump(side: str, name: str, out: Path, inputs: Path, *, weights: Path | None = None) -> Path:
    settings = RunSettings(
        model=parse_target(f"{PORTS / side}.py:{name}"),
        inputs=(InputFile(path=inputs),),
        record=RecordSettings(out=out, name=name if name.startswith("faulty") else side),
        weights_from=weights,
    )
    return run(settings)


def write_inputs(name: str, folder: Path) -> Path:
    random = np.random.default_rng(0)
    path = folder / "inputs.npy"
    if name == "vit":
        np.save(path, random.standard_normal((2, 3, 16, 16), dtype=np.float32))
    else:
        np.save(path, random.integers(0, 60, (2, 10)))
    return path


@pytest.fixture(scope="module", params=["bert", "gpt2", "vit"])
def dumps(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    name = str(request.param)
    out = tmp_path_factory.mktemp(name)
    inputs = write_inputs(name, out)
    reference = dump("reference_torch", name, out, inputs)
    candidate = dump("candidate_paddle", name, out, inputs, weights=reference)
    return reference, candidate


@pytest.fixture(scope="module")
def result(dumps: tuple[Path, Path]) -> Comparison:
    return compare(*dumps, CompareSettings(atol=1e-4))


def test_port_with_another_tree_matches_without_a_map(result: Comparison) -> None:
    assert result.verdict is Verdict.MATCH, result.reasons
    assert result.steps[0].coverage_reference.fraction >= COVERAGE
    assert result.steps[0].coverage_candidate.fraction >= COVERAGE


def test_every_layer_of_both_sides_is_paired(dumps: tuple[Path, Path], result: Comparison) -> None:
    for side, path in zip(("reference", "candidate"), dumps, strict=True):
        layers = layers_that_ran(path)
        assert layers
        assert layers <= paired_layers(result, side)


def test_every_weight_of_the_port_is_judged(dumps: tuple[Path, Path], result: Comparison) -> None:
    with open_dump(dumps[1]).open() as candidate:
        weights = {
            candidate.index.address(record)
            for record in candidate.index.records
            if record.role is Role.WEIGHT
        }

    judged = {
        pair.candidate.address
        for pair in result.steps[0].pairs
        if pair.candidate is not None and pair.verdict is Verdict.MATCH
    }

    assert weights
    assert weights <= judged
