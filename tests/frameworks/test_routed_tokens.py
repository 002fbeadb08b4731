"""Experts that get as many tokens as a router sends them: other values send other numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff

if TYPE_CHECKING:
    from pathlib import Path

TOKENS, WIDTH, EXPERTS = 24, 6, 3
_EXTRA = 2
"""Draws that one side makes before, so that its dropout keeps other elements."""


class _Routed(nn.Module):
    """Sends each token to one expert, behind a norm and a dropout."""

    def __init__(self, *, share: float, eps: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm = nn.LayerNorm(WIDTH, eps=eps)
        nn.init.normal_(self.norm.bias)
        self.dropout = nn.Dropout(share)
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.norm(self.first(x)))
        shares, places = torch.max(functional.softmax(self.router(x), -1), -1)
        found = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = self.rows(places, number)
            made = torch.relu(expert(x[rows])) * shares[rows].reshape(-1, 1)
            found = self.gather(found, rows, made)
        return found

    def rows(self, places: torch.Tensor, number: int) -> torch.Tensor:
        return torch.where(places == number)[0]

    def gather(self, found: torch.Tensor, rows: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        return found.index_add(0, rows, made)


class _Other(_Routed):
    """The same, as another author writes it."""

    def rows(self, places: torch.Tensor, number: int) -> torch.Tensor:
        return (places == number).nonzero().flatten()

    def gather(self, found: torch.Tensor, rows: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = torch.zeros_like(found).index_copy(0, rows, made)
        return found + added


def _record(net: nn.Module, folder: Path, draws: int = 0) -> Path:
    torch.manual_seed(2)
    x = torch.randn(TOKENS, WIDTH)
    torch.rand(draws)
    with padiff.record(net, name="net", out=folder) as recorder:
        net(x).square().sum().backward()
    assert recorder.path is not None
    return recorder.path


def _counts(net: _Routed, draws: int = 0) -> list[int]:
    """Count the tokens of each expert."""
    torch.manual_seed(2)
    x = torch.randn(TOKENS, WIDTH)
    torch.rand(draws)
    found = net.dropout(net.norm(net.first(x)))
    return torch.bincount(net.router(found).argmax(-1), minlength=EXPERTS).tolist()


def test_other_draws_that_send_other_numbers_of_tokens_are_no_fault(tmp_path: Path) -> None:
    known, found = _Routed(share=0.5, eps=1e-5), _Other(share=0.5, eps=1e-5)
    assert _counts(known) != _counts(found, _EXTRA)

    result = padiff.compare(
        _record(known, tmp_path / "known"), _record(found, tmp_path / "found", _EXTRA)
    )

    assert result, result.report()


@pytest.mark.parametrize("other", [_Routed, _Other])
def test_a_fault_that_sends_other_numbers_of_tokens_is_proved(
    other: type[_Routed], tmp_path: Path
) -> None:
    known, found = _Routed(share=0.0, eps=1e-5), other(share=0.0, eps=0.5)
    assert _counts(known) != _counts(found)

    result = padiff.compare(_record(known, tmp_path / "known"), _record(found, tmp_path / "found"))

    assert result.first is not None
    assert (result.first.module, result.first.cause.split(";")[0]) == (
        "norm",
        "proved: eps of layer_norm: 0.5 where the reference has 1e-05",
    )
