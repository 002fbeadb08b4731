"""A layer taken out of a dump computes alone what was recorded, in both frameworks."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from padiff.comparer.extract import extract
from padiff.dumper.inputs import InputFile
from padiff.dumper.recorder import RecordSettings
from padiff.dumper.run import RunSettings, run
from padiff.dumper.target import parse_target

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """
from {framework} import nn

class Own(nn.{base}):
    def forward(self, x):
        return x + 1

def build():
    return nn.Sequential(
        nn.{conv}(3, 8, 3, 2, 1), nn.{norm}(8), nn.LeakyReLU(0.2), nn.{pool}(2), nn.Flatten(),
        nn.Linear(32, 6), nn.LayerNorm(6), nn.GELU(), nn.Softmax(-1), nn.Dropout(0.3), Own(),
    )
"""
WORDS = {
    "torch": {"base": "Module", "conv": "Conv2d", "norm": "BatchNorm2d", "pool": "MaxPool2d"},
    "paddle": {"base": "Layer", "conv": "Conv2D", "norm": "BatchNorm2D", "pool": "MaxPool2D"},
}
LAYERS = 10
RUN = ("0", "1", "3", "5")
"""Those whose class takes arguments of every sort; each needs two processes."""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("extracted")
    inputs = folder / "x.npy"
    np.save(inputs, np.random.default_rng(0).standard_normal((2, 3, 9, 9)).astype(np.float32))
    found: list[Path] = []
    for framework, words in WORDS.items():
        model = folder / f"layers_{framework}.py"
        model.write_text(MODEL.format(framework=framework, **words), encoding="utf-8")
        found.append(
            run(
                RunSettings(
                    model=parse_target(f"{model}:build"),
                    inputs=(InputFile(path=inputs),),
                    record=RecordSettings(out=folder, name=framework),
                    weights_from=found[0] if found else None,
                )
            )
        )
    return found[0], found[1]


@pytest.mark.parametrize("module", RUN)
def test_script_reproduces_the_recorded_output(
    module: str, dumps: tuple[Path, Path], tmp_path: Path
) -> None:
    assert len(extract(*dumps, module, tmp_path)) == 2

    for side in ("reference", "candidate"):
        done = subprocess.run(
            [sys.executable, tmp_path / f"{side}.py"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "agrees" in done.stdout


def test_class_of_the_user_gets_a_stub_that_says_what_to_do(
    dumps: tuple[Path, Path], tmp_path: Path
) -> None:
    extract(*dumps, str(LAYERS), tmp_path)

    done = subprocess.run(
        [sys.executable, tmp_path / "candidate.py"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "make the layer here: layers_paddle.Own" in done.stderr
