"""Feeding a port with another tree, over several steps: each fault is named, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.feedphase import FeedPhase
from padiff.dumper.runs.inputs import parse_input
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings, TrainSettings
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import JSON, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

PORTS = Path(__file__).parents[1] / "support" / "ports"
# Paddle says so at each training-mode BatchNorm whose track_running_stats was never named.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")
FAULTS = {"padding": "conv0", "epsilon": "blocks.1.bn_a", "scale": "blocks.0.conv_b"}
"""Of ``faulty_resnet``, and the module of each."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("feed_trees")
    image = np.random.default_rng(0).standard_normal((4, 3, 12, 12)).astype(np.float32)
    np.save(path / "image.npy", image)
    np.save(path / "label.npy", np.array([0, 3, 6, 2]))
    known, before = set(sys.modules), list(sys.path)
    yield path
    sys.path[:] = before
    for name in set(sys.modules) - known:
        if "training_trees" in name:
            del sys.modules[name]


def compared(
    folder: Path, *faults: str, phase: FeedPhase = FeedPhase.BOTH, steps: int = 1
) -> Comparison:
    """Record torch's model and a faulty port of it that is fed, and compare."""

    def record(framework: str, model: str, known: Path | None = None) -> Path:
        place = PORTS / f"training_trees_{framework}.py"
        arguments: dict[str, JSON] = {"faults": [*faults]} if known else {}
        return run(
            RunSettings(
                model=parse_target(f"{place}:{model}", arguments),
                inputs=() if known else (parse_input(str(folder / "image.npy")),),
                training=True,
                weights_from=known,
                feed=known,
                feed_phase=phase,
                record=RecordSettings(out=folder / "dumps", name=framework, overwrite=True),
                train=TrainSettings(
                    steps=steps,
                    loss=parse_target(f"{framework}.nn:CrossEntropyLoss"),
                    labels=(parse_input(str(folder / "label.npy")),),
                    optimizer=parse_target(f"{place}:sgd"),
                ),
            )
        )

    known = record("torch", "ResNet")
    found = record("paddle", "faulty_resnet", known)
    return compare(known, found, CompareSettings())


def named(comparison: Comparison) -> dict[int, set[str]]:
    """Name the candidate's module of every origin, by step."""
    found: dict[int, set[str]] = {step.step: set() for step in comparison.steps}
    for origin in comparison.origins:
        assert origin.phase is Phase.FORWARD
        assert origin.pair.candidate is not None
        address = origin.pair.candidate.address
        found[address.step].add(address.module)
    return found


@pytest.mark.parametrize("phase", [FeedPhase.FORWARD, FeedPhase.BOTH])
def test_right_port_matches_in_each_step(folder: Path, phase: FeedPhase) -> None:
    comparison = compared(folder, phase=phase, steps=2)

    assert comparison.verdict is Verdict.MATCH, comparison.reasons


@pytest.mark.parametrize(
    "faults", [("epsilon", "scale"), ("padding",), ("padding", "epsilon")], ids="+".join
)
def test_each_fault_is_named_and_nothing_else(folder: Path, faults: tuple[str, ...]) -> None:
    assert named(compared(folder, *faults)) == {0: {FAULTS[fault] for fault in faults}}


@pytest.mark.parametrize("phase", [FeedPhase.FORWARD, FeedPhase.BOTH])
def test_what_updates_left_is_no_fault_of_later_steps(folder: Path, phase: FeedPhase) -> None:
    faults = ("epsilon", "scale")

    comparison = compared(folder, *faults, phase=phase, steps=2)

    wanted = {FAULTS[fault] for fault in faults}
    assert named(comparison) == {0: wanted, 1: wanted}
