"""Buffers that are not saved with weights stay as the model made them, and are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.comparer.report.fault_words import evidence_of
from padiff.dumper import adapters
from padiff.dumper.runs.rehearsal import rehearse
from padiff.dumper.weights.checkpoint import open_source
from padiff.dumper.weights.convert import convert
from padiff.dumper.weights.weights import load_weights
from padiff.pairing import plan_weights

if TYPE_CHECKING:
    from pathlib import Path

WIDTH = 8
X = np.random.default_rng(1).standard_normal((2, 5, WIDTH)).astype("float32")


def _frequencies(theta: float) -> np.ndarray[Any, Any]:
    return (theta ** (-np.arange(WIDTH // 2) / (WIDTH // 2))).astype("float32")


class _Rotary(nn.Module):
    inv_freq: torch.Tensor

    def __init__(self, theta: float) -> None:
        super().__init__()
        self.register_buffer("inv_freq", torch.tensor(_frequencies(theta)), persistent=False)

    def forward(self, length: int) -> torch.Tensor:
        angle = torch.arange(length)[:, None] * self.inv_freq
        return torch.cat([angle.cos(), angle.sin()], -1)


class _Net(nn.Module):
    def __init__(self, theta: float = 1e4) -> None:
        super().__init__()
        self.first, self.rotary = nn.Linear(WIDTH, WIDTH), _Rotary(theta)
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.last(self.first(x) * self.rotary(x.shape[1]))
        return made


class _RotaryOfPaddle(paddle.nn.Layer):
    def __init__(self, theta: float, *, is_saved: bool) -> None:
        super().__init__()
        made = paddle.to_tensor(_frequencies(theta))
        self.register_buffer("inv_freq", made, persistable=is_saved)

    def forward(self, length: int) -> paddle.Tensor:
        angle = paddle.arange(length).astype("float32").unsqueeze(1) * self.inv_freq
        return paddle.concat([angle.cos(), angle.sin()], -1)


class _NetOfPaddle(paddle.nn.Layer):
    def __init__(self, theta: float = 1e4, *, is_saved: bool = False) -> None:
        super().__init__()
        self.first = paddle.nn.Linear(WIDTH, WIDTH)
        self.rotary = _RotaryOfPaddle(theta, is_saved=is_saved)
        self.last = paddle.nn.Linear(WIDTH, 3)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made: paddle.Tensor = self.last(self.first(x) * self.rotary(x.shape[1]))
        return made


def _compared(out: Path, candidate: Any) -> tuple[Comparison, tuple[str, ...]]:  # noqa: ANN401
    """Record the reference, load its weights as ``padiff dump --weights-from`` does, compare."""
    torch.manual_seed(0)
    reference = _Net()
    with record(reference, name="one", out=out):
        reference(torch.from_numpy(X)).square().mean().backward()
    adapter = adapters.find(candidate)
    x = torch.from_numpy(X) if adapter.name == "torch" else paddle.to_tensor(X)
    again = lambda: rehearse(candidate, adapter, lambda: candidate(x))  # noqa: E731
    plan = load_weights(candidate, adapter, out / "one", rehearsal=again)
    with record(candidate, name="two", out=out):
        candidate(x).square().mean().backward()
    return compare(out / "one", out / "two", CompareSettings()), plan.notes


@pytest.mark.parametrize("kind", ["torch", "paddle", "paddle, saved"])
def test_a_wrong_buffer_that_is_not_saved_is_the_first_origin(kind: str, tmp_path: Path) -> None:
    faulty = _Net(5e3) if kind == "torch" else _NetOfPaddle(5e3, is_saved=kind.endswith("saved"))

    result, notes = _compared(tmp_path, faulty)

    assert np.array_equal(faulty.rotary.inv_freq.numpy(), _frequencies(5e3))
    assert result.verdict is Verdict.DIVERGED
    first = result.origins[0]
    assert first.pair.candidate is not None
    assert first.pair.candidate.address.module == "rotary"
    assert result.divergences[0] is first
    assert evidence_of(first)[0].startswith("not the reference's: buffer rotary.inv_freq")
    (note,) = (note for note in notes if "rotary.inv_freq" in note)
    assert "not saved with weights" in note


@pytest.mark.parametrize("make", [_Net, _NetOfPaddle])
def test_a_right_buffer_that_is_not_saved_is_compared_and_matches(
    make: type, tmp_path: Path
) -> None:
    result, _ = _compared(tmp_path, make())

    assert result.verdict is Verdict.MATCH
    pairs = [pair for step in result.steps for pair in step.pairs]
    found = [
        pair.verdict
        for pair in pairs
        if pair.candidate and "inv_freq" in str(pair.candidate.address)
    ]
    assert found == [Verdict.MATCH, Verdict.MATCH]  # before the step and after it


def test_a_buffer_that_is_saved_is_loaded(tmp_path: Path) -> None:
    reference, candidate = nn.BatchNorm1d(4), paddle.nn.BatchNorm1D(4)
    reference(torch.randn(8, 4))

    padiff.assign_weight(reference, candidate)

    assert np.allclose(candidate._mean.numpy(), reference.running_mean.numpy())  # type: ignore[union-attr]


def test_live_models_do_not_repair_each_other() -> None:
    reference, candidate = _Net(), _NetOfPaddle(5e3, is_saved=True)

    padiff.assign_weight(reference, candidate)

    assert np.array_equal(candidate.rotary.inv_freq.numpy(), _frequencies(5e3))
    assert not padiff.auto_diff(reference, candidate, ((X,), (X,)), quiet=True)


def test_a_checkpoint_holds_only_what_is_saved(tmp_path: Path) -> None:
    for name, model in (("one", _Net()), ("two", _NetOfPaddle(5e3))):
        x = torch.from_numpy(X) if name == "one" else paddle.to_tensor(X)
        with record(model, name=name, out=tmp_path):
            model(x)
    with open_source(tmp_path / "one") as source, open_source(tmp_path / "two") as target:
        found = convert(plan_weights(source, target), source, target, task="cannot convert")

    assert set(found.arrays) == {
        f"{layer}.{name}" for layer in ("first", "last") for name in ("weight", "bias")
    }
