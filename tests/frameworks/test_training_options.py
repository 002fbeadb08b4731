"""What ``--loss``, ``--optimizer`` and ``--lr-scheduler`` may name, in both frameworks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.dumper.recording.recordsettings import RecordSettings, StepPlan
from padiff.dumper.runs.inputs import parse_input
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings, TrainSettings
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import Phase, Role, open_dump
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

FRAMEWORKS = ("torch", "paddle")
LAYERS = {"torch": "Module", "paddle": "Layer"}
pytestmark = pytest.mark.parametrize("framework", FRAMEWORKS)

NET = """
import functools
import FRAMEWORK as framework
from FRAMEWORK import nn

def build():
    return nn.Linear(3, 2)

def scaled(output, label, factor=1.0):
    return nn.functional.cross_entropy(output, label) * factor

halved = functools.partial(scaled, factor=0.5)

class Squared:
    def __call__(self, output, label):
        return (output ** 2).mean() + 0 * label.sum()

squared = Squared()
made = []

class Kept(nn.LAYER):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 2)
        made.append(self)

    def forward(self, x):
        return self.inner(x)

def of_what_was_made(output, label):
    (model,) = made
    assert isinstance(model, Kept)
    return scaled(output, label)

def by_hand(parameters, rate=0.5):
    def update():
        for parameter in parameters:
            with framework.no_grad():
                parameter.copy_(parameter - rate * parameter.grad, False)
    return update
"""


@pytest.fixture
def folder(tmp_path: Path, framework: str) -> Path:
    (tmp_path / f"options_{framework}.py").write_text(
        NET.replace("FRAMEWORK", framework).replace("LAYER", LAYERS[framework])
    )
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((4, 3), np.float32))
    np.save(tmp_path / "y.npy", np.array([0, 1, 1, 0]))
    return tmp_path


def trained(
    folder: Path,
    framework: str,
    train: TrainSettings,
    plan: StepPlan,
    *,
    model: str = "build",
    name: str = "m",
) -> Path:
    return run(
        RunSettings(
            model=parse_target(f"{folder / f'options_{framework}.py'}:{model}"),
            inputs=(parse_input(str(folder / "x.npy")),),
            training=True,
            record=RecordSettings(out=folder / "dumps", name=name, plan=plan),
            train=train,
        )
    )


@pytest.mark.parametrize("loss", ["CrossEntropyLoss", "scaled", "halved", "squared"])
def test_loss_may_be_a_class_a_function_a_partial_or_an_object(
    folder: Path, framework: str, loss: str
) -> None:
    own = f"{folder / f'options_{framework}.py'}:{loss}"
    place = f"{framework}.nn:{loss}" if loss == "CrossEntropyLoss" else own
    labels = (parse_input(str(folder / "y.npy")),)

    path = trained(
        folder, framework, TrainSettings(loss=parse_target(place), labels=labels), StepPlan()
    )

    got = Recorded.read(path)
    output = got.array(Role.OUTPUT).astype(np.float64)
    rows = output - np.log(np.exp(output).sum(1, keepdims=True))
    entropy = -rows[np.arange(4), np.load(folder / "y.npy")].mean()
    expected = {"halved": entropy / 2, "squared": (output**2).mean()}.get(loss, entropy)
    assert got.array(Role.LOSS) == pytest.approx(expected, rel=1e-5)
    assert got.manifest.phase is Phase.BACKWARD


def test_model_and_loss_of_one_file_share_its_classes_and_what_it_keeps(
    folder: Path, framework: str
) -> None:
    loss = parse_target(f"{folder / f'options_{framework}.py'}:of_what_was_made")
    train = TrainSettings(loss=loss, labels=(parse_input(str(folder / "y.npy")),))

    for name in ("one", "two"):  # a later run has nothing of an earlier one
        path = trained(folder, framework, train, StepPlan(), model="Kept", name=name)

        assert open_dump(path).manifest.phase is Phase.BACKWARD


def test_optimizer_may_change_the_weights_itself(folder: Path, framework: str) -> None:
    optimizer = parse_target(f"{folder / f'options_{framework}.py'}:by_hand", {"rate": 0.25})

    path = trained(folder, framework, TrainSettings(steps=2, optimizer=optimizer), StepPlan())

    got = Recorded.read(path, 1)
    weights = {
        item.phase: got.arrays[item.id]
        for item in got.index.records
        if item.role is Role.WEIGHT and item.slot == ".bias"
    }
    gradient = got.array(Role.WEIGHT_GRAD, "", ".bias")
    assert np.allclose(weights[Phase.UPDATE], weights[Phase.FORWARD] - 0.25 * gradient, atol=1e-7)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (StepPlan(steps=frozenset({1, 3})), [1, 3]),
        (StepPlan(every=2), [0, 2, 4]),
        (StepPlan(every=3, steps=frozenset({1})), [0, 1, 3]),
    ],
    ids=["steps", "every", "both"],
)
def test_schedule_goes_on_in_steps_that_are_not_recorded(
    folder: Path, framework: str, plan: StepPlan, expected: list[int]
) -> None:
    arguments = {"torch": {"lr": 0.5}, "paddle": {"learning_rate": 0.5}}[framework]
    schedule = {
        "torch": parse_target("torch.optim.lr_scheduler:ExponentialLR", {"gamma": 0.5}),
        "paddle": parse_target(
            "paddle.optimizer.lr:ExponentialDecay", {"learning_rate": 0.5, "gamma": 0.5}
        ),
    }[framework]
    optimizer = parse_target(f"{framework}.{'optim' if framework == 'torch' else 'optimizer'}:SGD")
    optimizer = parse_target(str(optimizer), arguments)

    path = trained(
        folder,
        framework,
        TrainSettings(steps=5, optimizer=optimizer, scheduler=schedule, largest_norm=0.01),
        plan,
    )

    assert [info.step for info in open_dump(path).files] == expected
    for number in expected:
        got = Recorded.read(path, number)
        assert got.array(Role.LR) == pytest.approx(0.5 * 0.5**number)
        parts = [
            got.arrays[item.id]
            for item in got.index.records
            if item.role is Role.WEIGHT_GRAD and item.phase is Phase.UPDATE
        ]
        assert np.sqrt(sum((part**2).sum() for part in parts)) == pytest.approx(0.01, rel=1e-3)
