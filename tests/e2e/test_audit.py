"""``padiff audit`` in a process: exit codes, text, JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """
import torch
from torch import nn

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * Scaled.factor

class Net(nn.Module):
    def __init__(self, backward=2.0):
        super().__init__()
        torch.manual_seed(0)
        Scaled.factor = backward
        self.one, self.two = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.two(Scaled.apply(self.one(x)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(MODEL)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32))
    return tmp_path


def dump(folder: Path, name: str, *words: str) -> None:
    done = run_padiff(
        "dump", "--model", "net.py:Net", "--inputs", "x.npy", "--name", name, *words, cwd=folder
    )
    assert done.returncode == 0, done.stderr


def test_a_right_dump_is_sound_without_any_framework(folder: Path) -> None:
    dump(folder, "right")

    done = run_padiff("audit", "padiff_dump/right", cwd=folder, blocked=("torch", "paddle", "onnx"))

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SOUND: step 0: ")


def test_a_wrong_backward_pass_exits_with_1_and_names_module_and_line(folder: Path) -> None:
    dump(folder, "wrong", "--model-arg", "backward=2.5")

    done = run_padiff("audit", "padiff_dump/wrong", cwd=folder)
    found = run_padiff("audit", "padiff_dump/wrong", "--json", cwd=folder)

    assert (done.returncode, found.returncode) == (1, 1)
    assert done.stdout.startswith("UNSOUND: step 0: ")
    first = next(
        one for one in json.loads(found.stdout)["step 0"]["values"] if one["soundness"] == "unsound"
    )
    assert (first["check"], first["module"]) == ("gradient", "one")
    assert first["site"]["file"] == "net.py"


def test_a_dump_without_program_exits_with_2(folder: Path) -> None:
    dump(folder, "none", "--program", "none")

    done = run_padiff("audit", "padiff_dump/none", cwd=folder)

    assert done.returncode == 2
    assert "it holds no program" in done.stderr
    assert "hint: " in done.stderr


def test_a_step_that_is_not_there_exits_with_2(folder: Path) -> None:
    dump(folder, "right")

    done = run_padiff("audit", "padiff_dump/right", "--step", "7", cwd=folder)

    assert done.returncode == 2
    assert "it has no step 7" in done.stderr
