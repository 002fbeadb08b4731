"""Paddle's recurrent layers with dropout, which have no backward pass in eval mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from paddle import nn

from padiff.cli.main import main
from padiff.dumpfile import Role
from tests.support.recording import Recorded

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def build() -> nn.Layer:
    return nn.LSTM(3, 4, num_layers=2, dropout=0.5)


def dumped(folder: Path, *more: str) -> int:
    np.save(folder / "x.npy", np.ones((2, 5, 3), "float32"))
    arguments = ["dump", "--model", f"{__name__}:build", "--inputs", str(folder / "x.npy")]
    return main([*arguments, "--out", str(folder), "--name", "lstm", *more])


def test_hint_names_what_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dumped(tmp_path) == 2
    assert "hint: --no-dropout" in capsys.readouterr().err


def test_without_dropout_the_backward_pass_of_eval_mode_is_recorded(tmp_path: Path) -> None:
    assert dumped(tmp_path, "--no-dropout") == 0

    got = Recorded.read(tmp_path / "lstm")
    assert any("without dropout ran in training mode" in note for note in got.manifest.notes)
    assert got.array(Role.WEIGHT_GRAD, "0.cell", ".weight_ih").any()
