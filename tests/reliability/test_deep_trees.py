"""A tree far deeper than Python's recursion limit goes through everything."""

from __future__ import annotations

import json
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import paddle
import pytest
import torch

import padiff
from padiff.cli.main import main
from padiff.dumpfile import open_dump
from tests.support.deep_trees import write_chain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOME = 1_200
FULL = 5_000
DEPTHS = [SOME, pytest.param(FULL, marks=pytest.mark.slow)]


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_tree_goes_through_every_command(
    depth: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert depth > sys.getrecursionlimit()
    reference = str(write_chain(tmp_path / "a", depth))
    candidate = str(write_chain(tmp_path / "b", depth, change=1))
    reports = {
        f"--{form}": str(tmp_path / f"r.{form}")
        for form in ("json", "html", "junit", "sarif", "markdown", "csv")
    }
    words = [word for pair in reports.items() for word in pair]
    last = ["--module", ".".join(["m"] * (depth - 1))]

    assert main(["check", "--deep", reference]) == 0
    assert main(["show", reference]) == 0
    assert main(["pack", reference, "-o", str(tmp_path / "a.padiff.zip")]) == 0
    assert main(["check", str(tmp_path / "a.padiff.zip")]) == 0
    assert main(["accept", str(tmp_path / "base"), candidate, "--reason", "new"]) == 0
    assert main(["weights", "stats", reference]) == 0
    assert main(["weights", "plan", reference, candidate]) == 0
    assert main(["extract", reference, candidate, *last, "-o", str(tmp_path / "x")]) == 0
    assert main(["compare", reference, reference]) == 0
    assert main(["compare", reference, candidate, *words]) == 1
    assert main(["map", reference, candidate, "-o", str(tmp_path / "map.toml")]) == 0
    assert main(["judge", "-q", reports["--json"], "--atol", "2"]) == 0
    assert main(["report", reports["--json"], "--html", str(tmp_path / "again.html")]) == 1
    assert "internal error" not in capsys.readouterr().err
    result = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    origin = result["origins"][0]["pair"]["reference"]["address"]["module"]
    assert origin.count("m") == depth - 1  # the innermost one


@pytest.mark.parametrize("depth", [1_500, pytest.param(FULL, marks=pytest.mark.slow)])
def test_deep_trees_in_which_every_name_differs_are_paired(
    depth: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert depth > sys.getrecursionlimit()
    reference = str(write_chain(tmp_path / "a", depth))
    same = str(write_chain(tmp_path / "b", depth, other_names=True))
    other = str(write_chain(tmp_path / "c", depth, other_names=True, change=1))

    assert main(["compare", reference, same]) == 0
    assert main(["compare", reference, other, "--json", str(tmp_path / "r.json")]) == 1
    assert main(["map", reference, same, "-o", str(tmp_path / "map.toml")]) == 0

    assert "internal error" not in capsys.readouterr().err
    pairs = tomllib.loads((tmp_path / "map.toml").read_text(encoding="utf-8"))["pair"]
    told = {pair["reference"].count("."): pair["candidate"].count(".") for pair in pairs}
    assert told == {level: level for level in range(depth - 1)}


def torch_chain(depth: int) -> tuple[Any, Any]:
    class Wrap(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = LAST[0](x)
            return found

    return chain(Wrap, torch.nn.Linear(3, 3), depth), torch.ones(2, 3)


def paddle_chain(depth: int) -> tuple[Any, Any]:
    class Wrap(paddle.nn.Layer):
        def forward(self, x: Any) -> Any:  # noqa: ANN401
            return LAST[0](x)

    return chain(Wrap, paddle.nn.Linear(3, 3), depth), paddle.ones([2, 3])


LAST: list[Any] = []


def chain(wrap: Callable[[], Any], last: Any, depth: int) -> Any:  # noqa: ANN401
    """Put a layer into modules within modules; the outermost one calls it directly."""
    LAST[:] = [last]
    made = last
    for _ in range(depth):
        outer = wrap()
        outer.inner = made
        made = outer
    return made


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("build", [torch_chain, paddle_chain])
def test_a_deep_model_is_recorded(
    build: Callable[[int], tuple[Any, Any]], depth: int, tmp_path: Path
) -> None:
    model, x = build(depth)

    with padiff.record(model, name="deep", out=tmp_path) as recorder:
        model(x).mean().backward()

    with open_dump(recorder.path).open() as file:
        assert len(file.index.modules) == depth + 1
        assert [file.index.modules[call.module].path.count("inner") for call in file.index.calls]
        assert file.index.modules[-1].path == ".".join(["inner"] * depth)
        roles = {str(record.role) for record in file.index.records}
    assert {"output", "grad_output", "weight", "weight_grad"} <= roles
