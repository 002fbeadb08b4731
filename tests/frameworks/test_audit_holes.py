"""Gradients before a value from nowhere are audited, unless they may come through it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

from padiff.comparer.auditing import Check, Soundness
from tests.frameworks.test_audit import audited

if TYPE_CHECKING:
    from pathlib import Path

Thing = Any


class _Doubled(torch.autograd.Function):
    """Twice a tensor, as an extension makes it that reads memory, and an operator behind it."""

    @staticmethod
    def forward(ctx: Thing, x: torch.Tensor) -> torch.Tensor:
        memory = (ctypes.c_float * x.numel()).from_address(x.data_ptr())
        return torch.from_numpy(np.array(memory).reshape(x.shape) * 4) / 2.0

    @staticmethod
    def backward(ctx: Thing, *gradients: Thing) -> Thing:
        return gradients[0] * 2.0


class _Net(nn.Module):
    """Adds a table that no operator of the step made, or goes through an extension."""

    def __init__(self, form: str, *, wrong: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(16, 8), nn.Linear(8, 4)
        self.table = torch.from_numpy(torch.randn(5, 8).numpy())
        self.form, self.wrong = form, wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.first(x)
        if self.wrong != 1:
            found.register_hook(lambda gradient: gradient * self.wrong)
        found = found.tanh()
        if self.form == "table":
            found = found + self.table
        elif self.form == "extension":
            found = found + _Doubled.apply(found)  # type: ignore[no-untyped-call]
        else:
            places = torch.from_numpy(torch.arange(4, -1, -1).numpy())
            found = found[places] * self.table
        made: torch.Tensor = self.last(found)
        return made


@pytest.mark.parametrize("form", ["table", "places", "extension"])
def test_right_gradients_before_a_hole_are_not_blamed(form: str, tmp_path: Path) -> None:
    found = audited(_Net(form), tmp_path, content="operators")

    assert found.unsound == ()


@pytest.mark.parametrize("form", ["table", "places"])
def test_a_wrong_gradient_before_a_table_is_found(form: str, tmp_path: Path) -> None:
    found = audited(_Net(form, wrong=1.001), tmp_path, content="operators")

    assert found.count(Check.GRADIENT, Soundness.UNSOUND)
    assert found.unsound[0].module == "first"
