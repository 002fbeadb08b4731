"""What is told of a layer that a port forgot to call, of tied weights, and of causal scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

import padiff
from padiff.dumpfile import Phase
from tests.support.located import compare_numbers

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.result import Comparison


class Stack(nn.Module):
    def __init__(self, *, skipped: int | None = None, is_tied: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(30, 8)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3)])
        self.head = nn.Linear(8, 30, bias=False)
        weight = self.embed.weight
        self.head.weight = weight if is_tied else nn.Parameter(weight.detach().clone())
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
    return compare_numbers(*paths)


def test_layer_that_is_not_called_is_no_origin_of_its_own_gradients(tmp_path: Path) -> None:
    found = compared(tmp_path, Stack(), Stack(skipped=1))

    assert found.origins[0].phase is Phase.FORWARD
    assert not [one for one in found.origins if one.phase is Phase.BACKWARD]


def test_rows_of_a_weight_are_no_batch(tmp_path: Path) -> None:
    found = compared(tmp_path, Stack(), Stack(is_tied=False))

    told = [line for origin in found.origins for line in origin.evidence]
    assert any("only in weight row " in line for line in told)
    assert not any("batch" in line for line in told)


class Causal(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out = nn.Linear(8, 8), nn.Linear(8, 8)
        self.scales = {scale}

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.into(nn.functional.one_hot(ids, 8).float())
        (scale,) = self.scales
        scores = torch.tanh(x @ x.transpose(1, 2) * scale)
        hidden = torch.ones(scores.shape[1:], dtype=torch.bool).triu(1)
        out: torch.Tensor = self.out(scores.masked_fill(hidden, -torch.inf).softmax(-1) @ x)
        return out


def test_first_token_left_alone_may_be_the_scores(tmp_path: Path) -> None:
    found = compared(tmp_path, Causal(1.0), Causal(0.5))

    (line, *_) = found.origins[0].evidence
    assert line.endswith("anything in the scores of a causal attention")
