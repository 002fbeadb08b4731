"""Programs that torch exported, scripted or compiled, named as a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn
from torch.export.pt2_archive._package import AOTICompiledModel

import padiff
from padiff.dumper import adapters
from padiff.dumpfile import ConfigError
from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

NET = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.linear(self.norm(x)))

def build():
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block()).eval()

def exported():
    return torch.export.export(build(), (torch.zeros(3, 8),))

def module():
    return exported().module()

def unflattened():
    return torch.export.unflatten(exported())

def scripted():
    return torch.jit.script(build())
"""


def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2


def dumped(folder: Path, name: str, *inputs: str) -> Path:
    given = inputs or ("--inputs", "x.npy")
    words = ("dump", "--model", f"net.py:{name}", "--name", name, *given, "--out", ".")
    done = run_padiff(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / name


def test_exported_and_scripted_programs_match_what_they_were_made_of(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32))

    known, exported, scripted = (
        dumped(tmp_path, name) for name in ("build", "exported", "scripted")
    )

    found = padiff.compare(known, exported)
    assert found, found.report()
    pairs = (pair for step in found.steps for pair in step.pairs)
    judged = {one.reference.address.module for one in pairs if one.reference and one.candidate}
    assert {"", "0", "0.norm", "0.linear", "1", "1.norm", "1.linear"} <= judged
    assert padiff.compare(known, scripted)


def test_programs_take_by_its_place_what_was_exported_so(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    known = dumped(tmp_path, "build", "--inputs", "input=auto:3x8")

    module = dumped(tmp_path, "module", "--inputs-from", str(known))
    tree = dumped(tmp_path, "unflattened", "--inputs-from", str(known))

    assert padiff.compare(known, module)
    assert padiff.compare(known, tree)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_what_cannot_be_seen_is_refused_with_the_way_out() -> None:
    compiled = AOTICompiledModel(None)  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match="AOTInductor") as refused:
        adapters.opened(compiled)
    assert "ExportedProgram" in str(refused.value.hint)
    with pytest.raises(ConfigError, match="scripted function"):
        adapters.opened(torch.jit.script(halved))


def test_other_things_stay_as_they_are() -> None:
    for thing in (nn.Linear(2, 2), object(), None):
        assert adapters.opened(thing) is thing


@pytest.mark.parametrize("file", ["net.pt2", "net.pt", "net.mindir"])
def test_a_file_of_a_model_is_refused_with_what_loads_it(tmp_path: Path, file: str) -> None:
    done = run_padiff("dump", "--model", file, "--inputs", "x.npy", cwd=tmp_path)

    assert done.returncode == 2
    assert "expected MODULE:ATTR, FILE.py:ATTR or FILE.onnx" in done.stderr
    assert "record the Cell" in done.stderr or "load('net.pt" in done.stderr
