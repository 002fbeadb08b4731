"""What a user reads when weights cannot be loaded: the whole text, word by word."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch

from padiff.dumper.adapters import load
from padiff.dumper.weights.checkpoint import write_arrays
from padiff.dumper.weights.weights import assign_weight, load_weights
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class _Torch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Linear(4, 3)
        self.head = torch.nn.Linear(3, 5)


class _Paddle(paddle.nn.Layer):
    def __init__(self, out: int = 5, *, is_scaled: bool = False) -> None:
        super().__init__()
        self.body = paddle.nn.Linear(4, 3)
        self.head = paddle.nn.Linear(3, out)
        if is_scaled:
            self.scale = self.create_parameter([7])


class _Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, ("1/0",)


def _told(fail: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        fail()
    error = caught.value
    hint = [] if error.hint is None else [f"hint: {error.hint}"]
    return "\n".join([error.message, *error.details, *hint]) + "\n"


def _load(path: Path) -> Callable[[], object]:
    return lambda: load_weights(_Paddle(), load("paddle"), path)


HINT = (
    "hint: write the pairs in a map file (padiff weights plan -o writes one to edit), or load what "
    "fits with strict=False\n"
)


def test_shape_mismatch() -> None:
    none = "no partner of this kind and shape; closest:"

    assert _told(lambda: assign_weight(_Torch(), _Paddle(6))) == (
        "cannot assign weights: 4 problems\n"
        f"reference head.weight (5, 3): {none} head.weight (3, 6), head.bias (6,)\n"
        f"reference head.bias (5,): {none} head.bias (6,), head.weight (3, 6)\n"
        f"candidate head.weight (3, 6): {none} head.weight (5, 3), head.bias (5,)\n"
        f"candidate head.bias (6,): {none} head.bias (5,), head.weight (5, 3)\n"
        "reference\n"
        "(root)  _Torch\n"
        "|- ... 1 more\n"
        "`- head  Linear\n"
        f"   |- weight (5, 3)   <--- HERE  {none} head.weight (3, 6), head.bias (6,)\n"
        f"   `- bias (5,)   <--- HERE  {none} head.bias (6,), head.weight (3, 6)\n"
        "candidate\n"
        "(root)  _Paddle\n"
        "|- ... 1 more\n"
        "`- head  Linear\n"
        f"   |- weight (3, 6)   <--- HERE  {none} head.weight (5, 3), head.bias (5,)\n"
        f"   `- bias (6,)   <--- HERE  {none} head.bias (5,), head.weight (5, 3)\n" + HINT
    )


def test_missing_partner() -> None:
    assert _told(lambda: assign_weight(_Torch(), _Paddle(is_scaled=True))) == (
        "cannot assign weights: 1 problem\n"
        "candidate scale (7,): no partner of this kind and shape\n"
        "candidate\n"
        "(root)  _Paddle\n"
        "|- scale (7,)   <--- HERE  no partner of this kind and shape\n"
        "`- ... 2 more\n" + HINT
    )


def test_wrong_direction_of_a_users_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "map.toml").write_text(
        '[[weight]]\nreference = "head.weight"\ncandidate = "head.weight"\nrule = "identity"\n'
    )

    assert _told(lambda: assign_weight(_Torch(), _Paddle(), map="map.toml")) == (
        "cannot apply map file 'map.toml'\n"
        "[[weight]] 1: the rule 'identity' makes (5, 3) of (5, 3), expected (3, 5) for "
        "'head.weight'; 'transpose' would fit\n"
        "hint: padiff show DUMP prints the paths; a weight's name is its module's path, a dot and "
        "its own name\n"
    )


@pytest.mark.parametrize(
    ("suffix", "reason"),
    [
        (
            "pdparams",
            (
                "expected a state dict of arrays, found something else: the data are cut off\n"
                "hint: nothing in the file was executed; save model.state_dict()"
            ),
        ),
        (
            "pth",
            (
                "expected a state dict of arrays, found something else: the file is damaged or cut "
                "off: File is not a zip file\n"
                "hint: nothing in the file was executed; save model.state_dict()"
            ),
        ),
        (
            "safetensors",
            (
                "no valid safetensors file: Error while deserializing header: incomplete metadata, "
                "file not fully covered"
            ),
        ),
    ],
)
def test_truncated_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"cut.{suffix}"
    write_arrays(path, {"head.weight": np.ones((3, 5), np.float32)})
    path.write_bytes(path.read_bytes()[:-10])

    told = _told(_load(path)).replace(f"{tmp_path}/", "")

    assert told == f"cannot read weights 'cut.{suffix}': {reason}\n"


@pytest.mark.parametrize(
    ("suffix", "reason"),
    [
        (
            "pdparams",
            (
                "expected a state dict of arrays, found something else: it wants to load "
                "builtins.eval\nhint: nothing in the file was executed; save model.state_dict()"
            ),
        ),
        (
            "pth",
            (
                "expected a state dict of arrays, found something else: it wants to load "
                "builtins.eval\nhint: nothing in the file was executed; save model.state_dict()"
            ),
        ),
    ],
)
def test_pickle_that_is_no_state_dict(tmp_path: Path, suffix: str, reason: str) -> None:
    path = tmp_path / f"bad.{suffix}"
    path.write_bytes(pickle.dumps({"weight": _Bomb()}, protocol=4))

    told = _told(_load(path)).replace(f"{tmp_path}/", "")

    assert told == f"cannot read weights 'bad.{suffix}': {reason}\n"
