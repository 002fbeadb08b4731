"""How far each fault alone moves the result: as much as a model with only that fault is off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import torch
from torch import nn
from torch.nn import functional

import padiff
from padiff.comparer.proving import Answer
from padiff.comparer.report.fault_words import worded_edit
from padiff.comparer.report.json_report import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.comparer.proving import FunctionComparison

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/report.schema.json").read_text())
X = torch.randn(2, 6, 16, generator=torch.Generator().manual_seed(0))


class _Net(nn.Module):
    """Two layers with a residual each, of which steps can be other ones."""

    def __init__(self, **steps: Any) -> None:  # noqa: ANN401
        super().__init__()
        torch.manual_seed(3)
        self.norm, self.last = nn.LayerNorm(16), nn.LayerNorm(16)
        self.into, self.out = nn.Linear(16, 16), nn.Linear(16, 16)
        self.act: Callable[[torch.Tensor], torch.Tensor] = steps.get("act", functional.gelu)
        self.scale = steps.get("scale", 0.5)
        self.norm.eps = self.last.eps = steps.get("eps", 1e-5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.act(self.into(self.norm(x)))
        result: torch.Tensor = h + self.last(self.out(h) * self.scale)
        return result


def compared(folder: Path, reference: nn.Module, candidate: nn.Module) -> padiff.Comparison:
    paths = []
    for name, model in (("reference", reference), ("candidate", candidate)):
        with padiff.record(model, name=name, out=folder, phase="forward") as recorder:
            model(X)
        assert recorder.path is not None
        paths.append(recorder.path)
    return padiff.compare(paths[0], paths[1])


def function_of(result: padiff.Comparison) -> FunctionComparison:
    (step,) = result.steps
    assert step.executed is not None
    assert step.executed.function.answer is not Answer.UNKNOWN
    return step.executed.function


def moved(candidate: nn.Module) -> tuple[float, float]:
    """Run a model with one fault in float64, and measure it against the right one."""
    with torch.no_grad():
        known, found = (model.double()(X.double()) for model in (_Net(), candidate))
    off = found - known
    return float(off.norm() / known.norm()), float(off.abs().max())


def test_each_of_several_faults_moves_the_result_as_it_does_alone(tmp_path: Path) -> None:
    """One lies before the other two, and one stands in two places."""
    candidate = _Net(act=functional.relu, scale=0.6, eps=1e-2)

    edits = function_of(compared(tmp_path, _Net(), candidate)).edits

    found = {}
    for edit in edits:
        assert edit.influence is not None
        found[worded_edit(edit)] = (edit.influence.relative_l2, edit.influence.max_abs)
    assert found == {
        "eps of layer_norm: 0.01 where the reference has 1e-05": pytest.approx(
            moved(_Net(eps=1e-2)), rel=1e-9
        ),
        "relu where the reference has gelu": pytest.approx(
            moved(_Net(act=functional.relu)), rel=1e-9
        ),
        "other of mul: 0.6 where the reference has 0.5": pytest.approx(
            moved(_Net(scale=0.6)), rel=1e-9
        ),
    }


def test_a_weight_moves_the_result_as_it_does_alone(tmp_path: Path) -> None:
    candidate, alone = _Net(act=functional.relu), _Net()
    for model in (candidate, alone):
        with torch.no_grad():
            model.into.weight[3, 4] += 0.25

    (leaf,) = function_of(compared(tmp_path, _Net(), candidate)).differences

    assert leaf.influence is not None
    found = leaf.influence.relative_l2, leaf.influence.max_abs
    assert found == pytest.approx(moved(alone), rel=1e-9)


def test_a_buffer_that_nothing_reads_moves_nothing(tmp_path: Path) -> None:
    models = [nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(6)).train() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models[1][1].running_mean.add_(1)  # type: ignore[operator]

    (leaf, *_) = function_of(compared(tmp_path, *models)).differences

    assert leaf.kind == "buffer"
    assert leaf.influence is not None
    assert leaf.influence.relative_l2 == 0


def test_five_weights_are_measured_and_the_sixth_says_that_it_is_not(tmp_path: Path) -> None:
    def net() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(*(nn.Linear(16, 16) for _ in range(6)))

    candidate = net()
    with torch.no_grad():
        for layer in candidate:
            layer.weight[0, 0] += 1  # type: ignore[operator,index]

    differences = function_of(compared(tmp_path, net(), candidate)).differences

    influences = [one.influence for one in differences]
    assert len(influences) == 6
    assert all(one is not None for one in influences)
    assert [one.relative_l2 is not None for one in influences if one] == [True] * 5 + [False]


def test_report_and_json_say_it(tmp_path: Path) -> None:
    result = compared(tmp_path, _Net(), _Net(act=functional.relu))

    text = " ".join(result.report().split())
    data = json.loads(json.dumps(to_json(result)))

    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    (edit,) = data["steps"][0]["executed"]["function"]["edits"]
    size = moved(_Net(act=functional.relu))[0]
    assert edit["influence"]["relative_l2"] == pytest.approx(size, rel=1e-9)
    assert f"moves the result by {size:.4g} of its size" in text


class _Normed(_Net):
    """Ends with a norm, so that the mean of its results is zero but for rounding."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(super().forward(x), (16,))


@pytest.mark.parametrize("kind", ["edit", "leaf"])
def test_a_loss_that_is_zero_but_for_rounding_says_nothing_of_a_fault(
    tmp_path: Path, kind: str
) -> None:
    reference, candidate = _Normed(), _Normed(eps=1e-2 if kind == "edit" else 1e-5)
    if kind == "leaf":
        candidate.into.bias.data[0] += 0.125
    with torch.no_grad():
        known, found = (model.double()(X.double()) for model in (reference, candidate))
    expected = float((found - known).norm() / known.norm())
    reference.float()
    candidate.float()

    paths = []
    for name, model in (("reference", reference), ("candidate", candidate)):
        with padiff.record(model, name=name, out=tmp_path, phase="forward") as recorder:
            recorder.loss(model(X).mean())
        assert recorder.path is not None
        paths.append(recorder.path)
    function = function_of(padiff.compare(paths[0], paths[1]))

    found = [one.influence for one in function.edits]
    (influence,) = found or [one.influence for one in function.differences]
    assert influence is not None
    assert influence.relative_l2 == pytest.approx(expected, rel=1e-3)
