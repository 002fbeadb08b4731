"""A penalty on gradients, which adds to the gradients of weights and to nothing else recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import paddle
import torch
from torch import nn

import padiff
from padiff.comparer import Verdict
from padiff.comparer.auditing import Soundness, audit_dump
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import evidence_of
from padiff.dumpfile import Role
from tests.support.located import compare_dumps

if TYPE_CHECKING:
    from pathlib import Path


def critic(name: str, out: Path, *, times: float) -> Path:
    """Record a critic's backward pass with a gradient penalty, as in WGAN-GP."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 5), nn.Linear(5, 1))
    x = torch.randn(7, 6, requires_grad=True)
    with padiff.record(model, name=name, out=out) as recorder:
        made = model(x).sum()
        gradient = torch.autograd.grad(made, x, create_graph=True)[0]
        loss = made + times * ((gradient.norm(dim=1) - 1) ** 2).mean()
        recorder.loss(loss)
        loss.backward()
    assert recorder.path is not None
    return recorder.path


def test_a_penalty_of_another_weight_is_proved(tmp_path: Path) -> None:
    reference = critic("reference", tmp_path, times=10.0)
    candidate = critic("candidate", tmp_path, times=1.0)

    first = compare_dumps(reference, candidate).origins[0]

    assert first.pair.reference is not None
    assert first.pair.reference.address.role is Role.LOSS
    assert "10" in evidence_of(first)[0]


def paddle_critic(out: Path, *, times: float, shift: float = 0.0) -> Path:
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
        gradient = paddle.grad(made, x, create_graph=True)[0] + shift
        loss = made + times * ((gradient.norm(axis=1) - 1) ** 2).mean()
        recorder.loss(loss)
        loss.backward()
    assert recorder.path is not None
    return recorder.path


def test_a_penalty_agrees_between_the_frameworks(tmp_path: Path) -> None:
    reference = critic("reference", tmp_path, times=10.0)

    result = compare_dumps(reference, paddle_critic(tmp_path, times=10.0))

    assert result.verdict is Verdict.MATCH, result.reasons
    (step,) = result.steps
    assert step.executed is not None
    assert step.executed.answer is Answer.SAME


def test_what_is_made_of_a_gradient_is_part_of_the_function(tmp_path: Path) -> None:
    reference = critic("reference", tmp_path, times=10.0)

    first = compare_dumps(reference, paddle_critic(tmp_path, times=10.0, shift=0.01)).origins[0]

    assert "0.01" in evidence_of(first)[0]


def attacked(out: Path, *, reach: float = 0.1) -> Path:
    """Record a step of adversarial training in torch, by the fast gradient sign method."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    x = torch.randn(7, 6, requires_grad=True)
    with padiff.record(model, name=f"attacked_{reach}", out=out) as recorder:
        made = model(x).square().mean()
        (gradient,) = torch.autograd.grad(made, x)
        loss = model((x + reach * gradient.sign()).detach()).square().mean()
        recorder.loss(loss)
        loss.backward()
    assert recorder.path is not None
    return recorder.path


def attacked_paddle(out: Path, *, reach: float) -> Path:
    """Record the step of ``attacked`` in Paddle, with the same weights and input."""
    torch.manual_seed(0)
    known = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    x = paddle.to_tensor(torch.randn(7, 6).numpy(), stop_gradient=False)
    model = paddle.nn.Sequential(paddle.nn.Linear(6, 8), paddle.nn.Tanh(), paddle.nn.Linear(8, 3))
    for name, parameter in model.named_parameters():
        array = known.get_parameter(name).detach().numpy()
        parameter.set_value(np.ascontiguousarray(array.T))
    with padiff.record(model, name="paddle", out=out) as recorder:
        made = model(x).square().mean()
        gradient = paddle.grad(made, x)[0]
        loss = model((paddle.sign(gradient) * reach + x).detach()).square().mean()
        recorder.loss(loss)
        loss.backward()
    assert recorder.path is not None
    return recorder.path


def test_an_attack_is_part_of_the_function_and_its_gradients_are_not_the_weights(
    tmp_path: Path,
) -> None:
    reference = attacked(tmp_path)
    (audited,) = audit_dump(reference).values()

    right = compare_dumps(reference, attacked_paddle(tmp_path, reach=0.1))
    wrong = compare_dumps(attacked(tmp_path, reach=0.3), tmp_path / "paddle").origins[0]

    assert audited.soundness is Soundness.SOUND
    assert all(step.executed.answer is Answer.SAME for step in right.steps if step.executed)
    assert right.verdict is Verdict.MATCH, right.reasons
    assert "0.1 where the reference has 0.3" in evidence_of(wrong)[0]
