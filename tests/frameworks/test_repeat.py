"""``padiff dump --repeat`` leaves a floor beside an unchanged run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer import CompareSettings, Verdict, compare
from padiff.comparer.noise import FloorSide
from padiff.dumper import RecordSettings
from padiff.dumper.inputs import InputFile
from padiff.dumper.repeat import Perturb, RepeatSettings
from padiff.dumper.run import RunSettings, run
from padiff.dumper.target import Target
from padiff.dumpfile import ConfigError, Role, open_dump, read_floor

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


def test_repeating_less_than_once_is_refused() -> None:
    with pytest.raises(ConfigError, match="repeat 0 times"):
        RepeatSettings(count=0)
