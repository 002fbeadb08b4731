"""``padiff compare --execute`` asks for all that a model gives, tensors or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
import torch
from torch import nn

import padiff
from padiff.cli.main import main
from padiff.comparer.proving import Answer, Execution

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/report.schema.json").read_text())


class _Plain:
    def __init__(self, mean: torch.Tensor) -> None:
        self.mean = mean


class _Net(nn.Module):
    """Gives what a test makes of the output of a layer."""

    def __init__(self, change: Callable[[Any], Any], give: Callable[[Any], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.change, self.give = nn.Linear(6, 4), change, give

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401 - anything
        return self.give(self.change(self.layer(x)))


READ: dict[str, Callable[[Any], Any]] = {
    "attribute": _Plain,
    "distribution": lambda x: torch.distributions.Normal(x, torch.ones_like(x)),
    "array": lambda x: x.detach().numpy(),
    "number": lambda x: x.sum().item(),
    "numbers": lambda x: x[0].tolist(),
    "numbers in a dict": lambda x: {"mean": x.mean().item(), "sum": x.sum().item()},
}
"""Values of the program, or read from one."""
MADE: dict[str, Callable[[Any], Any]] = {
    "text": lambda x: f"{x.sum().item():.2f}",
    "flag": lambda x: [bool(x.sum() > 0), bool(x.sum() < -5)],
    "number of Python": lambda x: x.sum().item() * 2.5 + 1,
}
"""What Python made of such a number."""


def _recorded(
    folder: Path, name: str, change: Callable[[Any], Any], give: Callable[[Any], Any]
) -> Path:
    model = _Net(change, give)
    with padiff.record(model, name=name, out=folder) as recorder:
        model(torch.arange(18.0).reshape(3, 6).cos())
    return recorder.path


def _executed(folder: Path, change: Callable[[Any], Any], give: Callable[[Any], Any]) -> Execution:
    paths = _recorded(folder, "a", lambda x: x, give), _recorded(folder, "b", change, give)
    found = padiff.compare(*paths, execute=True).steps[0].executed
    assert found is not None
    return found


@pytest.mark.parametrize("name", READ)
def test_a_result_that_is_read_from_a_value_is_a_function(name: str, tmp_path: Path) -> None:
    found = _executed(tmp_path, lambda x: x / 3 * 3, READ[name])

    assert found.answer is Answer.SAME
    assert found.function.executed >= 1
    assert found.function.tolerated == 0


@pytest.mark.parametrize("name", READ)
def test_another_function_behind_a_result_is_found_below_any_tolerance(
    name: str, tmp_path: Path
) -> None:
    found = _executed(tmp_path, lambda x: x * 1.000001, READ[name])

    assert found.function.answer is Answer.DIFFERENT


@pytest.mark.parametrize("name", MADE)
def test_a_result_that_python_made_is_judged_as_recorded(name: str, tmp_path: Path) -> None:
    found = _executed(tmp_path, lambda x: x.clone(), MADE[name])

    function = found.function
    assert found.answer is Answer.SAME
    is_rounded = name == "number of Python"
    assert (function.executed, function.tolerated) == (0, int(is_rounded))
    assert function.facts == int(not is_rounded)


@pytest.mark.parametrize("name", MADE)
def test_another_result_that_python_made_is_a_difference(name: str, tmp_path: Path) -> None:
    found = _executed(tmp_path, lambda x: -3 * x, MADE[name])

    assert found.answer is Answer.DIFFERENT
    assert [one.kind for one in found.function.differences] == ["result"]


def test_text_of_another_length_stands_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    give = MADE["text"]
    paths = (
        _recorded(tmp_path, "a", lambda x: x, give),
        _recorded(tmp_path, "b", lambda x: 1000 * x, give),
    )
    report = tmp_path / "report.json"

    code = main(["compare", *map(str, paths), "--execute", "--json", str(report)])

    assert code == 1
    assert "result" in capsys.readouterr().out
    written = json.loads(report.read_text())
    jsonschema.validate(written, SCHEMA)
    (one,) = written["steps"][0]["executed"]["function"]["differences"]
    assert one["kind"] == "result"
