"""``padiff dump --repeat`` leaves a floor beside an unchanged run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Verdict, compare
from padiff.comparer.judging.noise import FloorSide
from padiff.dumper import RecordSettings
from padiff.dumper.runs.inputs import InputFile
from padiff.dumper.runs.repeat import Perturb, RepeatSettings
from padiff.dumper.runs.run import run
from padiff.dumper.runs.runsettings import RunSettings, TrainSettings
from padiff.dumper.runs.target import Target
from padiff.dumpfile import ConfigError, Phase, Role, open_dump, read_floor

if TYPE_CHECKING:
    from pathlib import Path

TORCH = """
import torch
from torch import nn
def build():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
"""
PADDLE = """
import paddle
from paddle import nn
def build():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1D(8), nn.ReLU(), nn.Linear(8, 3))
"""


def dumped(framework: str, tmp_path: Path, name: str, repeat: RepeatSettings | None) -> Path:
    source = tmp_path / f"{framework}_net.py"
    source.write_text(TORCH if framework == "torch" else PADDLE)
    inputs = tmp_path / "x.npy"
    np.save(inputs, np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32))
    return run(
        RunSettings(
            model=Target(place=str(source), attribute="build"),
            record=RecordSettings(out=tmp_path, name=name),
            inputs=(InputFile(path=inputs),),
            framework=framework,
            training=True,
            repeat=repeat,
        )
    )


@pytest.mark.filterwarnings("ignore:When training, we now always track")
@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_a_floor_is_measured_beside_an_unchanged_run(framework: str, tmp_path: Path) -> None:
    plain = dumped(framework, tmp_path, "plain", None)

    repeated = dumped(framework, tmp_path, "repeated", RepeatSettings(count=2))

    floor = read_floor(repeated)
    index = open_dump(repeated).open().index
    assert floor is not None
    assert len(floor.records[0, 0]) == len(index.records)
    for record, row in zip(index.records, floor.records[0, 0], strict=True):
        if record.role in {Role.OUTPUT, Role.WEIGHT_GRAD} and row is not None:
            largest = index.values[record.value or 0].statistics
            assert row.max_abs <= 1e-4 * max(1.0, abs(largest.maximum or 0.0))
    assert any(row is not None and row.max_abs > 0 for row in floor.records[0, 0])
    same = compare(plain, repeated, CompareSettings(atol=0, rtol=0))
    assert same.verdict is Verdict.MATCH
    assert compare(repeated, plain, CompareSettings(floor=FloorSide.REFERENCE)).reasons == ()
    assert {path.name for path in tmp_path.glob(".*repeat*")} == set()


def test_plain_repeats_of_a_deterministic_model_have_no_noise(tmp_path: Path) -> None:
    repeat = RepeatSettings(count=1, perturb=Perturb.NONE)

    floor = read_floor(dumped("torch", tmp_path, "plain", repeat))

    assert floor is not None
    assert {row.max_abs for row in floor.records[0, 0] if row is not None} == {0.0}


def test_plain_repeats_expose_what_is_not_deterministic(tmp_path: Path) -> None:
    (tmp_path / "drift.py").write_text(
        "import torch\nfrom torch import nn\n"
        "class Drift(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc, self.calls = nn.Linear(4, 3), 0\n"
        "    def forward(self, x):\n"
        "        self.calls += 1\n"
        "        return self.fc(x) + self.calls\n"
        "def build():\n"
        "    return Drift()\n"
    )
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    made = run(
        RunSettings(
            model=Target(place=str(tmp_path / "drift.py"), attribute="build"),
            record=RecordSettings(out=tmp_path, name="drift"),
            inputs=(InputFile(path=tmp_path / "x.npy"),),
            framework="torch",
            repeat=RepeatSettings(count=2, perturb=Perturb.NONE),
        )
    )

    floor = read_floor(made)

    index = open_dump(made).open().index
    assert floor is not None
    moved = {
        (index.modules[record.module].path, round(row.max_abs, 4))
        for record, row in zip(index.records, floor.records[0, 0], strict=True)
        if record.role is Role.OUTPUT and row is not None
    }
    assert moved == {("", 2.0), ("fc", 0.0)}


def test_repeating_less_than_once_is_refused() -> None:
    with pytest.raises(ConfigError, match="repeat 0 times"):
        RepeatSettings(count=0)


STEPS = 3
OPTIMIZERS = {
    "torch": ("torch:optim.Adam", {"lr": 0.01}),
    "paddle": ("paddle:optimizer.Adam", {"learning_rate": 0.01}),
}


def trained(framework: str, tmp_path: Path, name: str, optimizer: Target | None = None) -> Path:
    source = tmp_path / f"{framework}_net.py"
    source.write_text(TORCH if framework == "torch" else PADDLE)
    inputs = tmp_path / "x.npy"
    np.save(inputs, np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32))
    place, arguments = OPTIMIZERS[framework]
    module, _, attribute = place.partition(":")
    made = Target(place=module, attribute=attribute, arguments=arguments)
    return run(
        RunSettings(
            model=Target(place=str(source), attribute="build"),
            record=RecordSettings(out=tmp_path, name=name),
            inputs=(InputFile(path=inputs),),
            framework=framework,
            training=True,
            train=TrainSettings(steps=STEPS, optimizer=optimizer or made),
            repeat=RepeatSettings(count=2),
        )
    )


@pytest.mark.filterwarnings("ignore:When training, we now always track")
@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_every_step_and_phase_of_a_training_gets_a_floor(framework: str, tmp_path: Path) -> None:
    dumped = open_dump(trained(framework, tmp_path, "trained"))

    floor = read_floor(dumped.path)

    assert floor is not None
    assert set(floor.records) == {(step, 0) for step in range(STEPS)}
    for place, rows in floor.records.items():
        index = dumped.open(*place).index
        assert len(rows) == len(index.records)
        moved = {
            record.phase
            for record, row in zip(index.records, rows, strict=True)
            if row is not None and row.max_abs > 0
        }
        assert moved == {Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE}


@pytest.mark.filterwarnings("ignore:When training, we now always track")
def test_a_training_is_judged_against_its_floor(tmp_path: Path) -> None:
    first = trained("torch", tmp_path, "first")
    second = trained("torch", tmp_path, "second")
    other = Target(place="torch", attribute="optim.Adam", arguments={"lr": 0.011})
    faster = trained("torch", tmp_path, "faster", other)
    settings = CompareSettings(floor=FloorSide.BOTH)

    assert compare(first, second, settings).reasons == ()
    assert compare(first, faster, settings).verdict is Verdict.DIVERGED


def test_an_optimizer_that_cannot_be_made_anew_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "made_before.py").write_text(
        TORCH + "made = build()\nbest = torch.optim.SGD(made.parameters(), lr=0.1)\n"
    )
    ready = Target(place="made_before", attribute="best")

    with pytest.raises(ConfigError, match="--repeat"):
        trained("torch", tmp_path, "ready", ready)


def test_the_jump_of_an_element_near_a_kink_is_in_the_floor(tmp_path: Path) -> None:
    (tmp_path / "kink.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def build():\n"
        "    scale = nn.Linear(1, 1, bias=False)\n"
        "    nn.init.ones_(scale.weight)\n"
        "    return nn.Sequential(scale, nn.ReLU6())\n"
    )
    np.save(tmp_path / "x.npy", np.array([[np.nextafter(np.float32(6), np.float32(0))]]))
    made = run(
        RunSettings(
            model=Target(place=str(tmp_path / "kink.py"), attribute="build"),
            record=RecordSettings(out=tmp_path, name="kink"),
            inputs=(InputFile(path=tmp_path / "x.npy"),),
            framework="torch",
            repeat=RepeatSettings(count=1),
        )
    )

    floor = read_floor(made)

    assert floor is not None
    index = open_dump(made).open().index
    jumped = [
        floor.records[0, 0][record.id]
        for record in index.records
        if record.role is Role.GRAD_INPUT and index.modules[record.module].path == "1"
    ]
    assert [row.max_abs for row in jumped if row is not None] == [1.0]
