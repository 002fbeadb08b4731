"""Layers that do on one side what a layer and its neighbour do on the other."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
import pytest
import torch
from paddle import nn as pn
from torch import nn

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare
from padiff.dumper.weights.weights import assign_weight

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = np.random.default_rng(0).standard_normal((2, 3, 9, 8)).astype(np.float32)
ROWS = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)


class Normed(nn.Module):
    """Convolutions and a product, a batch norm after each."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3)
        self.bn2 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.head = nn.Linear(8, 4)
        self.bn3 = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.bn1(self.first(x)))
        x = self.relu(self.bn2(self.second(x)))
        made: torch.Tensor = self.bn3(self.head(x.mean((2, 3))))
        return made


class PaddleNormed(pn.Layer):
    """The same by another author."""

    def __init__(self) -> None:
        super().__init__()
        self.body = pn.Sequential(
            pn.Conv2D(3, 8, 3, bias_attr=False),
            pn.BatchNorm2D(8),
            pn.ReLU(),
            pn.Conv2D(8, 8, 3),
            pn.BatchNorm2D(8),
            pn.ReLU(),
        )
        self.out = pn.Sequential(pn.Linear(8, 4), pn.BatchNorm1D(4))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made: paddle.Tensor = self.out(self.body(x).mean([2, 3]))
        return made


class Folded(nn.Module):
    """What an exporter for inference leaves of it."""

    def __init__(self, net: Normed) -> None:
        super().__init__()
        self.first = nn.utils.fusion.fuse_conv_bn_eval(net.first, net.bn1)
        self.second = nn.utils.fusion.fuse_conv_bn_eval(net.second, net.bn2)
        self.relu = nn.ReLU()
        self.head = nn.utils.fusion.fuse_linear_bn_eval(net.head, net.bn3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.second(self.relu(self.first(x))))
        made: torch.Tensor = self.head(x.mean((2, 3)))
        return made


@pytest.fixture
def normed() -> Normed:
    torch.manual_seed(0)
    net = Normed()
    for norm in (net.bn1, net.bn2, net.bn3):
        nn.init.uniform_(norm.weight, 0.5, 2.0)
        nn.init.normal_(norm.bias)
        norm.running_mean = torch.randn(norm.num_features)
        norm.running_var = torch.rand(norm.num_features) + 0.5
    return net.eval()


def compared(reference: Any, candidate: Any, folder: Path, data: Any) -> Comparison:  # noqa: ANN401
    for model, name in ((reference, "reference"), (candidate, "candidate")):
        model.eval()
        with record(model, name=name, out=folder):
            is_torch = isinstance(model, nn.Module)
            made = model(torch.tensor(data) if is_torch else paddle.to_tensor(data))
            made.square().sum().backward()
    return compare(folder / "reference", folder / "candidate", CompareSettings(atol=1e-4))


@pytest.mark.parametrize("is_forward", [True, False])
def test_norms_folded_into_the_layers_before_agree(
    normed: Normed, tmp_path: Path, *, is_forward: bool
) -> None:
    models = normed, Folded(normed)
    reference, candidate = models if is_forward else models[::-1]

    result = compared(reference, candidate, tmp_path, IMAGE)

    step = result.steps[0]
    assert result.verdict is Verdict.MATCH, result.reasons
    assert step.coverage_reference.fraction == step.coverage_candidate.fraction == 1.0


def test_norms_of_another_framework_folded_agree(normed: Normed, tmp_path: Path) -> None:
    other = PaddleNormed()
    assign_weight(normed, other)

    result = compared(other, Folded(normed), tmp_path, IMAGE)

    assert result.verdict is Verdict.MATCH, result.reasons


def test_a_norm_folded_with_another_epsilon_diverges_where_it_is(
    normed: Normed, tmp_path: Path
) -> None:
    wrong = copy.deepcopy(normed)
    wrong.bn2.eps = 0.3

    result = compared(normed, Folded(wrong), tmp_path, IMAGE)

    first = result.origins[0].pair.reference or result.origins[0].pair.candidate
    assert result.verdict is Verdict.DIVERGED
    assert first is not None
    assert first.address.module in {"second", "bn2"}


class Apart(nn.Module):
    """A product without bias, and what is added after it."""

    def __init__(self, *, is_layer: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 6, bias=False)
        if is_layer:
            self.add = Offset()
        else:
            self.shift = nn.Parameter(torch.randn(6))
        self.relu = nn.ReLU()
        self.out = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)
        x = x + self.shift if hasattr(self, "shift") else self.add(x)
        made: torch.Tensor = self.out(self.relu(x))
        return made


class Offset(nn.Module):
    """Add a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.randn(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.offset


class Whole(pn.Layer):
    """The same with a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = pn.Linear(8, 6)
        self.act = pn.ReLU()
        self.last = pn.Linear(6, 3)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made: paddle.Tensor = self.last(self.act(self.dense(x)))
        return made


@pytest.mark.parametrize("is_layer", [True, False])
@pytest.mark.parametrize("is_forward", [True, False])
def test_a_vector_beside_a_layer_and_a_bias_agree(
    tmp_path: Path, *, is_layer: bool, is_forward: bool
) -> None:
    models = (Apart(is_layer=is_layer), Whole())
    reference, candidate = models if is_forward else models[::-1]
    assign_weight(reference, candidate)

    result = compared(reference, candidate, tmp_path, ROWS)

    step = result.steps[0]
    assert result.verdict is Verdict.MATCH, result.reasons
    assert step.coverage_reference.fraction == step.coverage_candidate.fraction == 1.0
