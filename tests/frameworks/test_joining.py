"""Two forms of a model are proved the same piece by piece, between module outputs that agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict
from padiff.comparer.proving import Answer, Unknown, executed
from padiff.program import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.proving import FunctionComparison

WIDTH = 64
PIECE = 10_000
"""Multiplications and additions of one attention of the model; a linear layer has 50 000."""
X = np.random.default_rng(0).standard_normal((2, 6, WIDTH)).astype(np.float32)


class Attention(nn.Module):
    """Attention as a module, in one of two forms; what is added to its scores may be wrong."""

    def __init__(self, *, is_split: bool, shift: float = 0.0) -> None:
        super().__init__()
        self.is_split, self.shift = is_split, shift

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = x @ x.mT / 8
        if self.is_split:
            powers = torch.exp(scores - scores.amax(-1, keepdim=True))
            return (powers + self.shift) @ x / (powers + self.shift).sum(-1, keepdim=True)
        return torch.softmax(scores, -1) @ x


def model(*, is_split: bool, shift: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    layers = [
        layer
        for _ in range(3)
        for layer in (nn.Linear(WIDTH, WIDTH), Attention(is_split=is_split, shift=shift))
    ]
    return nn.Sequential(*layers, nn.Linear(WIDTH, WIDTH))


def compared(
    folder: Path, reference: nn.Module, candidate: nn.Module, content: str = "full"
) -> tuple[Verdict, FunctionComparison]:
    for name, one in (("reference", reference), ("candidate", candidate)):
        with padiff.record(one, name=name, out=folder, content=content):
            one(torch.from_numpy(X)).square().mean().backward()
    comparison = padiff.compare(folder / "reference", folder / "candidate")
    (step,) = comparison.steps
    assert step.executed is not None
    return comparison.verdict, step.executed.function


@pytest.fixture
def _only_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no more be executed than a piece needs."""
    monkeypatch.setattr(executed, "COUNTING", Limits(work=2 * PIECE, counts_anew=True))


@pytest.mark.usefixtures("_only_pieces")
def test_what_is_too_large_to_be_executed_whole_is_proved_in_pieces(tmp_path: Path) -> None:
    verdict, found = compared(tmp_path, model(is_split=False), model(is_split=True))

    assert verdict is Verdict.MATCH
    assert found.answer is Answer.SAME
    assert (found.constructed, found.executed) == (0, 2)
    assert found.largest is not None
    assert found.largest < 1e-12


@pytest.mark.usefixtures("_only_pieces")
def test_without_recorded_elements_there_are_no_pieces(tmp_path: Path) -> None:
    _, found = compared(tmp_path, model(is_split=False), model(is_split=True), content="program")

    assert found.answer is Answer.UNKNOWN
    assert found.unknown is Unknown.FAILED


def test_a_piece_that_differs_is_no_piece(tmp_path: Path) -> None:
    verdict, found = compared(tmp_path, model(is_split=False), model(is_split=True, shift=1e-4))

    assert verdict is Verdict.DIVERGED
    assert found.answer is Answer.DIFFERENT


class Scaled(nn.Module):
    """Multiplies by a weight of one, or does not."""

    def __init__(self, *, is_scaled: bool) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.is_scaled = is_scaled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self.scale) if self.is_scaled else torch.tanh(x + 0 * self.scale)


def test_a_piece_that_agrees_by_chance_is_refuted(tmp_path: Path) -> None:
    reference, candidate = (
        nn.Sequential(nn.Linear(WIDTH, WIDTH), Scaled(is_scaled=which), nn.Linear(WIDTH, WIDTH))
        for which in (False, True)
    )
    candidate.load_state_dict(reference.state_dict())

    _, found = compared(tmp_path, reference, candidate)

    assert found.is_coincidence
    assert found.answer is Answer.HIDDEN
