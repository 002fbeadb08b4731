"""Mistakes in blocks that both authors write in other forms, each told once and by nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff
from padiff.comparer import Verdict
from padiff.comparer.report.fault_words import worded_edit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Forward = Callable[[Any, torch.Tensor], torch.Tensor]

WIDTH, LENGTH, BLOCKS = 8, 6, 3


class _Block(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.norm = nn.LayerNorm(WIDTH)
        self.way = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.way(self, x)


class _Net(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_Block(forward) for _ in range(BLOCKS))
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        result: torch.Tensor = self.last(x)
        return result


def _root_mean_square(block: _Block, x: torch.Tensor) -> torch.Tensor:
    return torch.mul(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), block.norm.weight)


def _divided(block: _Block, x: torch.Tensor) -> torch.Tensor:
    return torch.mul(
        x / torch.sqrt((x * x).sum(-1, keepdim=True) / WIDTH + 1e-6), block.norm.weight
    )


def _pooled(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = functional.avg_pool1d(x.transpose(1, 2), 3, 1, 1)
    return result.transpose(1, 2)


def _pooled_as_images(x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = functional.avg_pool2d(x.mT.unsqueeze(2), (1, 3), 1, (0, 1))
    return result.squeeze(2).mT


def _attended(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.matmul((q @ k.mT / WIDTH**0.5).softmax(-1), q)


def _attended_in_one(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = functional.scaled_dot_product_attention(q, k, q)
    return result


def _gated(block: _Block, x: torch.Tensor) -> torch.Tensor:
    one, other = block.first(x), block.second(x)
    return torch.mul(one, torch.sigmoid(other))


def _gated_otherwise(block: _Block, x: torch.Tensor) -> torch.Tensor:
    one, other = block.first(x), block.second(x)
    return torch.mul(other, torch.sigmoid(one))


def _sigmoid(x: torch.Tensor) -> torch.Tensor:
    return 2 * torch.sigmoid(2 * x) - 1


FAULTS: dict[str, tuple[Forward, Forward, int]] = {
    "torch.nn.functional.linear of blocks.0.first and"
    " torch.nn.functional.linear of blocks.0.second exchanged": (_gated, _gated_otherwise, BLOCKS),
    "left out: add": (
        lambda b, x: torch.tanh(b.first(x) + x),
        lambda b, x: _sigmoid(b.first(x)),
        BLOCKS,
    ),
    "sub, minus 0.1 where the reference has add, plus 0.1": (
        lambda b, x: _pooled(b.first(x) * 0.7 + 0.1) * 0.7 + 0.1,
        lambda b, x: _pooled_as_images(b.first(x) * 0.7 - 0.1) * 0.7 + 0.1,
        BLOCKS,
    ),
    "add, plus 0.1, mul, times 0.7 where the reference has mul, times 0.7, add, plus 0.1": (
        lambda b, x: torch.tanh(b.first(x) * 0.7 + 0.1),
        lambda b, x: _sigmoid((b.first(x) + 0.1) * 0.7),
        BLOCKS,
    ),
    "too much: mul, times 0.9": (
        lambda b, x: _root_mean_square(b, functional.softmax(torch.tanh(b.first(x)), -1)),
        lambda b, x: _root_mean_square(b, functional.softmax(_sigmoid(b.first(x)) * 0.9, -1)),
        BLOCKS,
    ),
    "max_pool1d(3, 1, 1) where the reference has avg_pool1d(3, 1, 1)": (
        lambda b, x: _root_mean_square(b, _pooled(b.first(x))),
        lambda b, x: _divided(b, functional.max_pool1d(b.first(x).mT, 3, 1, 1).mT),
        BLOCKS,
    ),
    "max of clamp: 0.45 where the reference has 0.5": (
        lambda b, x: _attended(b.first(x).clamp(max=0.5), x),
        lambda b, x: _attended_in_one(b.first(x).clamp(max=0.45), x),
        BLOCKS,
    ),
    "bias of conv1d left out: the reference has blocks.0.conv.bias": (
        lambda b, x: b.conv(x.mT).mT,
        lambda b, x: functional.conv1d(x.mT, b.conv.weight, None, padding=1).mT,
        BLOCKS,
    ),
}


@pytest.mark.parametrize("words", FAULTS)
def test_a_fault_in_each_block_is_told_once(words: str, tmp_path: Path) -> None:
    reference, candidate, times = FAULTS[words]
    nets = _Net(reference), _Net(candidate)
    draws = torch.Generator().manual_seed(3)
    for weight in nets[0].parameters():
        weight.data = torch.randn(weight.shape, generator=draws) * 0.4
    nets[1].load_state_dict(nets[0].state_dict())
    paths = []
    for name, net in zip(("reference", "candidate"), nets, strict=True):
        with padiff.record(net, name=name, out=tmp_path, phase="forward") as recorder:
            net(torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(4)))
        paths.append(recorder.path)

    found = padiff.compare(paths[0], paths[1])

    assert found.verdict is Verdict.DIVERGED
    executed = found.steps[0].executed
    assert executed is not None
    assert [worded_edit(one) for one in executed.function.edits] == [words]
    assert executed.function.edits[0].times == times
