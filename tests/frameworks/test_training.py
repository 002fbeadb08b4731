"""Whole training runs of both frameworks: correct ports match, planted faults are named."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import pytest

import padiff
from padiff.comparer import CompareSettings, Comparison, Kind, Verdict, compare
from padiff.comparer.proving import Answer
from padiff.dumper import adapters
from padiff.dumper.recording.recordsettings import RecordSettings
from padiff.dumper.runs.inputs import parse_input
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings, TrainSettings
from padiff.dumper.runs.target import parse_target
from padiff.dumpfile import Phase, Role, open_dump
from tests.support.paddle_lab import PaddleLab
from tests.support.torch_lab import TorchLab

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from padiff.dumper.runs.target import Target
    from tests.support.recording import Lab

PORTS = Path(__file__).parents[1] / "support" / "ports"
STEPS = 3
# Paddle says so at each training-mode BatchNorm whose track_running_stats was never named.
pytestmark = pytest.mark.filterwarnings("ignore:When training, we now always track")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one side trains."""

    model: str = "CNN"
    optimizer: str = "sgd"
    optimizer_args: Mapping[str, Any] = field(default_factory=dict)
    scheduler: str | None = None
    scheduler_args: Mapping[str, Any] = field(default_factory=dict)
    clip: float | None = None
    keep_dropout: bool = False


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Make a folder with a batch for each model and step."""
    path = tmp_path_factory.mktemp("training")
    random = np.random.default_rng(0)
    for step in range(STEPS):
        np.save(path / f"x{step}.npy", random.standard_normal((6, 3, 9, 9)).astype(np.float32))
        np.save(path / f"y{step}.npy", random.integers(0, 5, (6,)))
        np.save(path / f"ids{step}.npy", random.integers(0, 11, (3, 7)))
    known, before = set(sys.modules), list(sys.path)
    yield path
    sys.path[:] = before
    for name in set(sys.modules) - known:
        if "training_" in name:
            del sys.modules[name]


def train(folder: Path, framework: str, side: Run, *, weights_from: Path | None = None) -> Path:
    """Return the dump of a side, which is trained once."""
    name = f"{framework}_{crc32(repr((side, weights_from)).encode())}"
    if (folder / "dumps" / name).exists():
        return folder / "dumps" / name

    def target(what: str | None, arguments: Mapping[str, Any]) -> Target | None:
        place = f"{PORTS / f'training_{framework}.py'}:{what}"
        return None if what is None else parse_target(place, dict(arguments))

    is_cnn = side.model == "CNN"
    model = target(side.model, {})
    assert model is not None
    nn = {"torch": "torch.nn", "paddle": "paddle.nn"}[framework]
    loss = parse_target(f"{nn}:CrossEntropyLoss") if is_cnn else target("tokens_loss", {})
    settings = RunSettings(
        model=model,
        inputs=(parse_input(str(folder / ("x{step}.npy" if is_cnn else "ids{step}.npy"))),),
        training=True,
        weights_from=weights_from,
        record=RecordSettings(out=folder / "dumps", name=name),
        train=TrainSettings(
            steps=STEPS,
            loss=loss,
            labels=(parse_input(str(folder / ("y{step}.npy" if is_cnn else "ids{step}.npy"))),),
            optimizer=target(side.optimizer, side.optimizer_args),
            scheduler=target(side.scheduler, side.scheduler_args),
            largest_norm=side.clip,
            no_dropout=not side.keep_dropout,
        ),
    )
    return run(settings)


def trained(folder: Path, reference: Run, candidate: Run | None = None) -> Comparison:
    """Train torch's side and Paddle's, and compare."""
    known = train(folder, "torch", reference)
    found = train(folder, "paddle", candidate or reference, weights_from=known)
    return compare(known, found, CompareSettings())


@pytest.mark.parametrize(
    "side",
    [
        Run(scheduler="warmup_cosine", clip=1.0),
        Run(optimizer="adamw", scheduler="warmup_cosine"),
        Run(model="Transformer", optimizer="adam", clip=0.5),
        Run(model="Transformer", optimizer="rmsprop", optimizer_args={"eps": 1e-16}),
    ],
    ids=lambda side: f"{side.model}-{side.optimizer}",
)
def test_correct_port_matches_over_all_steps(folder: Path, side: Run) -> None:
    comparison = trained(folder, side)

    assert comparison.verdict is Verdict.MATCH, comparison.reasons
    assert [step.step for step in comparison.steps] == list(range(STEPS))
    roles = {
        pair.reference.address.role
        for pair in comparison.steps[-1].pairs
        if pair.verdict is Verdict.MATCH and pair.reference is not None
        if pair.reference.address.phase is Phase.UPDATE
    }
    assert roles >= {Role.WEIGHT, Role.OPTIMIZER_STATE, Role.LR, Role.NAMED}


def first(comparison: Comparison) -> tuple[int, Phase, Role, str]:
    """Give step, phase, role and slot of the first divergence, which must be the only origin."""
    found = comparison.first_divergence
    assert found is not None
    assert found.pair.reference is not None
    assert found.kind is Kind.ORIGIN
    address = found.pair.reference.address
    return address.step, found.phase, address.role, f"{address.module}{address.slot}"


def test_wrong_weight_decay_group_is_named(folder: Path) -> None:
    comparison = trained(
        folder,
        Run(model="Transformer", optimizer="adamw"),
        Run(model="Transformer", optimizer="adamw", optimizer_args={"all_decay": True}),
    )

    step, phase, role, name = first(comparison)
    assert (step, phase, role) == (0, Phase.UPDATE, Role.WEIGHT)
    assert name.endswith("norm1.weight")
    assert any("one axis" in line for line in comparison.origins[0].evidence)
    assert len(comparison.origins) == 1


def test_other_place_of_epsilon_is_named(folder: Path) -> None:
    comparison = trained(folder, Run(optimizer="rmsprop"))

    assert first(comparison)[:3] == (0, Phase.UPDATE, Role.WEIGHT)
    assert "optimizer state: square_avg agrees" in comparison.origins[0].evidence


def test_learning_rate_off_by_one_step_is_named(folder: Path) -> None:
    comparison = trained(
        folder,
        Run(scheduler="warmup_cosine"),
        Run(scheduler="warmup_cosine", scheduler_args={"offset": 1}),
    )

    assert first(comparison) == (0, Phase.UPDATE, Role.LR, "")


def test_other_momentum_convention_is_named(folder: Path) -> None:
    comparison = trained(folder, Run(), Run(optimizer_args={"nesterov": True}))

    assert first(comparison)[:3] == (0, Phase.UPDATE, Role.WEIGHT)
    assert "optimizer state: momentum_buffer agrees" in comparison.origins[0].evidence


def script(folder: Path, framework: str, *, clear: bool = True) -> Path:
    """Train three steps in a script of the user's own, from equal weights."""
    lab: Lab = TorchLab() if framework == "torch" else PaddleLab()
    model = lab.module(
        lambda self, x: self.b(self.a(x)), a=lab.nn.Linear(3, 4), b=lab.nn.Linear(4, 2)
    )
    random = np.random.default_rng(3)
    for name, child in lab.modules(model):
        if name:
            for parameter in (child.weight, child.bias):
                shape = tuple(parameter.shape)
                array = random.standard_normal(shape[::-1] if framework == "paddle" else shape)
                array = array.T if framework == "paddle" else array
                adapters.load(framework).assign(parameter, array.astype(np.float32))
    optimizer = lab.optimizer(model, rate=0.1)
    with padiff.record(
        model, name=f"script_{framework}_{clear}", out=folder, optimizer=optimizer, overwrite=True
    ) as recorder:
        for step in range(3):
            x = np.random.default_rng(step).standard_normal((5, 3)).astype(np.float32)
            loss = lab.mean(model(lab.tensor(x)) ** 2)
            loss.backward()
            optimizer.step()
            if clear:
                lab.clear_gradients(model)
            recorder.step(loss=loss)
    return recorder.path


def test_scripts_of_both_frameworks_match(folder: Path) -> None:
    comparison = compare(script(folder, "torch"), script(folder, "paddle"), CompareSettings())

    assert comparison.verdict is Verdict.MATCH, comparison.reasons


@pytest.mark.parametrize("side", ["torch", "paddle"])
def test_missing_zero_grad_is_named(folder: Path, side: str) -> None:
    other = {"torch": "paddle", "paddle": "torch"}[side]

    comparison = compare(
        script(folder, other), script(folder, side, clear=False), CompareSettings()
    )

    assert first(comparison)[:3] == (1, Phase.BACKWARD, Role.WEIGHT_GRAD)
    assert {
        found.pair.reference.address.step for found in comparison.origins if found.pair.reference
    } == {1}
    assert any("candidate: steps 1, 2: some weights had" in note for note in comparison.notes)


def test_running_variance_is_a_known_difference(folder: Path) -> None:
    comparison = trained(folder, Run())

    notes = comparison.steps[0].notes
    assert any("known difference" in note and "bn1.running_var" in note for note in notes)
    assert comparison.verdict is Verdict.MATCH


def test_only_the_steps_asked_for_are_in_the_dump(folder: Path) -> None:
    path = train(folder, "torch", Run())

    assert [info.step for info in open_dump(path).files] == list(range(STEPS))
    assert open_dump(path).manifest.phase is Phase.UPDATE


def test_active_dropout_is_executed_and_without_that_remarked_upon(folder: Path) -> None:
    side = Run(model="Transformer", keep_dropout=True)
    known = train(folder, "torch", side)
    found = train(folder, "paddle", side, weights_from=known)

    comparison = compare(known, found, CompareSettings())
    by_tolerance = compare(known, found, CompareSettings(execute=False))

    for step in comparison.steps:
        assert step.executed is not None
        function = step.executed.function
        assert (function.answer, function.tolerated) == (Answer.SAME, 0)
    for step in by_tolerance.steps:
        assert sum("random numbers were drawn on the" in note for note in step.notes) == 2
        assert any("--no-dropout switches" in note for note in step.notes)
    assert by_tolerance.verdict is Verdict.DIVERGED
    assert comparison.verdict is Verdict.MATCH, comparison.reasons
