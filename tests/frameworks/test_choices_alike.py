"""Ties that both programs decide alike excuse nothing that is wrong behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict
from padiff.comparer.proving import Answer, EditKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHOICES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bucketize": lambda grid: torch.bucketize(grid, torch.arange(0.25, 1, 0.25), right=True),
    "greater": lambda grid: (grid >= 0.25).long(),
    "floor": lambda grid: torch.floor(grid * 4).long(),
    "topk": lambda grid: torch.topk(torch.minimum(grid, grid.flip(0)), 4).indices,
    "argmax": lambda grid: (grid[:, None] * torch.ones(4)).argmax(-1),
    "sort": lambda grid: torch.sort(torch.minimum(grid, grid.flip(0)), stable=True).indices,
}


class _Net(nn.Module):
    """Positions come from a choice between numbers that are equal."""

    def __init__(self, choice: str, scale: float, *, turned: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.choice, self.scale, self.turned = choice, scale, turned
        self.positions, self.first, self.second = (
            nn.Embedding(8, 16),
            nn.Linear(16, 16),
            nn.Linear(16, 16),
        )

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        grid = places / 4
        x = self.positions(CHOICES[self.choice](grid)).mean(0)
        hidden = self.first(x).tanh()
        hidden = self.scale * hidden if self.turned else hidden * self.scale
        made: torch.Tensor = x + self.second(hidden)
        return made


def _recorded(folder: Path, name: str, net: _Net) -> Path:
    with padiff.record(net, name=name, out=folder) as recorder:
        net(torch.arange(4.0))
    return recorder.path


@pytest.mark.parametrize("choice", CHOICES)
def test_a_fault_behind_a_tie_is_found_and_proved(choice: str, tmp_path: Path) -> None:
    reference = _recorded(tmp_path, "reference", _Net(choice, 0.5))
    candidate = _recorded(tmp_path, "candidate", _Net(choice, 0.5001))

    found = padiff.compare(reference, candidate)

    executed = found.steps[0].executed
    assert executed is not None
    assert found.verdict is Verdict.DIVERGED
    assert executed.function.answer is Answer.DIFFERENT
    (edit,) = executed.function.edits
    assert edit.kind is EditKind.ARGUMENT
    assert {change.known for change in edit.changes} == {0.5}


@pytest.mark.parametrize("choice", CHOICES)
def test_another_form_behind_a_tie_matches(choice: str, tmp_path: Path) -> None:
    reference = _recorded(tmp_path, "reference", _Net(choice, 0.5))
    candidate = _recorded(tmp_path, "candidate", _Net(choice, 0.5, turned=True))

    found = padiff.compare(reference, candidate)

    assert found.verdict is Verdict.MATCH
    assert found.steps[0].executed is not None
    assert found.steps[0].executed.answer is Answer.SAME
