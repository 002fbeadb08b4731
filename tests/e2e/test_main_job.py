"""The main job on the bundled examples: dump in torch, dump in paddle, compare with neither."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from padiff.dumpfile import Role, open_dump
from tests.support.command import run_padiff

if TYPE_CHECKING:
    import subprocess

ROOT = Path(__file__).parents[2]
INPUTS = {"resnet": "x.npy", "transformer": "ids.npy"}
FAULTS = {
    "resnet": ("resnet.encoder.stages.2.layers.0.layer.1.normalization", "layer3.0.bn2"),
    "transformer": ("encoder.layers.1", "encoder.layers.1"),
}
"""By example, the module of each side that holds ``build_faulty``'s fault."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What `padiff compare` said, where there is neither framework."""

    process: subprocess.CompletedProcess[str]
    report: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """The dumps of one example, in a folder that they were moved to, and their comparisons."""

    example: str
    dumps: Path
    correct: Compared
    faulty: Compared


@pytest.fixture(scope="module", params=list(INPUTS))
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    example: str = request.param
    home = tmp_path_factory.mktemp(example)
    folder = ROOT / "examples" / example
    inputs: list[str | Path] = ["--inputs", folder / INPUTS[example]]

    def dump(name: str, model: str, other: str, *words: str | Path) -> None:
        words = ("--model", folder / model, "--out", "padiff_dump", "--name", name, *words)
        done = run_padiff("dump", *words, cwd=home, blocked=[other])
        assert done.returncode == 0, done.stderr

    weights = ["--weights-from", "padiff_dump/torch"]
    dump("torch", "torch_model.py:build", "paddle", *inputs)
    dump("paddle", "paddle_model.py:build", "torch", *inputs, *weights)
    fed = ["--inputs-from", "padiff_dump/torch"]
    dump("faulty", "paddle_model.py:build_faulty", "torch", *fed, *weights)
    (home / "padiff_dump").rename(home / "moved")
    return Job(
        example=example,
        dumps=home / "moved",
        correct=compare(home, "paddle"),
        faulty=compare(home, "faulty"),
    )


def compare(home: Path, candidate: str) -> Compared:
    report = home / f"{candidate}.json"
    process = run_padiff(
        *("compare", "moved/torch", f"moved/{candidate}", "--atol", "1e-4", "--json", report),
        cwd=home,
        blocked=["torch", "paddle", "transformers"],
    )
    return Compared(process=process, report=json.loads(report.read_text(encoding="utf-8")))


def parameters(dump: Path) -> set[tuple[str, str]]:
    with open_dump(dump).open(0, 0) as file:
        modules = file.index.modules
        return {
            (modules[record.module].path, record.slot)
            for record in file.index.records
            if record.role is Role.WEIGHT
        }


def test_a_correct_port_matches(job: Job) -> None:
    done, report = job.correct.process, job.correct.report

    assert (done.returncode, report["verdict"], report["origins"]) == (0, "match", []), done.stdout
    assert done.stdout.startswith("MATCH")
    assert done.stderr == ""


def test_every_parameter_is_paired_and_so_is_its_gradient(job: Job) -> None:
    pairs = [pair for step in job.correct.report["steps"] for pair in step["pairs"]]
    matching = [pair for pair in pairs if pair["verdict"] == "match"]
    for side, dump in (("reference", "torch"), ("candidate", "paddle")):
        expected = parameters(job.dumps / dump)
        assert len(expected) > 20
        for role in ("weight", "weight_grad"):
            ends = [pair[side]["address"] for pair in matching]
            ends = [end for end in ends if end["role"] == role]
            assert {(end["module"], end["slot"]) for end in ends} == expected


def test_every_value_of_both_sides_is_judged(job: Job) -> None:
    report = job.correct.report

    sides = report["coverage_reference"], report["coverage_candidate"]
    assert all(side["judged"] == side["total"] > 80 for side in sides)
    assert all(side["fraction"] == 1.0 for side in sides)
    assert report["counts"].get("missing", 0) == report["counts"].get("incomparable", 0) == 0


def test_a_planted_fault_is_located_and_gives_exit_code_1(job: Job) -> None:
    done, report = job.faulty.process, job.faulty.report

    assert (done.returncode, report["verdict"]) == (1, "diverged")
    origin = report["origins"][0]
    found = tuple(origin["pair"][side]["address"]["module"] for side in ("reference", "candidate"))
    assert found == FAULTS[job.example]
    assert (origin["phase"], origin["kind"]) == ("forward", "origin")
    assert "<--- HERE" in done.stdout


def test_inputs_from_feeds_the_very_inputs_of_the_reference(job: Job) -> None:
    digests = [
        [item.digest for item in open_dump(job.dumps / name).manifest.inputs]
        for name in ("torch", "paddle", "faulty")
    ]

    assert digests[0]
    assert digests[0] == digests[1] == digests[2]
