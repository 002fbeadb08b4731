"""What is made of models has the members that docs/python.md promises of every result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import padiff
from tests.support.members import ask_every_member

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


class _Net(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.factor = nn.Linear(3, 2), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x) * self.factor
        return y


class _Scaled(_Net):
    """Its gradient is doubled behind the layer, which no operator of its program says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        y.register_hook(lambda grad: grad * 2)  # type: ignore[no-untyped-call]
        return y * self.factor


def _factor(*, is_good: bool) -> float:
    return 1.0 if is_good else 1.5


def differed(_: Path, *, is_good: bool) -> padiff.Comparison:
    return padiff.auto_diff(_Net(), _Net(_factor(is_good=is_good)), inputs=(X, X))


def compared(_: Path, *, is_good: bool) -> padiff.Comparison:
    return padiff.compare_models(_Net(), _Net(_factor(is_good=is_good)), X.numpy())


def recorded(folder: Path, *, is_good: bool) -> Any:  # noqa: ANN401
    model = _Net(1.0 if is_good else float("inf"))
    with padiff.record(model, name="net", out=folder, phase="forward") as recorder:
        model(X)
    return recorder


def audited(folder: Path, *, is_good: bool) -> Any:  # noqa: ANN401
    model = _Net(3.0) if is_good else _Scaled(3.0)
    with padiff.record(model, name="net", out=folder) as recorder:
        model(X).sum().backward()
    assert recorder.path is not None
    return padiff.audit(recorder.path)


def assigned(_: Path, *, is_good: bool) -> padiff.Plan:
    assert is_good
    return padiff.assign_weight(_Net(), _Net())


CASES: list[tuple[Callable[..., Any], bool]] = [
    (differed, True),
    (differed, False),
    (compared, True),
    (compared, False),
    (recorded, True),
    (recorded, False),
    (audited, True),
    (audited, False),
    (assigned, True),
]
"""Results of models; a plan that fits not is an error of ``assign_weight``."""


@pytest.mark.parametrize(
    ("make", "is_good"), CASES, ids=lambda one: getattr(one, "__name__", str(one))
)
def test_every_result_has_every_member(
    make: Callable[..., Any], is_good: bool, tmp_path: Path
) -> None:
    result = make(tmp_path, is_good=is_good)

    assert bool(result) is (is_good or make is recorded)
    ask_every_member(result, tmp_path, is_good=is_good)
