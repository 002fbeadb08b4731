"""The pytest fixtures in a pytest of their own: what passes, what fails, what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.support.command import run_python

if TYPE_CHECKING:
    from pathlib import Path

TEST = """
import os
import {framework} as framework
from {framework} import nn

def test_port(padiff_compare):
    {seed}(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6, {eps}=float(os.environ["EPS"])))
    model.eval()
    x = framework.ones([2, 4])
    result = padiff_compare("baseline/net", model, x, atol=1e-5)
    assert result is None or str(result.verdict) == "match"

def test_backward(padiff_compare):
    {seed}(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6, {eps}=float(os.environ["EPS"])))
    x = framework.ones([2, 4])
    padiff_compare("baseline/trained", model, (x,), loss=lambda y: y.pow(2).mean())
"""
BIG = "nn.Linear(4, 200), nn.Linear(200, 6)"
WORDS = {
    "torch": {"seed": "framework.manual_seed", "eps": "eps"},
    "paddle": {"seed": "framework.seed", "eps": "epsilon"},
}


def run(folder: Path, *words: str, eps: float = 1e-5) -> subprocess.CompletedProcess[str]:
    environment = {"EPS": str(eps), "CI": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    pytest = ("-m", "pytest", "-q", "-rf", "-p", "padiff.pytest_plugin")
    return run_python(*pytest, *words, cwd=folder, environment=environment)


@pytest.mark.parametrize("framework", list(WORDS))
def test_fixture_accepts_passes_and_fails(framework: str, tmp_path: Path) -> None:
    test = TEST.format(framework=framework, **WORDS[framework])
    (tmp_path / "test_it.py").write_text(test, encoding="utf-8")

    missing = run(tmp_path)
    accepted = run(tmp_path, "--padiff-accept", "first baseline")
    passed = run(tmp_path)
    failed = run(tmp_path, "--padiff-reports", "reports", eps=1e-3)

    assert missing.returncode == 1
    assert "no baseline at 'baseline/net': run pytest with --padiff-accept" in missing.stdout
    assert "Error" not in missing.stdout
    assert accepted.returncode == 0, accepted.stdout
    log = (tmp_path / "baseline" / "net.accepted.jsonl").read_text(encoding="ascii")
    assert json.loads(log)["reason"] == "first baseline"
    assert passed.returncode == 0, passed.stdout
    assert failed.returncode == 1
    (summary,) = [
        line for line in failed.stdout.splitlines() if "FAILED" in line and "port" in line
    ]
    assert "::test_port - Failed: DIVERGED at 1, forward; " in summary
    assert "; proved: eps" in summary
    assert "0.001 where the reference has 1e-05" in summary
    assert "same function?    no" in failed.stdout
    assert "baseline 'baseline/net'" in failed.stdout
    assert "FIRST ORIGIN" in failed.stdout
    results = sorted((tmp_path / "reports").iterdir())
    assert [path.name for path in results] == ["test_backward-1.json", "test_port-1.json"]
    assert json.loads(results[1].read_text(encoding="ascii"))["verdict"] == "diverged"


def test_baselines_may_be_packed_samples(tmp_path: Path) -> None:
    test = TEST.replace("baseline/net", "net.padiff.zip").replace("nn.Linear(4, 6)", BIG)
    test = test.replace("[2, 4]", "[200, 4]").format(framework="torch", **WORDS["torch"])
    (tmp_path / "test_it.py").write_text(test, encoding="utf-8")

    accepted = run(tmp_path, "-k", "port", "--padiff-accept", "new", "--padiff-content", "sample=8")
    passed = run(tmp_path, "-k", "port")
    failed = run(tmp_path, "-k", "port", eps=1e-3)

    assert accepted.returncode == 0, accepted.stdout
    assert (tmp_path / "net.padiff.zip").is_file()
    assert passed.returncode == 0, passed.stdout
    assert failed.returncode == 1
    assert "FIRST ORIGIN" in failed.stdout


AUDITED = """
import torch
from torch import nn
from padiff.comparer.auditing import Check, Soundness

class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient  # forgets the factor

class Net(nn.Module):
    def __init__(self, between):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(4, 6), nn.Linear(6, 3)
        self.between = between

    def forward(self, x):
        return self.two(self.between(self.one(x)))

x = torch.linspace(-1, 1, 20).reshape(5, 4)

def mean(output):
    return output.square().mean()

def test_sound(padiff_audit):
    found = padiff_audit(Net(torch.tanh), x)
    assert str(found.soundness) == "sound"
    assert {one.operators for one in found.values} == {1}
    again = padiff_audit(Net(torch.tanh), (x,), loss=mean, content="full")
    assert again.count(Check.GRADIENT, Soundness.SOUND) > 5

def test_forward_alone_is_sound(padiff_audit):
    padiff_audit(Net(Half.apply), {"x": x})

def test_unsound(padiff_audit):
    padiff_audit(Net(Half.apply), x, loss=mean)

def test_nothing(padiff_audit):
    padiff_audit(nn.Identity(), x)
"""


def test_audit_passes_what_is_sound_and_fails_the_rest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(AUDITED, encoding="utf-8")

    done = run(tmp_path)

    assert "2 failed, 2 passed" in done.stdout, done.stdout
    assert "::test_unsound - Failed: UNSOUND: gradient of " in done.stdout
    assert "UNSOUND: step 0: " in done.stdout
    assert "times what its program says" in done.stdout
    assert "nothing of the model could be audited\nNOT AUDITED: step 0: " in done.stdout


def test_plugin_imports_nothing_heavy_until_it_is_used() -> None:
    code = "import sys, padiff.pytest_plugin; print({'numpy', 'h5py', 'torch'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_what_is_no_setting_is_refused_before_the_model_runs(tmp_path: Path) -> None:
    body = """
    from collections import UserDict

    class Refuses:
        def __call__(self, *args, **kwargs):
            raise AssertionError("ran")

    def test_typo(padiff_compare):
        padiff_compare("baseline/net", Refuses(), atoll=1e-3)

    def test_keywords(padiff_compare):
        import torch
        from torch import nn

        model = nn.Bilinear(3, 3, 2)
        given = UserDict(input1=torch.ones(1, 3), input2=torch.ones(1, 3))
        padiff_compare("baseline/bilinear", model, given)
    """
    (tmp_path / "test_it.py").write_text(dedent(body), encoding="utf-8")

    done = run(tmp_path, "--padiff-accept", "first")

    assert "1 failed, 1 passed" in done.stdout
    assert "compare has none of that name" in done.stdout
    assert "did you mean 'atol'?" in done.stdout
    assert "what the model takes by keyword goes into inputs" in done.stdout


MODES = """
import pytest
import torch
from torch import nn

@pytest.mark.parametrize("train", [False, True])
def test_mode(padiff_compare, train):
    seen = []
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0))
    model[1].eval()
    model.register_forward_hook(lambda net, *_: seen.append((net.training, net[1].training)))
    padiff_compare(f"baseline/{train}", model, torch.ones(2, 4), train=train)
    assert set(seen) == {(train, train)}
    assert [one.training for one in model.modules()] == [True, True, False]
"""


def test_the_mode_is_that_of_dump_and_comes_back(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(MODES, encoding="utf-8")

    done = run(tmp_path, "--padiff-accept", "first")

    assert done.returncode == 0, done.stdout


def test_fixtures_say_what_they_take(tmp_path: Path) -> None:
    done = run(tmp_path, "--fixtures")

    assert ": (baseline, model, inputs=(), *, loss=None, train=False, **options)" in done.stdout
    assert ": (model, inputs=(), *, loss=None, train=False, content=" in done.stdout


MODELS = """
from torch import nn, ones

def test_model(padiff_compare):
    padiff_compare(nn.Linear(1, 1), nn.Linear(1, 1), ones([2, 1]))
"""


def test_a_model_in_the_place_of_a_baseline_says_what_compares_two_models(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(MODELS, encoding="utf-8")

    done = run(tmp_path)

    assert "expected its path, found 'Linear'" in done.stdout
    assert "padiff.auto_diff compares two models" in done.stdout
