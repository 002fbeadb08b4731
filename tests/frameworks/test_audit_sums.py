"""Gradients that take each other off in sums of a backward pass are rounding, and not blamed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from padiff.comparer.auditing import Check, Soundness
from tests.frameworks.test_audit import audited

if TYPE_CHECKING:
    from pathlib import Path

FORMS = ["broadcast", "expand", "take", "gather"]
POINTS = 8


class _Directions(nn.Module):
    """Points that move towards all points: the way to oneself is zero over next to nothing."""

    def __init__(self, form: str, *, wrong: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(16, 3), nn.Identity()
        self.form, self.wrong = form, wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        points = self.first(x)
        if self.wrong != 1:
            points.register_hook(lambda gradient: gradient * self.wrong)
        gaps = self.last(self._gaps(points))
        ways = gaps / gaps.norm(dim=-1, keepdim=True).clamp(min=1e-8)
        result: torch.Tensor = points + (ways * torch.arange(float(POINTS)).cos()[:, None]).sum(1)
        return result

    def _gaps(self, points: torch.Tensor) -> torch.Tensor:
        rows, columns = points[:, None], points[None]
        if self.form == "broadcast":
            return rows - columns
        if self.form == "expand":
            return rows.expand(POINTS, POINTS, 3) - columns.expand(POINTS, POINTS, 3)
        ends = torch.meshgrid(torch.arange(POINTS), torch.arange(POINTS), indexing="ij")
        if self.form == "take":
            return points[ends[0]] - points[ends[1]]
        places = [one.reshape(-1, 1).expand(-1, 3) for one in ends]
        gaps = points.gather(0, places[0]) - points.gather(0, places[1])
        return gaps.reshape(POINTS, POINTS, 3)


def _inputs() -> dict[str, torch.Tensor]:
    return {"x": torch.randn(POINTS, 16, generator=torch.Generator().manual_seed(1))}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_left_of_huge_gradients_is_not_blamed(form: str, tmp_path: Path) -> None:
    found = audited(_Directions(form), tmp_path, _inputs())

    assert found.unsound == ()
    assert found.count(Check.GRADIENT, Soundness.NOT_AUDITED) == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_gradient_behind_it_is_found(form: str, tmp_path: Path) -> None:
    found = audited(_Directions(form, wrong=1.01), tmp_path, _inputs())

    assert "first" in {one.module for one in found.unsound}
