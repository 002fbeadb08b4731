"""What a terminal shows of a command that takes its time."""

from __future__ import annotations

import io
import sys
import time

import pytest

from padiff.cli import waiting as module
from padiff.cli.output import emit
from padiff.cli.waiting import Steps, waiting


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(module, "PATIENCE_S", 0.01)
    monkeypatch.setattr(module, "_EVERY_S", 0.01)
    return found


def wait_for_a_line(terminal: Terminal) -> None:
    ends_s = time.monotonic() + 20
    while "compare a b" not in terminal.getvalue() and time.monotonic() < ends_s:
        time.sleep(0.01)


def test_the_line_says_what_runs_and_is_wiped(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)

    with waiting("compare a b"):
        wait_for_a_line(terminal)

    assert "\rcompare a b  " in terminal.getvalue()
    assert terminal.getvalue().endswith(" s\r                \r")


def test_the_line_is_wiped_before_something_is_printed(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)

    with waiting("compare a b"):
        wait_for_a_line(terminal)
        emit("report\n")
        before = terminal.getvalue()
        time.sleep(0.1)
        assert terminal.getvalue() == before

    assert before.endswith(" \r")
    assert capsys.readouterr().out == "report\n"


def test_what_is_quick_is_not_talked_about(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(module, "PATIENCE_S", 60.0)

    with waiting("compare a b"):
        pass

    assert terminal.getvalue() == ""


def test_a_log_gets_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(module, "PATIENCE_S", 0.0)

    with waiting("compare a b"):
        time.sleep(0.05)

    assert log.getvalue() == ""


def test_the_line_says_how_many_of_several_steps_are_done(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)
    steps = Steps()

    with waiting("compare a b"):
        steps.begin(1)
        wait_for_a_line(terminal)
        assert "[" not in terminal.getvalue()
        steps.begin(8)
        steps.advance(2)
        ends_s = time.monotonic() + 20
        while "2 of 8" not in terminal.getvalue() and time.monotonic() < ends_s:
            time.sleep(0.01)

    assert "compare a b  [#####---------------] 2 of 8 steps  " in terminal.getvalue()


def test_a_note_stands_alone(monkeypatch: pytest.MonkeyPatch, terminal: Terminal) -> None:
    monkeypatch.setattr(sys, "stderr", terminal)

    with waiting("compare a b"):
        wait_for_a_line(terminal)
        Steps().note("one process ended")

    assert terminal.getvalue().endswith(" \rpadiff: one process ended\n")
