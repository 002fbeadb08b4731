"""``padiff audit`` follows gradients past what a model detaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import padiff
from tests.frameworks import test_audit as nets

if TYPE_CHECKING:
    from pathlib import Path


def _straight_through(x: torch.Tensor) -> torch.Tensor:
    return x + ((x * 4).round() / 4 - x).detach()


def _checkpoint(x: torch.Tensor) -> torch.Tensor:
    """Let a function compute again what it needs, from a detached copy."""
    made: torch.Tensor = checkpoint(torch.tanh, x, use_reentrant=True)
    return made


DETACHING: dict[str, Any] = {
    "a factor": lambda x: x * x.detach().tanh(),
    "straight through": _straight_through,
    "one of two ways": lambda x: x.tanh() + (x * x.detach()).sin().detach() * x,
    "checkpoint": _checkpoint,
}


@pytest.mark.parametrize("content", ["full", "operators"])
@pytest.mark.parametrize("name", DETACHING)
def test_what_is_detached_is_not_blamed(name: str, content: str, tmp_path: Path) -> None:
    found = nets.audited(nets._Net(DETACHING[name]), tmp_path, content=content)

    assert found.unsound == ()


@pytest.mark.parametrize("content", ["full", "operators"])
@pytest.mark.parametrize("name", sorted(DETACHING.keys() - {"checkpoint"}))
def test_a_wrong_gradient_beside_what_is_detached_is_found(
    name: str, content: str, tmp_path: Path
) -> None:
    def between(x: torch.Tensor) -> Any:  # noqa: ANN401 - untyped table
        return DETACHING[name](nets._scaled(1.01)(x))

    found = nets.audited(nets._Net(between), tmp_path, content=content)

    assert found.unsound[0].module == "norm"


def test_a_gradient_lost_on_one_of_two_ways_is_found(tmp_path: Path) -> None:
    """The forward pass is ``x``; its gradient is that of ``x * factors``."""

    def between(x: torch.Tensor) -> torch.Tensor:
        return nets._scaled(0.0)(x) / 1.5 + (x - x.detach()) * torch.arange(24.0).cos()

    found = nets.audited(nets._Net(between), tmp_path)

    assert found.unsound[0].module == "norm"


def test_a_gradient_that_a_script_hands_on_is_not_blamed(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        made = model[0](torch.randn(5, 16))
        taken = made.detach().requires_grad_()
        model[1](taken).square().mean().backward()
        torch.autograd.backward([made.sum(), made], [None, taken.grad])

    found = padiff.audit(recorder.path)["step 0"]

    assert found.unsound == ()


def test_a_copy_by_set_value_hands_no_gradient_back(tmp_path: Path) -> None:
    paddle.seed(0)
    model, copied = paddle.nn.Linear(6, 4), paddle.nn.Linear(6, 4)
    given = paddle.randn([5, 6])
    with padiff.record(model, name="model", out=tmp_path) as recorder:
        made = model(given)
        copied.set_state_dict(model.state_dict())
        (made - copied(given) * 0.9).square().mean().backward()

    found = padiff.audit(recorder.path)["step 0"]

    assert found.unsound == ()
