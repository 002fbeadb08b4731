"""Trainings of ports with other trees: five steps of a right one match, mistakes are named."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Kind, Verdict, compare
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.inputs import parse_input
from padiff.dumper.runs.run import RunSettings, TrainSettings, run
from padiff.dumper.runs.target import parse_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.comparer.result import Divergence
    from padiff.dumper.runs.target import Target

PORTS = Path(__file__).parents[1] / "support" / "ports"
STEPS = 5
# Paddle says so at each training-mode BatchNorm whose track_running_stats was never named.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")


@dataclass(frozen=True, kw_only=True)
class Side:
    """How one side trains."""

    optimizer: str = "sgd"
    options: Mapping[str, Any] = field(default_factory=dict)
    loss: Mapping[str, Any] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    schedule: Mapping[str, Any] | None = None
    clip: float | None = None


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a folder with five batches for each model."""
    path = tmp_path_factory.mktemp("training_trees")
    random = np.random.default_rng(5)
    for step in range(STEPS):
        np.save(path / f"image{step}.npy", random.standard_normal((6, 3, 12, 12), np.float32))
        np.save(path / f"label{step}.npy", random.integers(0, 7, 6))
        np.save(path / f"ids{step}.npy", random.integers(0, 17, (4, 9)))
    known, before = set(sys.modules), list(sys.path)
    yield path
    sys.path[:] = before
    for name in set(sys.modules) - known:
        if "training_trees" in name:
            del sys.modules[name]


def dump(folder: Path, framework: str, net: str, side: Side, weights: Path | None = None) -> Path:
    def target(name: str, arguments: Mapping[str, Any]) -> Target:
        return parse_target(f"{PORTS / f'training_trees_{framework}.py'}:{name}", dict(arguments))

    is_gpt = net == "GPT"
    plain = {"torch": "torch.nn:CrossEntropyLoss", "paddle": "paddle.nn:CrossEntropyLoss"}
    loss = target("next_token", side.loss) if is_gpt else parse_target(plain[framework])
    if side.loss and not is_gpt:
        loss = target("classes", side.loss)
    return run(
        RunSettings(
            model=target(net, side.model),
            inputs=(parse_input(str(folder / ("ids" if is_gpt else "image")) + "{step}.npy"),),
            training=True,
            weights_from=weights,
            record=RecordSettings(out=folder / "dumps", name=framework, overwrite=True),
            train=TrainSettings(
                steps=STEPS,
                loss=loss,
                labels=(parse_input(str(folder / ("ids" if is_gpt else "label")) + "{step}.npy"),),
                optimizer=target(side.optimizer, side.options),
                scheduler=None if side.schedule is None else target("warm_cosine", side.schedule),
                largest_norm=side.clip,
            ),
        )
    )


def trained(folder: Path, net: str, reference: Side, candidate: Side | None = None) -> Comparison:
    """Train torch's side and Paddle's port of it, and compare."""
    known = dump(folder, "torch", net, reference)
    found = dump(folder, "paddle", net, candidate or reference, known)
    return compare(known, found, CompareSettings())


def first(comparison: Comparison) -> Divergence:
    """Give the first divergence, which must be an origin."""
    found = comparison.first_divergence
    assert found is not None
    assert found.kind is Kind.ORIGIN
    return found


@pytest.mark.parametrize("net", ["ResNet", "GPT"])
@pytest.mark.parametrize(
    ("reference", "candidate"),
    [
        (Side(options={"weight_decay": 0.01}, schedule={}), None),
        (Side(optimizer="adam"), None),
        (Side(optimizer="adamw", schedule={}), None),
        (Side(clip=1.0), Side(options={"clip": "global"})),
        (
            Side(optimizer="rmsprop", options={"eps": 1e-16}),
            Side(optimizer="rmsprop", options={"epsilon": 1e-16}),
        ),
    ],
    ids=["sgd", "adam", "adamw", "clip", "rmsprop"],
)
def test_right_port_matches_over_five_steps(
    folder: Path, net: str, reference: Side, candidate: Side | None
) -> None:
    comparison = trained(folder, net, reference, candidate)

    assert comparison.verdict is Verdict.MATCH, comparison.reasons
    assert [step.step for step in comparison.steps] == list(range(STEPS))


def test_hand_made_update_leaves_no_learning_rate_to_agree_with(folder: Path) -> None:
    comparison = trained(
        folder, "ResNet", Side(), Side(optimizer="by_hand", options={"convention": "mean"})
    )

    evidence = first(comparison).evidence
    assert "the candidate recorded no learning rate" in evidence
    assert not any("momentum_buffer agrees" in line for line in evidence)
