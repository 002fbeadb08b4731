"""Recording a training script from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import padiff
from padiff.dumpfile import open_dump
from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import sys
import torch

print("arguments:", sys.argv[1:])
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[2]))


def train():
    for step in range(int(sys.argv[1])):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


train()
if len(sys.argv) > 3:
    open(sys.argv[3])
print("trained")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def test_script_keeps_its_output_and_gets_its_arguments(folder: Path) -> None:
    done = run_padiff("dump", "--script", "train.py", "--", "4", "0.5", cwd=folder)

    assert done.returncode == 0, done.stderr
    assert done.stdout == "arguments: ['4', '0.5']\ntrained\n"
    assert "dump at padiff_dump/Linear" in done.stderr
    assert [info.step for info in open_dump(folder / "padiff_dump" / "Linear").files] == [0, 1]


def test_script_that_fails_shows_its_own_traceback(folder: Path) -> None:
    done = run_padiff(
        "dump", "--script", "train.py", "--steps", "0,2", "--", "4", "0.5", "missing", cwd=folder
    )

    assert done.returncode == 2
    first, *lines = done.stderr.splitlines()
    assert first == "Traceback (most recent call last):"
    assert lines[0].strip().startswith('File "train.py", line 19, in <module>')
    assert "FileNotFoundError" in done.stderr
    kept = open_dump(folder / "padiff_dump" / "Linear.incomplete")
    assert [info.step for info in kept.files] == [0, 2]


def test_error_inside_the_model_shows_no_line_of_padiff(folder: Path) -> None:
    text = SCRIPT.replace("model = torch.nn.Linear(2, 2)", "model = torch.nn.Linear(3, 2)")
    (folder / "train.py").write_text(text)

    done = run_padiff("dump", "--script", "train.py", "--", "4", "0.5", cwd=folder)

    assert done.returncode == 2
    assert "in _call_impl" in done.stderr
    assert "cannot be multiplied" in done.stderr
    assert "dumper" not in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--script", "train.py", "--inputs", "x.npy"], "--inputs cannot be used with --script"),
        (["--model", "train.py:model", "--stop"], "--stop needs --script"),
        (["--model", "train.py:model", "--", "3"], "ARGS needs --script"),
        ([], "Missing option '--model' (or '--script')"),
        (["--script", "none.py"], "no such file"),
        (["--script", "train.py", "--every", "2", "--stop"], "--every names none"),
        (["--script", "train.py", "--model-class", "A", "--model-variable", "b"], "one of them"),
        (["--model", "train.py:model", "--steps", "0,1"], "--record-steps 0,10 names those"),
    ],
)
def test_options_that_do_not_fit_are_refused(folder: Path, words: list[str], told: str) -> None:
    done = run_padiff("dump", *words, cwd=folder)

    assert done.returncode == 2
    assert told in done.stderr


DRAWING = """
import sys
import torch

torch.manual_seed(int(sys.argv[1]))
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4, eps=float(sys.argv[2])))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.randn(2, 3)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def drawing(tmp_path: Path) -> Path:
    (tmp_path / "draw.py").write_text(DRAWING)
    done = run_padiff("dump", "--script", "draw.py", "--name", "a", "--", "0", "1e-5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_script_gets_the_weights_and_inputs_of_a_dump(drawing: Path) -> None:
    sources = ("--weights-from", "padiff_dump/a", "--inputs-from", "padiff_dump/a")
    done = run_padiff(
        "dump", "--script", "draw.py", "--name", "b", *sources, "--", "1", "1e-5", cwd=drawing
    )

    assert done.returncode == 0, done.stderr
    assert "note: inputs: those of a dump, not the script's" in done.stderr
    result = padiff.compare(drawing / "padiff_dump" / "a", drawing / "padiff_dump" / "b")
    assert result, result.report()
    assert [step.step for step in result.steps] == [0, 1]


def test_script_whose_calls_are_fed_hides_no_later_fault(drawing: Path) -> None:
    sources = ("--weights-from", "padiff_dump/a", "--feed", "padiff_dump/a")
    done = run_padiff(
        "dump", "--script", "draw.py", "--name", "b", *sources, "--", "1", "0.5", cwd=drawing
    )

    assert done.returncode == 0, done.stderr
    dumps = drawing / "padiff_dump"
    result = padiff.compare(dumps / "a", dumps / "b", phase="forward", step=0)
    assert {found.module for found in result.origins} == {"1"}
    manifest = open_dump(dumps / "b").manifest
    assert [note for note in manifest.notes if note.startswith("fed: ")]


def test_a_source_that_is_not_there_ends_before_the_script_begins(folder: Path) -> None:
    done = run_padiff(
        "dump", "--script", "train.py", "--weights-from", "nothing", "--", "2", "0.5", cwd=folder
    )

    assert done.returncode == 2
    assert "nothing" in done.stderr
    assert done.stdout == ""


def test_weights_that_do_not_fit_the_script_are_told(drawing: Path) -> None:
    (drawing / "train.py").write_text(SCRIPT)
    done = run_padiff(
        "dump", "--script", "train.py", "--weights-from", "padiff_dump/a", "--", "2", "0.5",
        cwd=drawing,
    )  # fmt: skip

    assert done.returncode == 2
    assert "cannot load weights from 'padiff_dump/a'" in done.stderr


ATTENDING = """
import sys
import torch
from torch import nn


class Fused(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4)

    def parts(self, x):
        return self.qkv(x).chunk(3, -1)

    def forward(self, x):
        query, key, value = self.parts(x)
        return self.out(torch.softmax(query @ key.mT / 2, -1) @ value)


class Apart(Fused):
    def __init__(self):
        nn.Module.__init__(self)
        self.value, self.key, self.query = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.out = nn.Linear(4, 4)

    def parts(self, x):
        return self.query(x), self.key(x), self.value(x)


model = {"fused": Fused, "apart": Apart}[sys.argv[1]]()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
generator = torch.Generator().manual_seed(0)
for step in range(2):
    model(torch.randn(2, 3, 4, generator=generator)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_parts_of_a_fused_weight_are_told_by_the_inputs_that_came_with_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ATTENDING)
    words = ("dump", "--script", "train.py", "--seed", "1", "--name")
    run_padiff(*words, "a", "--", "fused", cwd=tmp_path)

    done = run_padiff(*words, "b", "--weights-from", "padiff_dump/a", "--", "apart", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "tried, and only so the model agrees with the reference" in done.stderr
    result = padiff.compare(tmp_path / "padiff_dump" / "a", tmp_path / "padiff_dump" / "b")
    assert result, result.report()
