"""Every part of the benchmarks runs, at sizes at which its times mean nothing."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING

import pytest

from benchmarks import manyranks, recordtrial
from benchmarks.__main__ import PARTS
from benchmarks.dumping import figures as dumping_figures
from benchmarks.figure import Figure, print_figures
from benchmarks.localisation.score import figures as localisation_figures
from benchmarks.scale import Scale
from benchmarks.startup import COMMANDS
from benchmarks.workloads import FRAMEWORKS, MODELS, build
from padiff.cli.main import _COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNTS = {
    "between": 2 * len(FRAMEWORKS),
    "comparing": 6 * 3 + 2 + 2,
    "opening": 2,
    "whole": 8 + 3,
    "commands": 1 + 2 + 2,
    "diverging": 2,
    "executing": 9,
    "growth": 3 * 6 + 3,
    "startup": 3 + 1,
}
"""Figures of a part."""
ELSEWHERE = {"auditing", "dumping", "localisation", "pairing", "scale"}
"""Parts whose figures are counted in tests of their own."""
LONG = {"commands", "diverging", "executing", "growth", "whole"}
"""Parts that take most of a minute even at sizes at which times mean nothing."""


def distinct(figures: Iterator[Figure]) -> list[Figure]:
    """Take all figures; no two have one name, and none is nan or infinite."""
    found = list(figures)
    assert len({figure.name for figure in found}) == len(found)
    assert [figure.name for figure in found if not math.isfinite(figure.value)] == []
    return found


def test_every_part_is_counted() -> None:
    assert set(COUNTS) | ELSEWHERE == set(PARTS)


@pytest.mark.parametrize(
    "part", [pytest.param(one, marks=pytest.mark.slow if one in LONG else ()) for one in COUNTS]
)
def test_a_part_gives_all_its_figures(part: str) -> None:
    module = importlib.import_module(f"benchmarks.{part}")

    found = distinct(module.figures(scale=Scale.TINY))

    assert len(found) == COUNTS[part]
    assert all(figure.detail for figure in found if figure.budget)


def test_the_auditing_part_measures_kinds_of_operators() -> None:
    module = importlib.import_module("benchmarks.auditing")

    found = {figure.name: figure for figure in distinct(module.figures(scale=Scale.TINY))}

    assert [name for name, one in found.items() if one.budget.endswith("MISSED")] == []
    assert 0 < found["torch float32: conv2d"].value < 8
    assert {"torch bfloat16: conv2d", "paddle float32: conv2d", "paddle: holes"} < set(found)


def test_trees_of_the_pairing_part_are_paired() -> None:
    module = importlib.import_module("benchmarks.pairing")

    found = {figure.name: figure for figure in distinct(module.figures(scale=Scale.TINY))}

    assert found["same tree: 60 calls a side"].detail.endswith("; 72 calls paired")
    assert "0 missing" in found["weights, same tree: 20 modules a side"].detail
    assert sum("modules a side" in name for name in found) > 2 * 6


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_recording_trial_measures_all_its_ways(framework: str, tmp_path: Path) -> None:
    found = recordtrial.measure(framework, "gpt", tmp_path, scale=Scale.TINY)

    assert found["others"] == ["savez", f"{framework}.save"]
    assert set(found["others"]) | {"save", "stats", "digest", "between"} <= set(found)
    assert found["distinct"] <= found["met"]
    assert 1 <= found["file"] / found["distinct"] < 2


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_is_recorded_gets_gradients(framework: str, name: str) -> None:
    work = build(framework, name, scale=Scale.TINY)

    work.step()

    assert any(weight.grad is not None for weight in work.model.parameters())


@pytest.mark.slow
def test_the_recording_part_gives_figures_of_each_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.dumping.FRAMEWORKS", ("torch",))
    monkeypatch.setattr("benchmarks.dumping.MODELS", ("gpt",))

    found = distinct(dumping_figures(scale=Scale.TINY))

    assert sum("peak memory" in figure.name for figure in found) == 3
    assert len(found) == 3 + 2 + 1 + 3 + 1 + 1 + 1


def test_localisation_counts_the_trials_it_ran() -> None:
    found = distinct(localisation_figures(scale=Scale.TINY, only="float32 rnn bias left out *"))

    details = {figure.name: figure.detail for figure in found}
    assert details["padiff, float32: top-1"] == "1 of 1; not: none"
    assert details["padiff, float32: cause named"] == "1 of 1; not: none"


def test_the_starting_part_measures_every_command() -> None:
    assert set(COMMANDS) == set(_COMMANDS)


def test_the_part_of_many_ranks_gives_its_figures() -> None:
    assert len(distinct(manyranks.figures(scale=Scale.TINY))) == 1 + 2 * 6


def test_figures_say_whether_a_budget_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    kept = Figure(name="a", value=2.0, at_most=2.0)
    missed = Figure(name="b", value=2.0, at_least=2.5, detail="why")

    print_figures("TITLE", [kept, missed])

    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["a", "2", "<=", "2", "kept"],
        ["b", "2", ">=", "2.5", "MISSED", "why"],
    ]
