"""A layer that one author calls once, before a loop, and another anew in each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import nn

from padiff import record
from padiff.comparer import CompareSettings, Comparison, Verdict, compare

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, STEPS = 6, 3
MEMORY = torch.tensor(np.random.default_rng(3).standard_normal((2, 5, WIDTH)), dtype=torch.float32)


class _Decoder(nn.Module):
    """Look at a memory in each step, as additive attention does."""

    def __init__(self, *, is_hoisted: bool, lost: int | None = None) -> None:
        super().__init__()
        self.memory, self.state = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.is_hoisted, self.lost = is_hoisted, lost

    def forward(self, memory: torch.Tensor) -> torch.Tensor:
        keys = self.memory(memory) if self.is_hoisted else None
        state = memory[:, 0]
        for step in range(STEPS):
            known = self.memory(memory) if keys is None else keys
            known = known.detach() if step == self.lost else known
            weights = torch.tanh(known + self.state(state)[:, None]).sum(-1).softmax(-1)
            state = (weights[..., None] * memory).sum(1)
        return state


def compared(tmp_path: Path, *, turned: bool, lost: int | None = None) -> Comparison:
    torch.manual_seed(1)
    once, anew = _Decoder(is_hoisted=True), _Decoder(is_hoisted=False, lost=lost)
    anew.load_state_dict(once.state_dict())
    models = (anew, once) if turned else (once, anew)
    for name, model in zip(("reference", "candidate"), models, strict=True):
        with record(model, name=name, out=tmp_path):
            (model(MEMORY.clone().requires_grad_()) ** 2).sum().backward()
    return compare(tmp_path / "reference", tmp_path / "candidate", CompareSettings())


@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_all_calls_add_up_to_that_of_one(tmp_path: Path, *, turned: bool) -> None:
    result = compared(tmp_path, turned=turned)

    assert result.verdict is Verdict.MATCH, result.reasons


def test_a_gradient_that_is_lost_in_one_step_stays_a_divergence(tmp_path: Path) -> None:
    assert compared(tmp_path, turned=False, lost=1).verdict is Verdict.DIVERGED
