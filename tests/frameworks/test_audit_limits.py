"""A limit far below the elements has a gradient on one side of it, however near the other is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer.auditing import Soundness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FORMS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "clamp": lambda x, least: x.clamp(min=least).sqrt(),
    "maximum": lambda x, least: torch.maximum(x, torch.tensor(least)).sqrt(),
    "where": lambda x, least: torch.where(x > least, x, torch.full_like(x, least)).log(),
}
"""Functions that are steep where their limit is not reached."""


class _Limited(nn.Module):
    def __init__(self, form: str, least: float, factor: float) -> None:
        super().__init__()
        self.form, self.least, self.factor = form, least, factor

    def forward(self, squares: torch.Tensor) -> torch.Tensor:
        if self.factor != 1.0 and squares.requires_grad:
            squares.register_hook(self._scaled)  # type: ignore[no-untyped-call]
        return _FORMS[self.form](squares, self.least)

    def _scaled(self, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * self.factor


class _Distances(nn.Module):
    """Distances of all points from each other; those from themselves are zero."""

    def __init__(self, form: str, least: float, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out = nn.Linear(3, 3), nn.Linear(5, 2)
        self.root = _Limited(form, least, factor)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.into(x)
        squares = (x[:, :, None] - x[:, None]).square().sum(-1)
        found: torch.Tensor = self.out(self.root(squares))
        return found


def _audited(folder: Path, model: nn.Module) -> padiff.Audit:
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
    with padiff.record(model, name="m", out=folder):
        model(x).square().mean().backward()
    return padiff.audit(folder / "m")


@pytest.mark.parametrize("form", _FORMS)
@pytest.mark.parametrize("least", [1e-6, 1e-12, 1e-20])
def test_a_limit_near_zero_is_not_blamed(form: str, least: float, tmp_path: Path) -> None:
    audit = _audited(tmp_path, _Distances(form, least))

    assert audit.soundness is Soundness.SOUND
    assert not audit.unsound


def test_a_gradient_that_is_scaled_in_front_of_it_is_found(tmp_path: Path) -> None:
    (fault,) = _audited(tmp_path, _Distances("clamp", 1e-12, 1.01)).unsound

    assert fault.factor == pytest.approx(1.01, rel=1e-3)
