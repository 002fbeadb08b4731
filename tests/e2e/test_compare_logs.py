"""``padiff compare-logs``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from tests.support.command import run_padiff

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STEPS = r"step (?P<step>\d+)\] loss: (?P<loss>\S+)"


def write(path: Path, losses: list[float], *, first: int = 0, rate: float = 0.1) -> None:
    lines = [
        f"[step {step}] loss: {loss:.6f} lr {rate}" for step, loss in enumerate(losses, start=first)
    ]
    with path.open("a", encoding="utf-8") as file:
        file.write("starting\n" + "\n".join(lines) + "\n")


def test_equal_logs_match(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0, 1.5, 1.25])

    result = run_padiff("compare-logs", "a.log", "a.log", cwd=tmp_path)

    assert (result.returncode, result.stdout.splitlines()[0]) == (0, "MATCH")


@pytest.mark.parametrize(
    "line",
    [
        "step 3 loss 2.5 lr 0.1",
        "{'loss': 2.5, 'learning_rate': 0.1, 'epoch': 1.0}",
        '{"step": 3, "train_loss": 2.5}',
        "Loss = 2.5 after loss information",
    ],
)
def test_loss_is_found_as_trainers_print_it(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(f"{line}\n", encoding="utf-8")
    (tmp_path / "b.log").write_text(f"{line}\n".replace("2.5", "2.75"), encoding="utf-8")

    result = run_padiff("compare-logs", "a.log", "b.log", cwd=tmp_path)

    assert result.returncode == 1
    assert "loss: first divergence at number 0: 2.5 against 2.75" in result.stdout


def test_first_divergence_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0, 1.5, 1.25])
    write(tmp_path / "b.log", [2.0, 1.75, 1.5])

    result = run_padiff("compare-logs", "a.log", "b.log", cwd=tmp_path)

    assert result.returncode == 1
    assert "loss: first divergence at number 1: 1.5 against 1.75" in result.stdout


def test_log_that_ends_early_diverges(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0, 1.5])
    write(tmp_path / "b.log", [2.0])

    result = run_padiff("compare-logs", "a.log", "b.log", cwd=tmp_path)

    assert result.returncode == 1
    assert "2 numbers against 1, equal as far as both go" in result.stdout
    assert "1 number only in the reference" in result.stdout


def test_steps_align_a_log_that_prints_less_often(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0, 1.5, 1.25, 1.0])
    (tmp_path / "b.log").write_text("step 2] loss: 1.25\nstep 3] loss: 9.0\n")

    result = run_padiff("compare-logs", "a.log", "b.log", "--pattern", STEPS, cwd=tmp_path)

    assert result.returncode == 1
    assert "first divergence at step 3: 1 against 9" in result.stdout
    assert "2 steps only in the reference" in result.stdout


@pytest.mark.parametrize(
    ("printed", "code"),
    [
        (range(0, 40, 5), 0),
        (range(0, 30, 5), 1),
        (range(10, 40, 5), 1),
        ([0, 5, 10, 20, 25, 30, 35], 1),
    ],
    ids=["every fifth", "ends early", "begins late", "skips a step"],
)
def test_log_that_prints_every_fifth_step_lacks_none_of_those_between(
    tmp_path: Path, printed: Iterable[int], code: int
) -> None:
    write(tmp_path / "a.log", [2.0 - step / 40 for step in range(40)])
    for step in printed:
        write(tmp_path / "b.log", [2.0 - step / 40], first=step)

    for words in (("a.log", "b.log"), ("b.log", "a.log")):
        result = run_padiff("compare-logs", *words, "--pattern", STEPS, cwd=tmp_path)
        assert result.returncode == code, result.stdout
        assert ("which prints more often" in result.stdout) == (code == 0)


def test_resumed_run_counts_the_last_line_of_each_step(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0, 1.5, 1.25, 1.0])
    write(tmp_path / "b.log", [2.0, 1.5, 7.0])  # it crashed, and was resumed from step 2
    write(tmp_path / "b.log", [1.25, 1.0], first=2)

    result = run_padiff("compare-logs", "a.log", "b.log", "--pattern", STEPS, cwd=tmp_path)

    assert result.returncode == 0
    assert "candidate: 1 came again (resumed?)" in result.stdout


def test_several_patterns_are_several_series(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0, 1.5])
    write(tmp_path / "b.log", [2.0, 1.5], rate=0.2)
    words = ("--pattern", STEPS, "--pattern", r"lr (?P<lr>\S+)")

    result = run_padiff("compare-logs", "a.log", "b.log", *words, cwd=tmp_path)

    assert result.returncode == 1
    assert "loss: match" in result.stdout
    assert "lr: first divergence at number 0: 0.1 against 0.2" in result.stdout


def test_nan_agrees_with_nan_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0, math.nan, 1.0])
    write(tmp_path / "b.log", [2.0, math.nan, math.nan])
    write(tmp_path / "c.log", [2.0, math.inf, 1.0])

    same = run_padiff("compare-logs", "a.log", "a.log", cwd=tmp_path)
    other = run_padiff("compare-logs", "a.log", "b.log", cwd=tmp_path)
    infinite = run_padiff("compare-logs", "c.log", "a.log", cwd=tmp_path)

    assert (same.returncode, other.returncode, infinite.returncode) == (0, 1, 1)
    assert "3 compared" in same.stdout
    assert "first divergence at number 2: 1 against nan" in other.stdout
    assert "first divergence at number 1: inf against nan" in infinite.stdout


def test_what_is_no_number_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("loss: 1.0\nloss: 1.2.3\n")

    words = ("--pattern", r"loss: (?P<loss>\S+)")
    result = run_padiff("compare-logs", "a.log", "a.log", *words, cwd=tmp_path)

    assert result.returncode == 0
    assert "reference: 1 captured texts are no numbers" in result.stdout


def test_pattern_without_a_name_or_a_match_is_trouble(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0])

    def told(*patterns: str) -> str:
        words = [word for pattern in patterns for word in ("--pattern", pattern)]
        result = run_padiff("compare-logs", "a.log", "a.log", *words, cwd=tmp_path)
        assert result.returncode == 2
        return result.stderr

    assert "expected a named group" in told("x")
    assert "expected a named group" in told(r"(?P<step>\d)")
    assert "no pattern finds a number" in told("(?P<x>zz)")
    assert "two of them name 'loss'" in told(STEPS, r"(?P<loss>\d)")


def test_without_matplotlib_a_plot_says_what_to_install(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0])

    words = ("compare-logs", "a.log", "a.log", "--plot")
    missing = run_padiff(*words, "a.png", cwd=tmp_path, blocked=("matplotlib",))
    unknown = run_padiff(*words, "a.txt", cwd=tmp_path)

    assert (missing.returncode, unknown.returncode) == (2, 2)
    assert "pip install 'padiff-align[plot]'" in missing.stderr
    assert "expected a .png or .svg" in unknown.stderr
