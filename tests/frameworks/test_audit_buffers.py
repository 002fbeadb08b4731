"""Buffers that a model fills part by part: what nobody wrote is not blamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from tests.frameworks.test_audit import audited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nan_in_new_memory() -> Iterator[None]:
    """Let torch fill memory that nobody wrote with nan: else it is zero as often as not."""
    torch.use_deterministic_algorithms(mode=True)
    yield
    torch.use_deterministic_algorithms(mode=False)


class _Filled(nn.Module):
    """Puts two halves into one buffer, as attention with a part of its keys rotated does."""

    def __init__(self, *, wrong: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(16, 4), nn.Linear(16, 4)
        self.act, self.out, self.norm = nn.Identity(), nn.Linear(8, 8), nn.LayerNorm(4)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second = self.one(x), self.two(x)
        buffer = first.new_empty(len(x), 8)
        buffer[..., :4] = self.norm(first)
        self.act(buffer)
        buffer[..., 4:] = second * 3
        whole = self.act(buffer)
        if self.wrong != 1:
            second.register_hook(lambda gradient: gradient * self.wrong)
        made: torch.Tensor = self.out(whole.tanh())
        return made


def test_a_buffer_filled_in_parts_is_sound(tmp_path: Path) -> None:
    found = audited(_Filled(), tmp_path)

    assert found.unsound == ()
    gradients = {one.operator for one in found.values if one.check.value == "gradient"}
    assert {"one.weight", "two.weight", "norm.weight"} <= gradients


def test_a_wrong_gradient_behind_such_a_buffer_is_found(tmp_path: Path) -> None:
    found = audited(_Filled(wrong=1.001), tmp_path)

    assert {one.module for one in found.unsound} == {"two"}
