"""Convolutions whose weight torch makes in modules of its own, and Paddle inside the layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import torch
from torch import nn
from torch.nn.utils import parametrizations

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumper.weights.weights import assign_weight

if TYPE_CHECKING:
    from pathlib import Path

SIGNAL = np.random.default_rng(0).standard_normal((2, 4, 9)).astype(np.float32)


class _Torch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            parametrizations.weight_norm(nn.Conv1d(4, 6, 3)),
            nn.Tanh(),
            parametrizations.weight_norm(nn.Conv1d(6, 6, 3)),
        )
        self.head = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(self.net(x).mean(-1))
        return made


class _Paddle(paddle.nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.out = paddle.nn.Linear(6, 3)
        self.second = paddle.nn.utils.weight_norm(paddle.nn.Conv1D(6, 6, 3))
        self.first = paddle.nn.utils.weight_norm(paddle.nn.Conv1D(4, 6, 3))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = self.second(paddle.tanh(self.first(x)))
        made: paddle.Tensor = self.out(x.mean(-1))
        return made


def compared(folder: Path, *, scale: float = 1.0) -> Comparison:
    torch.manual_seed(0)
    reference, candidate = _Torch().eval(), _Paddle()
    candidate.eval()
    assign_weight(reference, candidate)
    layer: Any = candidate.second
    right = layer.forward
    layer.forward = lambda x: right(x) * scale
    with record(reference, name="reference", out=folder) as known:
        reference(torch.tensor(SIGNAL)).square().mean().backward()
    with record(candidate, name="candidate", out=folder) as found:
        candidate(paddle.to_tensor(SIGNAL)).square().mean().backward()
    return compare(known.path, found.path, CompareSettings(atol=1e-4))


def test_a_layer_whose_weight_is_made_inside_is_the_layer(tmp_path: Path) -> None:
    result = compared(tmp_path)

    step = result.steps[0]
    layers = {(pair.reference, pair.candidate) for pair in step.pairing}
    assert result.verdict is Verdict.MATCH, result.reasons
    assert {("net.0", "first"), ("net.2", "second"), ("head", "out")} <= layers
    assert step.coverage_reference.fraction == step.coverage_candidate.fraction == 1.0


def test_a_fault_in_it_is_named(tmp_path: Path) -> None:
    first = compared(tmp_path, scale=1.25).origins[0].pair.candidate

    assert first is not None
    assert first.address.module == "second"
