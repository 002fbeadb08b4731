"""Gradients that a step adds up over small batches, and a loss that a script adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Loss = Callable[[torch.Tensor], torch.Tensor]

_BATCHES = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(1))


def _mean(errors: torch.Tensor) -> torch.Tensor:
    return errors.sum(1).mean() / 2


def _sum(errors: torch.Tensor) -> torch.Tensor:
    return errors.sum() / 8


def _recorded(folder: Path, name: str, loss: Loss, *, counted: float = 1.0) -> Path:
    """Record a step over two batches.

    Args:
        folder: Where the dump goes.
        name: Of the dump.
        loss: Of the squared errors of a batch.
        counted: What the losses are multiplied by where they are added up.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with padiff.record(model, name=name, out=folder, optimizer=optimizer) as recorder:
        total = torch.zeros(())
        for batch in _BATCHES:
            one = loss((model(batch) - 0.3).square())
            one.backward()  # type: ignore[no-untyped-call]
            total = total + counted * one.detach()
        optimizer.step()
        recorder.step(loss=total)
    assert recorder.path is not None
    return recorder.path


def test_a_loss_that_a_script_adds_up_is_judged_as_a_number(tmp_path: Path) -> None:
    reference = _recorded(tmp_path, "reference", _mean)

    result = padiff.compare(reference, _recorded(tmp_path, "candidate", _sum))

    (step,) = result.steps
    assert result.verdict is Verdict.MATCH
    assert step.executed is not None
    assert step.executed.function.answer.value == "same"


@pytest.mark.parametrize(
    ("loss", "counted"),
    [(lambda errors: errors.sum(1).mean(), 0.5), (_sum, 1.001), (lambda e: e.sum() / 8.001, 1.0)],
    ids=["not divided", "added up otherwise", "divided by another number"],
)
def test_a_step_over_other_batches_diverges(loss: Loss, counted: float, tmp_path: Path) -> None:
    reference = _recorded(tmp_path, "reference", _mean)

    result = padiff.compare(reference, _recorded(tmp_path, "wrong", loss, counted=counted))

    assert result.verdict is Verdict.DIVERGED
