"""Functions that agree on what was recorded by chance are findings; other forms of one are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from torch import nn

import padiff
from padiff.cli.main import main
from padiff.comparer import Divergence, Verdict
from padiff.comparer.proving import Answer, Edit
from padiff.comparer.report.fault_words import worded_edit

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/report.schema.json").read_text())
X = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 6, 16)).astype(np.float32))
SEEN = torch.tensor([[1.0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])


class _Net(nn.Module):
    def __init__(self, between: Any) -> None:  # noqa: ANN401
        super().__init__()
        torch.manual_seed(3)
        self.into, self.out = nn.Linear(16, 16), nn.Linear(16, 16)
        self.scale, self.other = (nn.Parameter(torch.ones(16)) for _ in range(2))
        self.shift = nn.Parameter(torch.zeros(16))
        with torch.no_grad():
            self.into.bias.fill_(float(1.05 * (X @ self.into.weight.T).abs().max()))
        self.between = between

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.out(self.between(self, self.into(x), seen))
        return y


def compared(folder: Path, *forms: Any, **options: Any) -> Any:  # noqa: ANN401
    """Record a model with each form, and compare them."""
    paths = []
    for name, form in zip(("reference", "candidate"), forms, strict=True):
        model = _Net(form)
        with padiff.record(model, name=name, out=folder) as recorder, torch.no_grad():
            model(X, SEEN)
        paths.append(recorder.path)
    return padiff.compare(paths[0], paths[1], **options)


def _scaled_twice(first: str, second: str) -> Any:  # noqa: ANN401
    return lambda net, y, _: (y * getattr(net, first)).tanh() * getattr(net, second)


_plain = lambda net, y, seen: y  # noqa: E731
CHANCES: dict[str, tuple[Any, Any]] = {
    "a scale of ones left out": (lambda net, y, _: y * net.scale, _plain),
    "scales of ones exchanged": (_scaled_twice("scale", "other"), _scaled_twice("other", "scale")),
    "a ReLU of positive elements left out": (lambda net, y, _: y.relu(), _plain),
    "a limit that nothing reaches": (lambda net, y, _: y, lambda net, y, _: y.clamp(max=4.5)),
    "the sign of a shift of zeros that is laid out first": (
        lambda net, y, _: (y + net.shift.view(1, 1, -1)).tanh(),
        lambda net, y, _: (y - net.shift.view(1, 1, -1)).tanh(),
    ),
    "the sign of what a weight of zeros makes": (
        lambda net, y, _: (y + y.tanh() * net.shift).tanh(),
        lambda net, y, _: (y - y.tanh() * net.shift).tanh(),
    ),
    "limits of what is never negative": (
        lambda _, y, __: y.clamp(-25),
        lambda _, y, __: y.clamp(-20),
    ),
    "limits that are far away": (
        lambda _, y, __: y.clamp_max(30),
        lambda _, y, __: y.clamp_max(25),
    ),
}
FORMS: dict[str, tuple[Any, Any]] = {
    "a norm written out": (
        lambda net, y, _: nn.functional.layer_norm(y, (16,), net.scale, eps=1e-5),
        lambda net, y, _: (
            (y - y.mean(-1, keepdim=True))
            * (y.var(-1, unbiased=False, keepdim=True) + 1e-5) ** -0.5
            * net.scale
        ),
    ),
    "a mask of floats in two forms": (
        lambda net, y, seen: (y @ y.mT + (1 - seen[:, None]) * -1e9).softmax(-1) @ y,
        lambda net, y, seen: (y @ y.mT).masked_fill(seen[:, None] == 0, -torch.inf).softmax(-1) @ y,
    ),
    "a number read into Python": (
        lambda net, y, _: y * net.scale.max(),
        lambda net, y, _: y * net.scale.max().item(),
    ),
    "a product of what is left as an exponential of a sum": (
        lambda net, y, _: (1 - (1 - torch.exp(-y.relu()))).cumprod(-1),
        lambda net, y, _: torch.exp(-y.relu().cumsum(-1)),
    ),
    "a choice written in two ways": (
        lambda net, y, _: y.gather(-1, y.topk(3)[1]).sum(-1, keepdim=True) * y,
        lambda net, y, _: y.sort(descending=True)[0][..., :3].sum(-1, keepdim=True) * y,
    ),
}


@pytest.mark.parametrize("name", CHANCES)
def test_functions_that_agree_by_chance_are_a_finding(name: str, tmp_path: Path) -> None:
    found = compared(tmp_path, *CHANCES[name])

    executed = found.steps[0].executed
    assert found.verdict is Verdict.MATCH
    assert executed.function.answer is Answer.HIDDEN
    assert executed.function.is_coincidence
    assert executed.answer_with(strict=True) is Answer.DIFFERENT
    assert executed.function.edits


@pytest.mark.parametrize("name", FORMS)
def test_other_forms_of_a_function_are_none(name: str, tmp_path: Path) -> None:
    found = compared(tmp_path, *FORMS[name])

    executed = found.steps[0].executed
    assert not executed.is_hidden
    assert (found.verdict, executed.function.executed) == (Verdict.MATCH, 1)


def test_what_is_refuted_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    strict = compared(tmp_path, *CHANCES["a scale of ones left out"], strict=True)

    main(["compare", *(str(tmp_path / one) for one in ("reference", "candidate")), "--json", "-"])

    assert strict.verdict is Verdict.DIVERGED
    assert strict.origins[0].faults
    data = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    found = data["steps"][0]["executed"]
    assert (data["verdict"], found["is_hidden"]) == ("match", True)
    assert (found["function"]["answer"], found["function"]["is_coincidence"]) == ("hidden", True)


class _Begun(nn.Module):
    """Its bias is zero, as biases begin: only the gradient shows by what it is multiplied."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layer, self.rate = nn.Linear(16, 4), rate
        nn.init.zeros_(self.layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        layer = self.layer
        found = nn.functional.linear(x, layer.weight, layer.bias * self.rate)
        return found.tanh().square().mean()


def _compared(folder: Path, *models: nn.Module) -> padiff.Comparison:
    """Record two models that return their loss, and compare them."""
    paths = []
    for name, model in zip(("reference", "candidate"), models, strict=True):
        with padiff.record(model, name=name, out=folder) as recorder:
            model(X).backward()
        paths.append(recorder.path)
    reference, candidate = paths
    return padiff.compare(reference, candidate)


def _told(origin: Divergence) -> str:
    """Return the only cause of an origin, in words."""
    (edit,) = origin.faults
    assert isinstance(edit, Edit)
    return worded_edit(edit)


@pytest.mark.parametrize("rate", [0.01, 1.0])
def test_gradients_that_differ_by_what_zeros_hide_diverge(rate: float, tmp_path: Path) -> None:
    found = _compared(tmp_path, _Begun(0.01), _Begun(rate))

    assert found.verdict is (Verdict.MATCH if rate == 0.01 else Verdict.DIVERGED)
    if found.first is not None:
        assert _told(found.first).startswith("other of mul: 1 where the reference has 0.01")


class _Volume(nn.Module):
    """A flow whose matrix begins as a rotation: of its logarithm only the gradient is not zero."""

    def __init__(self, share: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.share = nn.Linear(16, 16), nn.Linear(16, 4), share
        self.turn = nn.Parameter(torch.linalg.qr(torch.randn(16, 16))[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = self.last(torch.tanh(self.first(x)) @ self.turn)
        volume: torch.Tensor = torch.linalg.slogdet(self.turn)[1]
        result: torch.Tensor = mixed.square().sum() - volume * self.share
        return result


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_gradients_that_differ_by_what_rounding_hides_diverge(share: float, tmp_path: Path) -> None:
    found = _compared(tmp_path, _Volume(1.0), _Volume(share))

    assert found.verdict is (Verdict.MATCH if share == 1 else Verdict.DIVERGED)
    if found.first is not None:
        assert _told(found.first).startswith("other of mul: 0.3 where the reference has 1")
        executed = found.steps[0].executed
        assert executed is not None
        assert executed.function.answer is Answer.HIDDEN


class _Normed(nn.Module):
    """A fresh batch norm in evaluation, by hand with what may be done to its moments."""

    def __init__(self, form: Any) -> None:  # noqa: ANN401
        super().__init__()
        torch.manual_seed(0)
        self.into, self.norm, self.out = nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.form = form

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, norm = self.into(x), self.norm
        if self.form is None:
            hidden = norm(hidden)
        else:
            rest, variance = self.form(hidden, norm.running_mean, norm.running_var)
            hidden = rest / torch.sqrt(variance + norm.eps) * norm.weight + norm.bias
        made: torch.Tensor = self.out(hidden.relu())
        return made


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (lambda x, mean, variance: (x - mean, variance), Answer.SAME),
        (lambda x, mean, variance: (x + mean, variance), Answer.HIDDEN),
        (lambda x, _, variance: (x, variance), Answer.HIDDEN),
        (lambda x, mean, variance: (x - mean, torch.ones_like(variance)), Answer.HIDDEN),
    ],
)
def test_moments_of_a_fresh_norm_count(form: Any, answer: Answer, tmp_path: Path) -> None:  # noqa: ANN401
    for name, one in (("reference", None), ("candidate", form)):
        model = _Normed(one).eval()
        with padiff.record(model, name=name, out=tmp_path, phase="forward"):
            model(X[0])

    (step,) = padiff.compare(tmp_path / "reference", tmp_path / "candidate").steps

    assert step.executed is not None
    assert step.executed.function.answer is answer
