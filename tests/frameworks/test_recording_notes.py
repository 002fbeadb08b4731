"""What recording changes in a run is said where it is recorded, and in every report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

MODELS = """
import paddle
import torch

def compiled():
    second = torch.compile(torch.nn.Linear(4, 4), backend="eager")
    return torch.nn.Sequential(torch.nn.Linear(4, 4), second)

def compiled_in_place():
    model = torch.nn.Linear(4, 4)
    model.compile(backend="eager")
    return model

def wrapped():
    return torch.compile(torch.nn.Linear(4, 4), backend="eager")

def attention():
    return torch.nn.TransformerEncoderLayer(4, 2, 4, batch_first=True)

def static():
    return paddle.jit.to_static(paddle.nn.Linear(4, 4))
"""
CASES = {
    "compiled": "what torch.compile compiled ran eagerly: 1",
    "compiled_in_place": "what torch.compile compiled ran eagerly: (root)",
    "wrapped": "what torch.compile compiled ran eagerly: (root)",
    "attention": "hooks disable torch's fused inference path of MultiheadAttention",
    "static": "what to_static compiled ran eagerly: (root)",
}


@pytest.mark.parametrize("name", CASES)
def test_dump_and_compare_say_what_recording_changed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(MODELS)
    np.save("x.npy", np.ones((1, 2, 4), "float32"))

    code = main(["dump", "--model", f"models.py:{name}", "--inputs", "x.npy", "--name", "one"])
    assert code == 0
    assert f"note: recording: {CASES[name]}" in capsys.readouterr().err

    code = main(["compare", "padiff_dump/one", "padiff_dump/one", "--json", "report.json"])
    assert code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"reference: recording: {CASES[name]}" in said
    notes = json.loads((tmp_path / "report.json").read_text())["notes"]
    assert [note for note in notes if note.startswith(f"candidate: recording: {CASES[name]}")]


def test_a_compiled_wrapper_is_named(tmp_path: Path) -> None:
    model = torch.compile(nn.Linear(4, 4), backend="eager")

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(torch.ones(2, 4)).sum().backward()

    notes = padiff.open_dump(recorder.path).manifest.notes
    assert "recording: what torch.compile compiled ran eagerly: (root)" in notes


@pytest.mark.parametrize("framework", ["torch", "paddle"])
def test_nothing_is_said_of_a_plain_model(framework: str, tmp_path: Path) -> None:
    model = nn.Linear(4, 4) if framework == "torch" else paddle.nn.Linear(4, 4)
    x = torch.ones(2, 4) if framework == "torch" else paddle.ones([2, 4])

    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(x).sum().backward()

    assert padiff.open_dump(recorder.path).manifest.notes == ()
