"""Dumps without elements: whether two programs are one function does not depend on the leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff
from padiff.comparer import Verdict
from padiff.comparer.proving import Answer, Unknown
from padiff.comparer.report.fault_words import worded_edit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.comparer.proving import FunctionComparison

    Step = Callable[[torch.Tensor], torch.Tensor]


class _Net(nn.Module):
    def __init__(self, step: Step, **other: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out, self.step = nn.Linear(8, 16), nn.Linear(16, 8), step
        with torch.no_grad():
            self.into.bias[0] += other.get("bias", 0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.step(self.out(functional.gelu(self.into(x))))
        return made


def compared(folder: Path, reference: nn.Module, candidate: nn.Module) -> padiff.Comparison:
    paths = []
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    for name, model in (("reference", reference), ("candidate", candidate)):
        with padiff.record(
            model, name=name, out=folder, phase="forward", content="stats"
        ) as recorder:
            model(x)
        paths.append(recorder.path)
    return padiff.compare(paths[0], paths[1])


def function_of(result: padiff.Comparison) -> FunctionComparison:
    (step,) = result.steps
    assert step.executed is not None
    return step.executed.function


def test_another_order_of_the_same_elements_is_proved(tmp_path: Path) -> None:
    result = compared(tmp_path, _Net(lambda y: y), _Net(lambda y: y.flip(0)))

    assert result.verdict is Verdict.DIVERGED
    (edit,) = function_of(result).edits
    assert worded_edit(edit) == "too much: flip(0)"
    assert edit.influence is not None
    assert edit.influence.relative_l2 is None  # of elements that nobody recorded


@pytest.mark.parametrize(
    "step", [lambda y: y + y, lambda y: y * 4 - y.sum(-1, keepdim=True) * 0 - 2 * y]
)
def test_another_form_of_the_same_function_matches(step: Step, tmp_path: Path) -> None:
    result = compared(tmp_path, _Net(lambda y: y * 2), _Net(step))

    assert result.verdict is Verdict.MATCH
    assert function_of(result).answer is Answer.SAME


def test_leaves_that_differ_are_not_made_up(tmp_path: Path) -> None:
    result = compared(tmp_path, _Net(lambda y: y), _Net(lambda y: y.flip(0), bias=1e-6))

    assert function_of(result).unknown is Unknown.FAILED
