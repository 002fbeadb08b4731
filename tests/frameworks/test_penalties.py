"""A penalty on gradients, which adds to the gradients of weights and to nothing else recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict
from tests.support.located import compare_dumps

if TYPE_CHECKING:
    from pathlib import Path


def critic(name: str, out: Path, *, times: float, slope: float = 0.2) -> Path:
    """Record a critic's backward pass with a gradient penalty, as in WGAN-GP."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(slope), nn.Linear(8, 5), nn.Linear(5, 1))
    x = torch.randn(7, 6, requires_grad=True)
    with padiff.record(model, name=name, out=out) as recorder:
        made = model(x).sum()
        gradient = torch.autograd.grad(made, x, create_graph=True)[0]
        loss = made + times * ((gradient.norm(dim=1) - 1) ** 2).mean()
        loss.backward()
    assert recorder.path is not None
    return recorder.path


def test_a_penalty_of_another_weight_is_one_origin_that_says_so(tmp_path: Path) -> None:
    reference = critic("reference", tmp_path, times=10.0)
    candidate = critic("candidate", tmp_path, times=1.0)

    (origin,) = compare_dumps(reference, candidate).origins

    assert origin.pair.reference is not None
    assert origin.pair.reference.address.module == "3"
    said = "are not what the recorded calls give on both sides, and not the same"
    assert [said in cause.text for cause in origin.causes] == [True]


def test_a_penalty_on_one_side_is_said_to_be_there(tmp_path: Path) -> None:
    reference = critic("reference", tmp_path, times=0.0)
    candidate = critic("candidate", tmp_path, times=1.0)

    (origin,) = compare_dumps(reference, candidate).origins

    assert "are not what the recorded calls give on the candidate" in origin.causes[0].text


def test_another_function_is_not_taken_for_a_penalty(tmp_path: Path) -> None:
    reference = critic("reference", tmp_path, times=1.0)
    candidate = critic("candidate", tmp_path, times=1.0, slope=0.1)

    texts = [
        cause.text for one in compare_dumps(reference, candidate).origins for cause in one.causes
    ]

    assert not any("recorded calls" in text for text in texts)


def paddle_critic(out: Path, *, times: float) -> Path:
    """Record the critic of ``critic`` in Paddle, with the same weights and input."""
    torch.manual_seed(0)
    known = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 5), nn.Linear(5, 1))
    x = paddle.to_tensor(torch.randn(7, 6).numpy(), stop_gradient=False)
    layers = paddle.nn
    model = layers.Sequential(
        layers.Linear(6, 8), layers.LeakyReLU(0.2), layers.Linear(8, 5), layers.Linear(5, 1)
    )
    for name, parameter in model.named_parameters():
        array = known.get_parameter(name).detach().numpy()
        parameter.set_value(np.ascontiguousarray(array.T))
    with padiff.record(model, name="paddle", out=out) as recorder:
        made = model(x).sum()
        gradient = paddle.grad(made, x, create_graph=True)[0]
        loss = made + times * ((gradient.norm(axis=1) - 1) ** 2).mean()
        loss.backward()
    assert recorder.path is not None
    return recorder.path


def test_a_penalty_agrees_between_the_frameworks(tmp_path: Path) -> None:
    reference = critic("reference", tmp_path, times=10.0)

    result = compare_dumps(reference, paddle_critic(tmp_path, times=10.0))

    assert result.verdict is Verdict.MATCH, result.reasons


def test_a_penalty_of_another_weight_between_the_frameworks_says_so(tmp_path: Path) -> None:
    reference = critic("reference", tmp_path, times=10.0)

    (origin,) = compare_dumps(reference, paddle_critic(tmp_path, times=1.0)).origins

    said = "are not what the recorded calls give on both sides, and not the same"
    assert [said in cause.text for cause in origin.causes] == [True]
