"""Two branches of like layers, defined and named otherwise by each author: a run tells which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch
from torch import nn

from padiff import record
from padiff.dumper.adapters import load
from padiff.dumper.runs.rehearsal import rehearse
from padiff.dumper.weights.weights import load_weights

if TYPE_CHECKING:
    from pathlib import Path

CHANNELS = 6
IMAGE = np.random.default_rng(1).standard_normal((2, 3, 9, 9)).astype(np.float32)


def _depthwise(stride: int = 2) -> list[nn.Module]:
    convolution = nn.Conv2d(CHANNELS, CHANNELS, 3, stride, 1, groups=CHANNELS, bias=False)
    return [convolution, nn.BatchNorm2d(CHANNELS)]


def _pointwise() -> list[nn.Module]:
    convolution = nn.Conv2d(CHANNELS, CHANNELS, 1, bias=False)
    return [convolution, nn.BatchNorm2d(CHANNELS), nn.ReLU()]


class _Unit(nn.Module):
    """As ShuffleNetV2 halves an image: one branch has a pointwise convolution before the other."""

    def __init__(self) -> None:
        super().__init__()
        self.branch1 = nn.Sequential(*_depthwise(), *_pointwise())
        self.branch2 = nn.Sequential(*_pointwise(), *_depthwise(), *_pointwise())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = torch.stack([self.branch1(x), self.branch2(x)], 2)
        return both.flatten(1, 2).chunk(2, 1)[0]


class _Torch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, CHANNELS, 1)
        self.units = nn.Sequential(_Unit(), _Unit())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.units(self.first(x))
        return found


class _Block(paddle.nn.Layer):
    def __init__(self, *, groups: int = 1, is_activated: bool = True) -> None:
        super().__init__()
        kernel, stride, padding = (1, 1, 0) if groups == 1 else (3, 2, 1)
        self.conv = paddle.nn.Conv2D(
            CHANNELS, CHANNELS, kernel, stride, padding, groups=groups, bias_attr=False
        )
        self.norm = paddle.nn.BatchNorm2D(CHANNELS)
        self.is_activated = is_activated

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        made = self.norm(self.conv(x))
        return paddle.nn.functional.relu(made) if self.is_activated else made


class _PaddleUnit(paddle.nn.Layer):
    def __init__(self, *, is_longer_first: bool) -> None:
        super().__init__()
        self.pw_2 = _Block()
        self.dw_2 = _Block(groups=CHANNELS, is_activated=False)
        self.dw_1 = _Block(groups=CHANNELS, is_activated=False)
        self.linear_2 = _Block()
        self.linear_1 = _Block()
        self.is_longer_first = is_longer_first

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        def shorter() -> paddle.Tensor:
            made: paddle.Tensor = self.linear_1(self.dw_1(x))
            return made

        def longer() -> paddle.Tensor:
            made: paddle.Tensor = self.linear_2(self.dw_2(self.pw_2(x)))
            return made

        order = (longer, shorter) if self.is_longer_first else (shorter, longer)
        made = {branch: branch() for branch in order}
        both = [made[shorter], made[longer]]
        return paddle.chunk(paddle.flatten(paddle.stack(both, 2), 1, 2), 2, 1)[0]


class _Paddle(paddle.nn.Layer):
    def __init__(self, *, is_longer_first: bool) -> None:
        super().__init__()
        self.stem = paddle.nn.Conv2D(3, CHANNELS, 1)
        self.stages = paddle.nn.LayerList(
            [_PaddleUnit(is_longer_first=is_longer_first) for _ in range(2)]
        )

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return x


@pytest.mark.parametrize("is_longer_first", [False, True])
def test_the_branch_with_a_layer_more_before_is_found(
    tmp_path: Path, *, is_longer_first: bool
) -> None:
    torch.manual_seed(0)
    reference, candidate = _Torch().eval(), _Paddle(is_longer_first=is_longer_first)
    candidate.eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.normal_(0.3, 0.5)
        with record(reference, name="reference", out=tmp_path) as dump:
            expected = reference(torch.tensor(IMAGE))

    def run() -> paddle.Tensor:
        with paddle.no_grad():
            made: paddle.Tensor = candidate(paddle.to_tensor(IMAGE))
            return made

    adapter = load("paddle")
    load_weights(candidate, adapter, dump.path, rehearsal=lambda: rehearse(candidate, adapter, run))

    np.testing.assert_allclose(run().numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
