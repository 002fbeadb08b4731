"""``padiff replay``: operators of a dump of torch in Paddle."""

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
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self, lambd=0.3):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.norm, self.lambd = nn.Linear(4, 6), nn.LayerNorm(6), lambd

    def forward(self, x):
        x = F.hardshrink(x, self.lambd)
        x = self.norm(self.linear(x)).relu_() + 1
        return torch.cat([x.transpose(0, 1).mean(-1), x.amax(0)], 0).cos_().erfc()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay")
    (path / "net.py").write_text(MODEL)
    np.save(path / "x.npy", np.array([[0.5, -1.0, 2.0, 0.25], [1.5, 0.5, -2.0, 1.0]], np.float32))
    for name, lambd in (("right", 0.3), ("edge", 0.5)):
        words = ("--model", "net.py:Net", "--model-arg", f"lambd={lambd}", "--inputs", "x.npy")
        done = run_padiff("dump", *words, "--name", name, cwd=path)
        assert done.returncode == 0, done.stderr
    return path


def test_operators_that_agree_are_listed_with_both_errors(folder: Path) -> None:
    done = run_padiff("replay", "padiff_dump/right", "--framework", "paddle", "--json", cwd=folder)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    called = {one["name"]: one for one in found["operators"]}
    assert called["torch.nn.functional.linear"]["status"] == "right"
    assert 0 < called["torch.nn.functional.linear"]["candidate_roundings"] < 8
    assert 0 <= called["torch.nn.functional.linear"]["gradient_roundings"] < 64
    assert called["torch.Tensor.relu_"]["called"] == "paddle.nn.functional.relu"
    assert called["torch.Tensor.cos_"]["status"] == "right"
    assert found["unknown"]["torch.Tensor.erfc"] == 1


def test_an_operator_that_does_something_else_is_named(folder: Path) -> None:
    # Paddle keeps an element at the threshold of hardshrink, torch does not.
    done = run_padiff(
        "replay", "padiff_dump/edge", "--framework", "paddle", "--profile", "2", cwd=folder
    )

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("DIFFER: 1 of ")
    assert "torch.nn.functional.hardshrink: wrong" in done.stdout
    assert "us where recorded, here, ratio" in done.stdout


PRODUCT = """
import torch
from torch import nn

class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return torch.relu(self.scale * x).prod(-1)
"""


def test_an_operator_with_another_gradient_is_named(folder: Path) -> None:
    # A product with a zero: Paddle's gradient is nan.
    (folder / "product.py").write_text(PRODUCT)
    words = ("--model", "product.py:Product", "--inputs", "x.npy", "--name", "product")
    assert run_padiff("dump", *words, cwd=folder).returncode == 0

    done = run_padiff("replay", "padiff_dump/product", "--framework", "paddle", cwd=folder)

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("DIFFER: 1 of ")
    assert "prod: wrong  gradient[input] is off by" in done.stdout


def test_a_dump_without_a_program_is_refused(folder: Path) -> None:
    words = ("--model", "net.py:Net", "--inputs", "x.npy", "--program", "none", "--name", "none")
    assert run_padiff("dump", *words, cwd=folder).returncode == 0

    done = run_padiff("replay", "padiff_dump/none", "--framework", "paddle", cwd=folder)

    assert done.returncode == 2
    assert "it holds no program" in done.stderr
