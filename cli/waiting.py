"""A line on the terminal for a command that takes its time: which one, how far, how long."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import click

PATIENCE_S = 2.0
"""What takes no longer is not talked about."""
_EVERY_S = 0.5
_BAR = 20
"""Characters of a bar."""


class _Line:
    """Draws the line from a thread, until it is told to wipe it."""

    def __init__(self, text: str, stream: TextIO) -> None:
        self._text = text
        self.bar = ""
        """How far it got, if that is known."""
        self._stream = stream
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)
        self._started_s = time.monotonic()

    def start(self) -> None:
        """Begin to wait."""
        self._thread.start()

    def end(self) -> None:
        """Wipe the line; whatever is printed now stands alone."""
        self._is_over.set()
        self._thread.join()

    def _draw(self) -> None:
        if self._is_over.wait(PATIENCE_S):
            return
        with suppress(OSError):  # the terminal may be gone
            shown = ""
            while not self._is_over.wait(_EVERY_S):
                elapsed = f"  {time.monotonic() - self._started_s:.0f} s"
                end = f"{self.bar}{elapsed}"
                room = max(0, shutil.get_terminal_size().columns - len(end) - 1)
                before, shown = len(shown), f"{self._text[:room]}{end}"
                self._stream.write(f"\r{shown:<{before}}")
                self._stream.flush()
            self._stream.write(f"\r{' ' * len(shown)}\r")  # no escapes: for any terminal
            self._stream.flush()


_lines: list[_Line] = []
"""The line of the command that runs, if it has one."""


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show what runs, and for how long, once it has run for two seconds; only on a terminal."""
    if not (sys.stderr is not None and sys.stderr.isatty()):
        yield
        return
    line = _Line(text, sys.stderr)
    _lines.append(line)
    line.start()
    try:
        yield
    finally:
        end_waiting()


def end_waiting() -> None:
    """Wipe the line, if there is one, before something else is printed."""
    while _lines:
        _lines.pop().end()


class Steps:
    """Draws how many steps of a comparison are done into the line, if there is one."""

    def __init__(self) -> None:
        """Begin with none."""
        self._steps = self._done = 0

    def begin(self, steps: int) -> None:
        """Take how many steps and ranks there are."""
        self._steps, self._done = steps, 0
        self.advance(0)

    def advance(self, steps: int) -> None:
        """Take how many more are done. Of one alone there is nothing to draw."""
        self._done += steps
        for line in _lines if self._steps > 1 else ():
            full = _BAR * self._done // self._steps
            line.bar = f"  [{'#' * full:-<{_BAR}}] {self._done} of {self._steps} steps"

    def note(self, text: str) -> None:
        """Print a line for the user."""
        end_waiting()
        click.echo(f"padiff: {text}", err=True)
