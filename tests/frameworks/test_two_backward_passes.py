"""A step with two losses, each with an update of its own: a discriminator's and a generator's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict
from padiff.comparer.proving import Answer

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 3


class _Pair(nn.Module):
    """A generator, and what judges it outside its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.generator, self.judge = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.generator(x).tanh()
        return found


def _record(folder: Path, name: str, *, weight: float = 2.0, is_other: bool = False) -> Path:
    """Train, perhaps with products that are taken in another order."""
    net = _Pair()
    ours = torch.optim.SGD(net.generator.parameters(), lr=1e-3)
    others = torch.optim.SGD(net.judge.parameters(), lr=1e-3)
    random = torch.Generator().manual_seed(1)
    with padiff.record(net, name=name, out=folder) as recorder:
        for _ in range(STEPS):
            x, aim = (torch.randn(5, size, generator=random) for size in (3, 4))
            made = net(x)
            others.zero_grad()
            (net.judge(aim) - net.judge(made.detach())).mean().backward()
            others.step()
            ours.zero_grad()
            apart = (made - aim).square()
            near = apart * (aim * 0.3) if is_other else apart * aim * 0.3
            (near.mean() * weight - net.judge(made).mean()).backward()
            ours.step()
            recorder.step()
    assert recorder.path is not None
    return recorder.path


def test_a_loss_behind_another_ones_update_is_part_of_the_program(tmp_path: Path) -> None:
    assert padiff.audit(_record(tmp_path, "net"))


def test_gradients_that_were_cleared_between_two_updates_are_none_of_the_step(
    tmp_path: Path,
) -> None:
    reference = _record(tmp_path, "reference")

    result = padiff.compare(reference, _record(tmp_path, "candidate", is_other=True))

    functions = [step.executed.function for step in result.steps if step.executed is not None]
    assert [one.unjudged for one in functions] == [()] * STEPS
    assert [one.answer for one in functions] == [Answer.SAME] * STEPS
    assert result.verdict is Verdict.MATCH


@pytest.mark.parametrize("is_other", [False, True])
def test_a_loss_that_is_weighed_otherwise_is_named(is_other: bool, tmp_path: Path) -> None:
    reference = _record(tmp_path, "reference")

    result = padiff.compare(
        reference, _record(tmp_path, "candidate", weight=2.5, is_other=is_other)
    )

    assert result.first is not None
    assert result.first.cause.split(";")[0] == "proved: other of mul: 2.5 where the reference has 2"


def test_a_loss_behind_the_update_of_another_model_reads_what_that_left(tmp_path: Path) -> None:
    """Paddle's optimizers write past the counter that tells of other writes."""
    paddle.seed(0)
    net, judge = paddle.nn.Linear(3, 4), paddle.nn.Linear(4, 1)
    ours = paddle.optimizer.SGD(1e-3, parameters=net.parameters())
    others = paddle.optimizer.SGD(0.5, parameters=judge.parameters())
    x = paddle.to_tensor(np.random.default_rng(0).standard_normal((5, 3), dtype=np.float32))
    with padiff.record(net, name="net", out=tmp_path) as recorder:
        made = net(x)
        judge(made.detach()).mean().backward()
        others.step()
        ours.clear_grad()
        judge(made).square().mean().backward()
        ours.step()
        recorder.step()
    assert recorder.path is not None

    assert padiff.audit(recorder.path)


def _accumulated(folder: Path, name: str, seed: int, *, is_cleared: bool = False) -> Path:
    """Train on two micro-batches in each step, with draws of its own."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.3), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batches = torch.randn(2, 5, 3)
    torch.manual_seed(seed)
    with padiff.record(net, name=name, out=folder) as recorder:
        for x in batches:
            if is_cleared:
                optimizer.zero_grad()
            (net(x).square().mean() / 2).backward()
        optimizer.step()
    assert recorder.path is not None
    return recorder.path


@pytest.mark.parametrize("is_cleared", [False, True])
def test_gradients_of_micro_batches_follow_from_their_sum(is_cleared: bool, tmp_path: Path) -> None:
    """Each side draws for itself, so that no gradient is the other one's."""
    reference = _accumulated(tmp_path, "reference", 1)

    result = padiff.compare(
        reference, _accumulated(tmp_path, "candidate", 2, is_cleared=is_cleared)
    )

    assert result.verdict is (Verdict.DIVERGED if is_cleared else Verdict.MATCH)
