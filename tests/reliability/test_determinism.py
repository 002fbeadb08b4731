"""Two dumps of the same run are the same bytes; only the manifest says when and how."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

MODELS = {
    "torch": """
from torch import nn


def build():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    )
""",
    "paddle": """
from paddle import nn


def build():
    return nn.Sequential(
        nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)
    )
""",
}
OPTIMIZERS = {
    "torch": ("torch.optim:SGD", "lr=0.1"),
    "paddle": ("paddle.optimizer:SGD", "learning_rate=0.1"),
}
TIMES = {"created", "command", "name"}


@pytest.mark.parametrize("framework", MODELS)
def test_two_dumps_of_one_run_are_byte_identical(framework: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODELS[framework], encoding="utf-8")
    x = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    words = ["dump", "--model", "net.py:build", "--inputs", "x.npy", "--train", "--steps", "2"]
    optimizer, rate = OPTIMIZERS[framework]
    words += ["--optimizer", optimizer, "--optimizer-arg", rate]
    folder = tmp_path / "padiff_dump"

    for name in ("one", "two"):
        done = run_padiff(*words, "--name", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr

    for step in range(2):
        file = f"step_{step:06d}/rank_0000.h5"
        assert (folder / "one" / file).read_bytes() == (folder / "two" / file).read_bytes()
    one, two = (
        json.loads((folder / name / "manifest.json").read_text()) for name in ("one", "two")
    )
    assert {key for key in one if one[key] != two[key]} <= TIMES
