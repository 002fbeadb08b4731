"""Gradients behind a choice between equal elements go back to those that were chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from padiff.comparer.auditing import Check, Soundness
from tests.frameworks.test_audit import audited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

EXPERTS, CHOSEN = 24, 3

CHOICES: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]] = {
    "topk": lambda logits: _firsts(torch.topk(logits, EXPERTS)),
    "few": lambda logits: _firsts(torch.topk(logits, CHOSEN)),
    "sort": lambda logits: _firsts(torch.sort(logits, descending=True)),
}


def _firsts(sorted_: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return sorted_[0][:, :CHOSEN], sorted_[1][:, :CHOSEN]


class _Router(nn.Module):
    """Chooses experts of which many get the same logits."""

    def __init__(self, choice: str, wrong: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate, self.experts = nn.Linear(8, EXPERTS), nn.Embedding(EXPERTS, 8)
        with torch.no_grad():
            self.gate.weight[:] = self.gate.weight[:4].repeat(EXPERTS // 4, 1)
            self.gate.bias[:] = self.gate.bias[:4].repeat(EXPERTS // 4)
        self.choice, self.wrong = choice, wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.gate(x)
        if self.wrong != 1:
            logits.register_hook(lambda gradient: gradient * self.wrong)
        found, places = CHOICES[self.choice](logits)
        weights = torch.softmax(found, -1)
        mixed: torch.Tensor = (self.experts(places) * weights[..., None]).sum(1)
        return mixed + x


def _inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {"x": torch.randn(6, 8)}


@pytest.mark.parametrize("choice", CHOICES)
def test_the_recorded_choice_is_followed(choice: str, tmp_path: Path) -> None:
    found = audited(_Router(choice), tmp_path, _inputs())

    assert found.unsound == ()
    assert found.count(Check.GRADIENT, Soundness.NOT_AUDITED) == 0
    assert found.count(Check.GRADIENT, Soundness.SOUND) >= 4


@pytest.mark.parametrize("choice", CHOICES)
def test_a_wrong_gradient_in_front_of_it_is_found(choice: str, tmp_path: Path) -> None:
    found = audited(_Router(choice, wrong=1.01), tmp_path, _inputs())

    assert [one.module for one in found.unsound][:1] == ["gate"]


class _Unordered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate = nn.Linear(8, EXPERTS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.gate(x)
        found, places = torch.topk(logits, 6, sorted=False)
        made: torch.Tensor = logits.gather(-1, places.flip(-1)) * found
        return made


def test_an_order_that_was_not_asked_for_is_no_fault(tmp_path: Path) -> None:
    found = audited(_Unordered(), tmp_path, _inputs())

    assert found.unsound == ()
