"""``padiff.compare_models``: two models, named or at hand, in one call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import padiff
from padiff.dumpfile import ConfigError, RecordError
from tests.support.forked_workers import fork_dumps

TORCH = """
from torch import nn

def build():
    norm = nn.BatchNorm2d(4)
    return nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
"""
PADDLE = """
from paddle import nn

def build(epsilon=1e-5):
    norm = nn.BatchNorm2D(4, epsilon=epsilon)
    return nn.Sequential(nn.Conv2D(3, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))

def wrong():
    return build(epsilon=1e-2)

def words():
    return nn.Embedding(100, 8)
"""
WORDS = """
from torch import nn

def build():
    return nn.Embedding(100, 8)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("t.py", TORCH), ("p.py", PADDLE), ("words.py", WORDS)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_port_matches_and_a_wrong_one_is_told_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = padiff.compare_models("t.py:build", "p.py:build", (2, 3, 8, 8))
    fork_dumps(monkeypatch)
    wrong = padiff.compare_models("t.py:build", "p.py:wrong", [(2, 3, 8, 8)], out=folder / "dumps")

    assert right
    assert not wrong
    assert wrong.first is not None
    assert "epsilon" in wrong.report()
    assert {one.name for one in (folder / "dumps").iterdir()} >= {"reference", "candidate"}


def test_integers_and_files_are_fed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork_dumps(monkeypatch)
    ids = np.array([[1, 2, 99]])
    np.save(folder / "ids.npy", ids)

    for inputs in ("auto:2x7:int64:0:100", ["ids.npy"], ids, [Path("ids.npy")]):
        torch.manual_seed(0)
        assert padiff.compare_models(nn.Embedding(100, 8), nn.Embedding(100, 8), inputs)
    assert padiff.compare_models("words.py:build", "p.py:words", [Path("ids.npy")])


def test_models_at_hand_are_compared_in_this_process() -> None:
    torch.manual_seed(0)
    one, two = nn.Linear(4, 3), nn.Linear(4, 3)

    assert not padiff.compare_models(one, two, (5, 4), share_weights=False)
    assert padiff.compare_models(one, two, (5, 4), atol=1e-5)
    assert padiff.compare_models(one, two, "input=auto:5x4")


def test_what_cannot_be_compared_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork_dumps(monkeypatch)
    with pytest.raises(ConfigError, match="two names or two objects, found a name and an object"):
        padiff.compare_models("t.py:build", nn.Linear(2, 2), (2, 2))
    with pytest.raises(ConfigError, match="cannot use input 0: expected a shape"):
        padiff.compare_models("t.py:build", "p.py:build", [object()])
    with pytest.raises(ConfigError, match="some inputs have a name"):
        padiff.compare_models(nn.Linear(4, 3), nn.Linear(4, 3), ["auto:5x4", "x=auto:2"])
    with pytest.raises(RecordError, match=r"cannot dump the reference 't.py:nope'.*no 'nope'"):
        padiff.compare_models("t.py:nope", "p.py:build", (2, 3, 8, 8))
    with pytest.raises(RecordError, match=r"cannot dump the candidate 'p.py:build'.*No such file"):
        padiff.compare_models(
            "t.py:build", "p.py:build", (2, 3, 8, 8), python_candidate=folder / "python"
        )
