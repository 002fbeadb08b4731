"""What is told of a layer that a port forgot to call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

import padiff
from padiff.dumpfile import Phase
from tests.support.located import compare_dumps

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.result import Comparison


class Stack(nn.Module):
    def __init__(self, *, skipped: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(30, 8)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3)])
        self.head = nn.Linear(8, 30, bias=False)
        self.head.weight = self.embed.weight
        self.skipped = {skipped}  # a set: the recorder takes it for no attribute

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for number, layer in enumerate(self.layers):
            x = x if number in self.skipped else x + layer(x)
        out: torch.Tensor = self.head(x)
        return out


def compared(folder: Path, *models: nn.Module) -> Comparison:
    paths = []
    for number, model in enumerate(models):
        with padiff.record(model, name=str(number), out=folder) as recorder:
            model(torch.tensor([[1, 4, 2], [7, 1, 3]])).square().mean().backward()
        paths.append(recorder.path)
    return compare_dumps(*paths)


def test_layer_that_is_not_called_is_no_origin_of_its_own_gradients(tmp_path: Path) -> None:
    found = compared(tmp_path, Stack(), Stack(skipped=1))

    assert found.origins[0].phase is Phase.FORWARD
    assert not [one for one in found.origins if one.phase is Phase.BACKWARD]
