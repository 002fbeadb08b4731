"""One tower for two inputs, called in another order, or a tower of its own for each."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare

if TYPE_CHECKING:
    from pathlib import Path


class Shared(nn.Module):
    """Call one tower for the first half of the input, then for the second."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.tower(x[:, :8]), self.tower(x[:, 8:])
        made: torch.Tensor = self.head(torch.cat([first, second], 1))
        return made


class Turned(nn.Module):
    """Begin with the second half, with as many towers as are given."""

    def __init__(self, other: Shared, count: int) -> None:
        super().__init__()
        self.nets = nn.ModuleList(copy.deepcopy(other.tower) for _ in range(count))
        self.out = copy.deepcopy(other.head)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        second, first = self.nets[0](x[:, 8:]), self.nets[-1](x[:, :8])
        made: torch.Tensor = self.out(torch.cat([first, second], 1))
        return made


def compared(models: tuple[nn.Module, nn.Module], folder: Path) -> Comparison:
    data = torch.randn(5, 16, generator=torch.Generator().manual_seed(1))
    for model, name in zip(models, ("reference", "candidate"), strict=True):
        with record(model, name=name, out=folder):
            model(data).square().sum().backward()
    return compare(folder / "reference", folder / "candidate", CompareSettings(atol=1e-5))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("is_forward", [True, False])
def test_calls_are_told_by_what_they_give(tmp_path: Path, count: int, *, is_forward: bool) -> None:
    torch.manual_seed(0)
    shared = Shared()
    models = shared, Turned(shared, count)

    result = compared(models if is_forward else models[::-1], tmp_path)

    assert result.verdict is Verdict.MATCH, result.reasons


def test_a_copy_that_holds_something_else_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    shared = Shared()
    wrong = Turned(shared, 2)
    with torch.no_grad():
        dict(wrong.named_parameters())["nets.1.0.weight"][0, 0] += 1.0

    result = compared((shared, wrong), tmp_path)

    places = [origin.pair.candidate for origin in result.origins]
    assert result.verdict is Verdict.DIVERGED
    assert "nets.1.0" in {place.address.module for place in places if place is not None}
