"""A norm with its activation inside against a norm and an activation behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

import padiff
from padiff.dumpfile import open_dump
from padiff.pairing.calls.anchors import token_of
from padiff.pairing.calls.likeness import fit
from padiff.pairing.result import SideName
from padiff.pairing.view import view_of

if TYPE_CHECKING:
    from pathlib import Path

STAGES = ((8, 3), (8, 6), (16, 6))
"""Widths and by how many times a block is wider inside. Two vectors of one norm are as many numbers
as one of another, twice as wide."""
BLOCKS = 3


class BatchNormAct2d(nn.BatchNorm2d):
    """A norm that drops and activates what it gives."""

    def __init__(self, width: int, act: nn.Module) -> None:
        super().__init__(width)
        self.drop, self.act = nn.Identity(), act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.act(self.drop(super().forward(x)))
        return y


class _Block(nn.Module):
    def __init__(self, taken: int, inside: int, made: int) -> None:
        super().__init__()
        self.conv_pw, self.bn1 = nn.Conv2d(taken, inside, 1), BatchNormAct2d(inside, nn.ReLU())
        self.conv_dw = nn.Conv2d(inside, inside, 3, padding=1, groups=inside)
        self.bn2 = BatchNormAct2d(inside, nn.ReLU())
        self.conv_pwl, self.bn3 = nn.Conv2d(inside, made, 1), BatchNormAct2d(made, nn.Identity())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.bn2(self.conv_dw(self.bn1(self.conv_pw(x))))
        y = self.bn3(self.conv_pwl(y))
        return x + y if x.shape == y.shape else y


class _Residual(nn.Module):
    def __init__(self, taken: int, inside: int, made: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(taken, inside, 1), nn.BatchNorm2d(inside), nn.ReLU(),
            nn.Conv2d(inside, inside, 3, padding=1, groups=inside), nn.BatchNorm2d(inside),
            nn.ReLU(), nn.Conv2d(inside, made, 1), nn.BatchNorm2d(made),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if x.shape == y.shape else y


def _net(block: type[nn.Module]) -> nn.Module:
    stages, taken = [], 4
    for width, times in STAGES:
        blocks = []
        for _ in range(BLOCKS):
            blocks.append(block(taken, taken * times, width))
            taken = width
        stages.append(nn.Sequential(*blocks))
    return nn.Sequential(*stages).eval()


def test_norms_are_paired_with_norms_of_their_width(tmp_path: Path) -> None:
    torch.manual_seed(0)
    reference, candidate = _net(_Residual), _net(_Block)
    given = reference.state_dict()
    candidate.load_state_dict(dict(zip(candidate.state_dict(), given.values(), strict=True)))
    x, paths = torch.randn(2, 4, 12, 12), []
    for name, model in (("reference", reference), ("candidate", candidate)):
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(x).mean().backward()
        paths.append(recorder.path)

    found = padiff.compare(paths[0], paths[1])

    assert found, found.report()
    (step,) = found.steps
    assert step.coverage_reference.fraction == step.coverage_candidate.fraction == 1.0


def test_a_norm_with_its_activation_is_no_norm_of_twice_its_width(tmp_path: Path) -> None:
    tokens = []
    for name, model in (("plain", nn.BatchNorm2d(16)), ("both", BatchNormAct2d(8, nn.ReLU()))):
        with padiff.record(model, name=name, out=tmp_path) as recorder:
            model(torch.randn(2, model.num_features, 4, 4))
        with open_dump(recorder.path).open() as side:
            view = view_of(side, SideName.REFERENCE)
            tokens.append(token_of(view, view.top[0]))

    assert fit(tokens[0], tokens[0]) == fit(tokens[1], tokens[1]) == 1
    assert fit(*tokens) == 0
