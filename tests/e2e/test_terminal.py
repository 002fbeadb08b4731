"""The report on a real (pseudo) terminal: width, lines, colour, NO_COLOR."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.command import command, environment_for
from tests.support.tiny_net import tiny_pair

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs pseudo terminals")


def on_terminal(folder: Path, *words: str | Path, columns: int, **variables: str) -> str:
    """Run padiff on a pseudo terminal and give what it showed."""
    import pty  # noqa: PLC0415 -- not on Windows
    import termios  # noqa: PLC0415

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, columns))
    environment = environment_for(folder) | {"TERM": "xterm-256color", "PYTHONUTF8": "1"}
    with subprocess.Popen(
        command(*words),
        cwd=folder,
        env=environment | variables,
        stdout=theirs,
        stderr=subprocess.DEVNULL,  # where a slow machine is told that it takes a while
    ):
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # how Linux reports that the other end is closed
                break
            if not chunk:
                break
            shown += chunk
    os.close(ours)
    return shown.decode("utf-8").replace("\r\n", "\n")


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("columns", [80, 140])
def test_terminal_gets_colour_lines_and_its_width(columns: int, tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=1e-2)

    shown = on_terminal(tmp_path, "compare", reference, candidate, columns=columns)

    assert "\x1b[" in shown
    assert "├─ fc1" in without_colours(shown)
    report = without_colours(shown).partition("look further:")[0]  # commands are never wrapped
    assert max(map(len, report.splitlines())) <= columns


def test_no_color_takes_colour_but_not_words(tmp_path: Path) -> None:
    reference, candidate = tiny_pair(tmp_path, eps=1e-2)

    plain = on_terminal(tmp_path, "compare", reference, candidate, columns=90, NO_COLOR="1")
    coloured = on_terminal(tmp_path, "compare", reference, candidate, columns=90)

    assert "\x1b" not in plain
    assert plain.split() == without_colours(coloured).split()
    assert "├─ fc1" in plain
