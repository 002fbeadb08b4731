"""Losses of a value that one side made ahead of the step: they agree by tolerance alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer.report.fault_words import evidence_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LABELS = torch.tensor([[0.3, 0.7, 0.1, 0.9]])
SMOOTHED = LABELS * 0.9 + 0.1 / 3


class Mixing(nn.Module):
    """A layer whose rolls the other author writes around it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.roll(1, 1).tanh().roll(-1, 1)


class Block(nn.Module):
    def __init__(
        self, back: int = -1, act: Callable[[torch.Tensor], torch.Tensor] = torch.tanh
    ) -> None:
        super().__init__()
        self.norm, self.rest = nn.LayerNorm(6), nn.Linear(6, 6)
        self.act = act
        self.back = back
        self.mixing = Mixing()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.rest(self.mixing(self.norm(x)))
        return x + made


class FlatBlock(Block):
    """Without a module around what rolls."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned = self.norm(x).roll(1, 1)
        made: torch.Tensor = self.rest(self.act(turned).roll(self.back, 1))
        return x + made


def recorded(blocks: list[Block], loss: Callable[[Any], Any], name: str, folder: Path) -> Path:
    model = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(30, 4))
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=random))
    with padiff.record(model, name=name, out=folder) as recorder:
        loss(model(torch.randn(3, 5, 6, generator=random))).backward()
    return recorder.path


@pytest.mark.parametrize(("back", "act"), [(-1, torch.tanh), (1, torch.tanh), (1, torch.sin)])
def test_a_fault_ahead_of_such_a_loss_is_told_and_the_loss_is_not(
    tmp_path: Path, back: int, act: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    known = recorded(
        [Block(), Block(), Block()],
        lambda made: (made - (LABELS * 0.9 + 0.1 / 3)).square().mean(),
        "known",
        tmp_path,
    )
    found = recorded(
        [FlatBlock(back), FlatBlock(back, act), FlatBlock(back)],
        lambda made: (made - SMOOTHED).square().mean(),
        "found",
        tmp_path,
    )

    result = padiff.compare(known, found)

    words = [line for one in result.origins for line in evidence_of(one)]
    if back == -1:
        assert result, result.report()
    else:
        assert len(result.origins) == (1 if act is torch.tanh else 2)
        assert "shifts of roll: 1 where the reference has -1" in words[0]
        assert not any("sub" in line or "mean" in line for line in words)


def test_weights_of_another_model_that_are_rounded_are_no_fault_beside_one(tmp_path: Path) -> None:
    """A target network that follows by hand ends with other last bits in another framework."""
    random = torch.Generator().manual_seed(1)
    x, done = torch.randn(3, 5, generator=random), torch.tensor([[1.0], [0.0], [0.0]])
    first, last = (torch.randn(*shape, generator=random) for shape in ((5, 8), (8, 4)))
    near = first * (1 + 2e-7)

    known = recorded(
        [Block()],
        lambda made: (made - 0.9 * (1 - done) * ((x @ first).relu() @ last)).square().mean(),
        "known",
        tmp_path,
    )
    found = recorded(
        [Block()],
        lambda made: (made - 0.9 * ((x @ near).relu() @ last)).square().mean(),
        "found",
        tmp_path,
    )

    result = padiff.compare(known, found)

    told = [line for one in result.origins for line in evidence_of(one) if "proved" in line]
    assert told
    assert not any("matmul" in line for line in told)
