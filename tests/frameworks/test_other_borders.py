"""What differs between modules, though the models compute the same, is rounding or another form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict
from padiff.comparer.decided import OTHERWISE, ROUNDING

if TYPE_CHECKING:
    from pathlib import Path


class _First(nn.Module):
    """Adds a large number and takes it off again, in one of two orders, and scales what is left."""

    def __init__(self, scale: float, *, is_turned: bool) -> None:
        super().__init__()
        self.linear, self.scale, self.is_turned = nn.Linear(3, 4), scale, is_turned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        x = x * 7 + 1e3 * x - 1e3 * x if self.is_turned else x * 7
        found: torch.Tensor = x * self.scale
        return found


class _Second(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(4, 2), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.linear(x / self.scale)
        return found


class _Net(nn.Module):
    def __init__(self, scale: float, *, is_turned: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = _First(scale, is_turned=is_turned), _Second(scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.second(self.first(x))
        return found


def _recorded(folder: Path, name: str, model: nn.Module) -> Path:
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    with padiff.record(model, name=name, out=folder):
        model(x).square().mean().backward()
    return folder / name


def _reasons(result: padiff.Comparison) -> dict[str, tuple[Verdict, str]]:
    (step,) = result.steps
    pairs = (pair for pair in step.pairs if pair.reason and pair.end.address.module == "first")
    return {pair.end.address.role.value: (pair.verdict, pair.reason) for pair in pairs}


@pytest.mark.parametrize(
    ("scale", "is_turned", "expected"),
    [
        (1.0, True, {"output": (Verdict.MATCH, ROUNDING)}),
        (
            3.0,
            False,
            {
                "output": (Verdict.SKIPPED, OTHERWISE),
                "grad_output": (Verdict.SKIPPED, OTHERWISE),
            },
        ),
    ],
    ids=["rounding", "another form"],
)
def test_what_differs_between_modules_is_told_as_what_it_is(
    scale: float, is_turned: bool, expected: dict[str, tuple[Verdict, str]], tmp_path: Path
) -> None:
    reference = _recorded(tmp_path, "reference", _Net(1.0))
    candidate = _recorded(tmp_path, "candidate", _Net(scale, is_turned=is_turned))

    result = padiff.compare(reference, candidate)

    assert result.verdict is Verdict.MATCH
    assert _reasons(result) == expected
