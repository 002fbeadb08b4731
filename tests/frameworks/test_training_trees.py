"""Trainings of ports with other trees: five steps of a right one match, mistakes are named."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Comparison, Kind, Verdict, compare
from padiff.comparer.report.fault_words import evidence_of
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.inputs import parse_input
from padiff.dumper.runs.run import RunSettings, TrainSettings, run
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import Phase, Role

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
    steps: int = STEPS


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
    """Train one side and return its dump; torch's, which nothing writes to, once for all tests."""
    text = f"{framework} {net} {side}"
    name = "candidate" if weights else hashlib.sha256(text.encode()).hexdigest()[:16]
    path = folder / "dumps" / name
    if weights is None and path.exists():
        return path

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
            record=RecordSettings(out=folder / "dumps", name=name, overwrite=True),
            train=TrainSettings(
                steps=side.steps,
                loss=loss,
                labels=(parse_input(str(folder / ("ids" if is_gpt else "label")) + "{step}.npy"),),
                optimizer=target(side.optimizer, side.options),
                scheduler=None if side.schedule is None else target("warm_cosine", side.schedule),
                largest_norm=side.clip,
            ),
        )
    )


def trained(
    folder: Path, net: str, reference: Side, candidate: Side | None = None, *, steps: int = STEPS
) -> Comparison:
    """Train torch's side and Paddle's port of it, and compare."""
    sides = [replace(side, steps=steps) for side in (reference, candidate or reference)]
    known = dump(folder, "torch", net, sides[0])
    return compare(known, dump(folder, "paddle", net, sides[1], known), CompareSettings())


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
    by_hand = Side(optimizer="by_hand", options=BY_HAND)

    comparison = trained(folder, "ResNet", Side(), by_hand, steps=2)

    evidence = first(comparison).evidence
    assert "the candidate recorded no learning rate" in evidence
    assert not any("momentum_buffer agrees" in line for line in evidence)


UPDATE, FORWARD, BACKWARD = Phase.UPDATE, Phase.FORWARD, Phase.BACKWARD
GROUP = "option 'weight_decay' of the optimizer: 0.0 on the reference, 0.1 on the candidate"
BY_HAND = {"convention": "mean"}
FAULTS = {
    "weight decay group": (
        "GPT", Side(optimizer="adamw"), Side(optimizer="adamw", options={"everywhere": True}),
        (0, UPDATE, Role.WEIGHT), GROUP + " for 18 of 29 weights",
    ),
    "place of epsilon": (
        "GPT", Side(optimizer="rmsprop", options={"eps": 1e-4}),
        Side(optimizer="rmsprop", options={"epsilon": 1e-4}),
        (0, UPDATE, Role.WEIGHT), "sqrt(v) + eps in torch, by sqrt(v + epsilon) in paddle",
    ),
    "place of epsilon, by hand": (
        "GPT", Side(optimizer="rmsprop", options={"eps": 1e-4}),
        Side(optimizer="rmsprop_by_hand"),
        (0, UPDATE, Role.WEIGHT), "too much: __add__(0.0001)",
    ),
    "rate off by one": (
        "ResNet", Side(schedule={}), Side(schedule={"early": 1}),
        (0, UPDATE, Role.LR), "in each step the candidate has the rate of the reference's next",
    ),
    "schedule stepped twice too late": (
        "GPT", Side(schedule={}), Side(schedule={"early": -1}),
        (0, UPDATE, Role.LR), "in each step the reference has the rate of the candidate's next",
    ),
    "schedule forgotten": (
        "GPT", Side(schedule={}), Side(options={"lr": 0.05}),
        (1, UPDATE, Role.LR), "the candidate's rate stays at 0.05",
    ),
    "ten times the rate": (
        "GPT", Side(), Side(options={"lr": 1.0}),
        (0, UPDATE, Role.LR), "in all steps the candidate's rate is 10 times the reference's",
    ),
    "momentum as a mean": (
        "ResNet", Side(), Side(optimizer="by_hand", options=BY_HAND),
        (0, UPDATE, Role.WEIGHT), "0.1 where the reference has -0.1",
    ),
    "momentum left out": (
        "GPT", Side(), Side(optimizer="by_hand", options={"convention": "none"}),
        (1, UPDATE, Role.WEIGHT), "left out: mul_, times 0.9",
    ),
    "nesterov": (
        "GPT", Side(), Side(options={"use_nesterov": True}),
        (0, UPDATE, Role.WEIGHT), "option 'nesterov' of the optimizer: False on the reference",
    ),
    "beta1": (
        "GPT", Side(optimizer="adam"), Side(optimizer="adam", options={"beta1": 0.95}),
        (0, UPDATE, Role.OPTIMIZER_STATE), "proved: beta1 of adam_: 0.95 where",
    ),
    "beta2": (
        "ResNet", Side(optimizer="adam"), Side(optimizer="adam", options={"beta2": 0.99}),
        (0, UPDATE, Role.OPTIMIZER_STATE), "proved: beta2 of adam_: 0.99 where",
    ),
    "epsilon of Adam": (
        "ResNet", Side(optimizer="adam"), Side(optimizer="adam", options={"epsilon": 1e-4}),
        (0, UPDATE, Role.WEIGHT), "proved: epsilon of adam_: 0.0001 where the reference has 1e-08",
    ),
    "coupled decay": (
        "GPT", Side(optimizer="adamw"), Side(optimizer="adam", options={"weight_decay": 0.1}),
        (0, UPDATE, Role.OPTIMIZER_STATE), "option 'decoupled' of the optimizer: True on the",
    ),
    "decay left out": (
        "GPT", Side(options={"weight_decay": 0.01}), Side(),
        (0, UPDATE, Role.OPTIMIZER_STATE), "option 'weight_decay' of the optimizer: 0.01 on",
    ),
    "another optimizer": (
        "ResNet", Side(), Side(optimizer="adam"),
        (0, UPDATE, Role.LR), "in all steps the candidate's rate is 0.03 times",
    ),
    "clip by value": (
        "ResNet", Side(clip=1.0), Side(options={"clip": "value"}),
        (0, UPDATE, Role.WEIGHT_GRAD), "proved: clip(-0.05, 0.05)",
    ),
    "clip of each": (
        "ResNet", Side(clip=1.0), Side(options={"clip": "each"}),
        (0, UPDATE, Role.WEIGHT_GRAD), "candidate at paddle._C_ops.clip_by_norm of",
    ),
    "clip left out": (
        "ResNet", Side(clip=1.0), Side(),
        (0, UPDATE, Role.WEIGHT_GRAD), "the candidate recorded no clipped gradient",
    ),
    "BatchNorm's momentum": (
        "ResNet", Side(), Side(model={"momentum": 0.1}),
        (0, UPDATE, Role.BUFFER), "torch's 0.1 is paddle's 0.9",
    ),
    "label smoothing": (
        "ResNet", Side(), Side(loss={"label_smoothing": 0.1}),
        (0, FORWARD, Role.LOSS), "of label_smooth: 0.1",
    ),
    "sum for mean": (
        "GPT", Side(), Side(loss={"reduction": "sum"}),
        (0, FORWARD, Role.LOSS), "where the reference has cross_entropy",
    ),
    "loss scaled": (
        "GPT", Side(), Side(loss={"scale": 128.0}),
        (0, FORWARD, Role.LOSS), "too much: __mul__(128)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_mistake_is_named_by_step_phase_record_and_cause(folder: Path, fault: str) -> None:
    net, reference, candidate, place, cause = FAULTS[fault]
    steps = STEPS if reference.schedule is not None else place[0] + 2  # one that inherits it

    comparison = trained(folder, net, reference, candidate, steps=steps)

    found = first(comparison)
    assert found.pair.reference is not None
    address = found.pair.reference.address
    assert (address.step, found.phase, address.role) == place
    assert cause in " | ".join(evidence_of(found))
    assert len(comparison.origins) == 1
