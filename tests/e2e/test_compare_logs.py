"""``padiff compare-logs``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.command import run_padiff

if TYPE_CHECKING:
    from pathlib import Path


def write(path: Path, losses: list[float]) -> None:
    lines = [f"[step {step}] loss: {loss:.6f} lr 0.1" for step, loss in enumerate(losses)]
    path.write_text("starting\n" + "\n".join(lines) + "\n")


def test_equal_logs_match(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0, 1.5, 1.25])

    result = run_padiff("compare-logs", "a.log", "a.log", cwd=tmp_path)

    assert (result.returncode, result.stdout.splitlines()[0]) == (0, "MATCH")


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
    assert "2 numbers against 1" in result.stdout


def test_pattern_without_a_name_or_a_match_is_trouble(tmp_path: Path) -> None:
    write(tmp_path / "a.log", [2.0])

    unnamed = run_padiff("compare-logs", "a.log", "a.log", "--pattern", "x", cwd=tmp_path)
    lost = run_padiff("compare-logs", "a.log", "a.log", "--pattern", "(?P<x>zz)", cwd=tmp_path)

    assert (unnamed.returncode, lost.returncode) == (2, 2)
    assert "expected a named group" in unnamed.stderr
    assert "finds nothing" in lost.stderr
