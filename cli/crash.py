"""Say how a command's process died, and save what it had written."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .blackbox import Note
from .joblog import defused

if TYPE_CHECKING:
    from .watcher import Crash

__all__ = ["tell"]

TROUBLE = 2
BY_SIGNAL = 128
MOST_LINES = 5
NOT_OF_THE_USER = ("site-packages", "dist-packages", "<frozen", str(Path(__file__).parents[1]))
_ENDED = {
    getattr(signal, name): text
    for name, text in (
        ("SIGINT", "interrupted"),
        ("SIGTERM", "terminated (SIGTERM)"),
        ("SIGHUP", "terminated (SIGHUP)"),
        ("SIGQUIT", "terminated (SIGQUIT)"),
    )
    if hasattr(signal, name)
}
"""Signals by which somebody ends a process."""


def tell(crash: Crash, words: list[str]) -> int:
    """Report a crash on stderr, and keep the whole steps of a dump.

    Args:
        crash: How the process died.
        words: The command line, without the program's name.

    Returns:
        The exit code: 2, or that of the signal by which somebody ended the process.
    """
    by = _ENDED.get(crash.signal or 0)
    if by is None:
        _say(f"padiff: error: {_what(crash, words)}")
        for line in _telling(crash.notes.last_lines()):
            _say(f"  {line}")
        _say(f"hint: {_hint(crash, is_dump=words[0] == 'dump')}")
    else:
        _say(f"padiff: {by}")
    _recover(crash, by or _short(crash))
    return TROUBLE if by is None or crash.signal is None else BY_SIGNAL + crash.signal


def _what(crash: Crash, words: list[str]) -> str:
    stage, call = crash.notes.read(Note.STAGE), crash.notes.read(Note.CALL)
    where = f" in {stage}" if stage else ""
    inside = f", inside {call}" if call else ""
    doing = "run the model" if words[0] == "dump" and stage else f"finish `padiff {words[0]}`"
    return f"cannot {doing}{where}{inside}: {_end(crash)}"


def _end(crash: Crash) -> str:
    if crash.signal is None:
        return crash.name
    return f"the process was killed by {crash.name}"


def _telling(lines: tuple[str, ...]) -> list[str]:
    """Pick the innermost line and the innermost ones of the user's own code."""
    own = [line for line in lines if not any(part in line for part in NOT_OF_THE_USER)]
    return list(dict.fromkeys([*lines[:1], *own]))[:MOST_LINES]


def _short(crash: Crash) -> str:
    stage, call = crash.notes.read(Note.STAGE), crash.notes.read(Note.CALL)
    return ", ".join(
        filter(None, (_end(crash), stage and f"in {stage}", call and f"inside {call}"))
    )


def _hint(crash: Crash, *, is_dump: bool) -> str:
    if crash.signal is None:
        return "let it raise an exception instead of calling os._exit"
    if crash.signal == getattr(signal, "SIGKILL", None):
        return "the system kills what takes too much memory: see `dmesg`"
    if is_dump:
        return "native code crashed: run the model without padiff to see whether it does so there"
    return "native code crashed: one of the files is probably damaged, or made to do this"


def _recover(crash: Crash, reason: str) -> None:
    place = crash.notes.read(Note.PLACE)
    if not place:
        return
    from padiff.dumpfile import DumpError, open_dump  # noqa: PLC0415 - only after a crash
    from padiff.dumpfile.place import Place  # noqa: PLC0415

    try:
        kept = Place(Path(place), overwrite=False).recover(reason)
        count = 0 if kept is None else len({file.step for file in open_dump(kept).files})
    except DumpError as error:
        _say(f"padiff: {error.message}")
        return
    if kept is not None:
        steps = "1 whole step" if count == 1 else f"{count} whole steps"
        _say(f"padiff: kept: the {steps} recorded before, in {str(kept)!r}")


def _say(text: str) -> None:
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    click.echo(defused(shown), err=True)
