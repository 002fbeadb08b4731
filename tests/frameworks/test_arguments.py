"""Arguments and results that are no tensors: flags, scales, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import padiff
from padiff.cli.main import main
from padiff.comparer.result import Verdict
from tests.support.located import compare_dumps

if TYPE_CHECKING:
    from pathlib import Path

    from padiff.comparer.result import Comparison

GIVEN = torch.linspace(-1.0, 1.0, 20).reshape(1, 5, 4)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, *, causal: bool = False, scale: float = 1.0) -> torch.Tensor:
        scores = self.into(x) @ x.transpose(1, 2) * scale
        if causal:
            scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), float("-inf"))
        return torch.softmax(scores, -1) @ x


class Net(nn.Module):
    """Calls its attention with arguments that no module has as an attribute."""

    def __init__(self, arguments: dict[str, Any], results: dict[str, Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attention = Attention()
        self.hidden = (arguments, results)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        arguments, results = self.hidden
        return {"y": self.attention(x, **arguments), **results}


def recorded(folder: Path, name: str, model: nn.Module) -> Path:
    with padiff.record(model, name=name, out=folder) as recorder:
        model(GIVEN)["y"].sum().backward()
    return recorder.path


def compared(folder: Path, *arguments: dict[str, Any]) -> Comparison:
    paths = [recorded(folder, str(at), Net(given, {})) for at, given in enumerate(arguments)]
    return compare_dumps(*paths)


@pytest.mark.parametrize(
    ("reference", "candidate", "line"),
    [
        (
            {"causal": True},
            {"causal": False},
            "argument ['causal']: True on the reference, False on the candidate",
        ),
        (
            {"causal": True},
            {},
            "argument ['causal']: True on the reference, not given on the candidate",
        ),
        (
            {"scale": 0.5},
            {"scale": 0.25},
            "argument ['scale']: 0.5 on the reference, 0.25 on the candidate",
        ),
    ],
)
def test_argument_that_differs_comes_first(
    reference: dict[str, Any], candidate: dict[str, Any], line: str, tmp_path: Path
) -> None:
    found = compared(tmp_path, reference, candidate)

    (origin,) = found.origins
    assert origin.pair.reference is not None
    assert origin.pair.reference.address.module == "attention"
    assert origin.evidence[0] == line


def test_report_does_not_put_the_fault_into_the_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [
        recorded(tmp_path, name, Net({"causal": causal}, {}))
        for name, causal in (("reference", True), ("candidate", False))
    ]
    page = tmp_path / "page.html"

    assert main(["compare", *map(str, paths), "--html", str(page)]) == 1

    assert "all tensors agree, another argument does not" in page.read_text()
    assert "the same in both programs: the fault is here" in capsys.readouterr().out


def test_default_that_only_one_side_writes_out_is_no_difference(tmp_path: Path) -> None:
    found = compared(tmp_path, {"causal": False}, {})

    assert found.verdict is Verdict.MATCH


def test_number_that_the_model_gave_is_judged(tmp_path: Path) -> None:
    paths = [
        recorded(tmp_path, name, Net({}, {"kept": kept, "name": name}))
        for name, kept in (("reference", 3), ("candidate", 4))
    ]

    found = compare_dumps(*paths)

    assert found.verdict is Verdict.DIVERGED
    slots = [str(each.pair.candidate and each.pair.candidate.address) for each in found.divergences]
    assert slots == ["step 0 (root) result['kept']", "step 0 (root) result['name']"]
    assert found.steps[0].notes == (
        "the model's output['kept'] is 3 on the reference, 4 on the candidate",
        "the model's output['name'] is 'reference' on the reference, 'candidate' on the candidate",
    )


class Later(nn.Module):
    """Gives what it will compute when it is asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Any:  # noqa: ANN401
        y = self.into(x)
        return (row for row in y)


def test_model_that_gives_no_tensor_is_noted(tmp_path: Path) -> None:
    model = Later()
    with padiff.record(model, name="m", out=tmp_path) as recorder:
        model(GIVEN)

    notes = compare_dumps(recorder.path, recorder.path).steps[0].notes

    assert notes == tuple(
        f"the {side} recorded no tensor in what the model gave: no result is judged"
        for side in ("reference", "candidate")
    )
