"""A function with a backward pass of its own is right where the other side has its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff
from benchmarks.score.nets import net
from padiff.comparer.result import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))


class _Rounded(torch.autograd.Function):
    """Rounds; hands its gradient on times a factor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:  # noqa: ANN401
        ctx.factor = factor
        return torch.round(x * 8) / 8

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:  # noqa: ANN401
        return grads[0] * ctx.factor, None


def _by_function(factor: float) -> Callable[[torch.Tensor], Any]:
    return lambda x: _Rounded.apply(x, factor)  # type: ignore[no-untyped-call]


def _by_detaching(x: torch.Tensor) -> torch.Tensor:
    return x + (torch.round(x * 8) / 8 - x).detach()


def _beside(x: torch.Tensor) -> Any:  # noqa: ANN401 - untyped
    """Round a small part by a function whose gradient is doubled."""
    return _by_detaching(x) + 1e-5 * (_by_function(2.0)(x) - _by_function(1.0)(x))


def _small(rounded: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], Any]:
    """Hand on what is given, and a vanishing gradient of what is rounded."""
    return lambda x: x.detach() + 1e-9 * rounded(x)


def _rounding(rounded: Callable[[torch.Tensor], Any], *, is_bare: bool = False) -> nn.Module:
    def forward(self: Any, x: torch.Tensor) -> Any:  # noqa: ANN401 - untyped
        first, last = self.first, self.last
        weight = rounded(first.weight)
        inner = x @ weight.T + first.bias if is_bare else functional.linear(x, weight, first.bias)
        return last(rounded(torch.relu(inner)))

    return net(forward, first=lambda: nn.Linear(6, 8), last=lambda: nn.Linear(8, 3))


def _verdict(folder: Path, *models: nn.Module) -> Verdict:
    paths = []
    for name, model in zip(("reference", "candidate"), models, strict=True):
        with padiff.record(model, name=name, out=folder) as recorder:
            model(X).square().mean().backward()
        paths.append(recorder.path)
    reference, candidate = paths
    return padiff.compare(reference, candidate).verdict


RIGHT = {
    "in the candidate": (_by_detaching, _by_function(1.0)),
    "in the reference": (_by_function(1.0), _by_detaching),
    "in both": (_by_function(1.0), _by_function(1.0)),
}


@pytest.mark.parametrize("where", RIGHT)
def test_a_rounding_that_hands_gradients_on_matches(where: str, tmp_path: Path) -> None:
    known, found = RIGHT[where]

    verdict = _verdict(tmp_path, _rounding(known), _rounding(found, is_bare=True))

    assert verdict is Verdict.MATCH


WRONG = {
    "scaled": (_by_detaching, _by_function(1.001)),
    "scaled, in both forms": (_by_function(1.0), _by_function(1.001)),
    "cut": (_by_function(1.0), _by_function(0.0)),
    "cut where it is small": (_small(_by_function(1.0)), _small(_by_function(0.0))),
    "doubled in a small part": (_by_detaching, _beside),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_gradient_that_the_other_side_has_not_diverges(fault: str, tmp_path: Path) -> None:
    known, found = WRONG[fault]

    assert _verdict(tmp_path, _rounding(known), _rounding(found)) is Verdict.DIVERGED


class _Reversed(torch.autograd.Function):
    """Hands on what it is given, and its gradient turned round and scaled."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:  # noqa: ANN401
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:  # noqa: ANN401
        return -ctx.factor * grads[0], None


def _reversing(factor: float) -> Callable[[torch.Tensor], Any]:
    return lambda x: _Reversed.apply(x, factor)  # type: ignore[no-untyped-call]


def _adversarial(reverse: Callable[[torch.Tensor], Any]) -> nn.Module:
    """Two heads on the same features, one of them behind a reversal of gradients."""

    def forward(self: Any, x: torch.Tensor) -> Any:  # noqa: ANN401 - untyped
        features = self.features(x)
        return torch.cat([self.classes(features), self.domains(reverse(features))], -1)

    def head() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))

    return net(forward, features=lambda: nn.Linear(6, 8), classes=head, domains=head)


REVERSALS = {
    "scaled": (_reversing(1.0), _reversing(0.5)),
    "left out": (_reversing(1.0), lambda x: x),
    "too much": (lambda x: x, _reversing(1.0)),
    "scaled, written out": (
        lambda x: 2.0 * x.detach() - x,
        lambda x: 1.5 * x.detach() - 0.5 * x,
    ),
}


@pytest.mark.parametrize("fault", REVERSALS)
def test_a_wrong_reversal_is_not_blamed_on_a_head_beside_it(fault: str, tmp_path: Path) -> None:
    for name, reverse in zip(("reference", "candidate"), REVERSALS[fault], strict=True):
        model = _adversarial(reverse)
        with padiff.record(model, name=name, out=tmp_path):
            model(X).square().mean().backward()

    result = padiff.compare(tmp_path / "reference", tmp_path / "candidate")

    first = result.origins[0].pair
    assert result.verdict is Verdict.DIVERGED
    assert (first.reference or first.end).address.module == ""
