"""Two dumps of the same run are the same bytes; only the manifest says when and how."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.command import run_padiff
from tests.support.tiny_net import tiny_net

ROOT = Path(__file__).parents[2]
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
        done = run_padiff(*words, "--name", name, cwd=tmp_path, is_fresh=True)
        assert done.returncode == 0, done.stderr

    for step in range(2):
        file = f"step_{step:06d}/rank_0000.h5"
        assert (folder / "one" / file).read_bytes() == (folder / "two" / file).read_bytes()
    one, two = (
        json.loads((folder / name / "manifest.json").read_text()) for name in ("one", "two")
    )
    assert {key for key in one if one[key] != two[key]} <= TIMES


@pytest.mark.parametrize(
    "content",
    ["sample=8", *(pytest.param(one, marks=pytest.mark.slow) for one in ("stats", "digest"))],
)
def test_less_content_is_deterministic_too(content: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODELS["torch"], encoding="utf-8")
    np.save(tmp_path / "x.npy", np.ones((2, 3, 6, 6), np.float32))
    words = ["dump", "--model", "net.py:build", "--inputs", "x.npy", "--content", content]
    folder = tmp_path / "padiff_dump"

    for name in ("one", "two"):
        done = run_padiff(*words, "--name", name, cwd=tmp_path, is_fresh=True)
        assert done.returncode == 0, done.stderr

    one, two = (folder / name / "step_000000/rank_0000.h5" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_ranks_of_one_run_are_deterministic(tmp_path: Path) -> None:
    text = "import sys, pathlib; from tests.support.rank_trials import work; "
    text += "work(pathlib.Path(sys.argv[1]), 60.0)"
    for name in ("one", "two"):
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", text, str(tmp_path / name)],
                cwd=ROOT,
                env=os.environ
                | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": "29511"}
                | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "random"},
            )
            for rank in range(2)
        ]
        assert [process.wait(timeout=120) for process in processes] == [0, 0]

    names = sorted(str(path.relative_to(tmp_path / "one")) for path in tmp_path.glob("one/**/*.h5"))

    assert names == [f"m/step_{step:06d}/rank_{rank:04d}.h5" for step in (0, 1) for rank in (0, 1)]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_two_comparisons_of_the_same_dumps_are_byte_identical(tmp_path: Path) -> None:
    tiny_net(step=0).write(tmp_path / "a")
    tiny_net("paddle", eps=1e-3, weight_change=1e-6).write(tmp_path / "b")
    forms = ("json", "html", "junit", "sarif", "markdown", "csv")

    for name, jobs in (("one", "1"), ("two", "3")):
        files = [f"--{form}={tmp_path / name}.{form}" for form in forms]
        done = run_padiff("compare", "a", "b", "--jobs", jobs, *files, cwd=tmp_path, is_fresh=True)
        assert done.returncode == 1, done.stderr

    for form in forms:
        one, two = ((tmp_path / f"{name}.{form}").read_bytes() for name in ("one", "two"))
        assert one == two, form
