"""A parent that does nothing but wait, so that a crash of the work is told and nothing is lost.

A model can take the interpreter down (a kernel that reads a null pointer, an ``abort`` in a
library), and so can a damaged file the library that reads it. The work therefore runs in a child
that is forked before anything heavy is imported; it has the terminal, the streams and the devices
to itself. The parent hands on the signals that are sent to it, and turns the child's end into an
exit code and a message. Where there is no fork, under a debugger and with ``PADIFF_WATCH=0`` the
work runs in the process itself.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .joblog import defused

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

SWITCH = "PADIFF_WATCH"
_HANDED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_FROM_THE_TERMINAL = 0x80
"""SI_KERNEL of ``asm-generic/siginfo.h``: the whole process group has the signal already."""
_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of ``linux/prctl.h``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """How the child ended, other than by finishing its work."""

    signal: int | None
    """Number of the signal that killed it; None if it left by itself."""
    code: int
    """The status with which it left."""
    notes: Blackbox

    @property
    def name(self) -> str:
        """Describe what happened: ``SIGSEGV (segmentation fault)``."""
        if self.signal is None:
            return f"the code that was run ended the process with status {self.code}"
        try:
            name = signal.Signals(self.signal).name
        except ValueError:
            name = f"signal {self.signal}"
        return f"{name} ({signal.strsignal(self.signal) or 'unknown'})".lower().replace(
            name.lower(), name
        )


def can_watch() -> bool:
    """Return whether the work can run in a child here."""
    return (
        hasattr(os, "fork")
        and hasattr(signal, "sigwaitinfo")
        and sys.gettrace() is None
        and os.environ.get(SWITCH) != "0"
        and threading.current_thread() is threading.main_thread()
        and threading.active_count() == 1
    )


def watched(work: Callable[[Blackbox], int], crashed: Callable[[Crash], int]) -> int:
    """Do work in a child process, and tell of its crash.

    Args:
        work: Gives the exit code; runs in the child, where this function then returns it.
        crashed: Gives the exit code if the child did not finish; runs in the parent.

    Returns:
        The exit code, in both processes.
    """
    notes = Blackbox()
    handed_on = {getattr(signal, name) for name in _HANDED_ON}
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handed_on | {signal.SIGCHLD})
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _die_with(parent)
        notes.watch_faults()
        code = work(notes)
        notes.note(Note.CODE, str(code))
        return code
    status = _wait(child, handed_on)  # the mask stays: nothing interrupts what is to be told now
    done = notes.read(Note.CODE)
    if done.isdigit():
        return int(done)  # whatever the interpreter did while it shut down
    code = os.waitstatus_to_exitcode(status)
    return crashed(Crash(signal=-code if code < 0 else None, code=code, notes=notes))


def _wait(child: int, handed_on: set[signal.Signals]) -> int:
    """Wait for the child's end and hand on what it did not get itself."""
    while True:
        found = signal.sigwaitinfo(handed_on | {signal.SIGCHLD})
        if found.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
        elif found.si_code != _FROM_THE_TERMINAL:
            os.kill(child, found.si_signo)


def _die_with(parent: int) -> None:
    """Let the child be killed when its parent is: what a user kills must not go on."""
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415 - not in the parent

    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


_SLOT_BYTES = 8192
_LENGTH_BYTES = 4
_MOST_BYTES = _SLOT_BYTES - _LENGTH_BYTES
_FRAME = '  File "'


class Note(IntEnum):
    """What is noted."""

    PLACE = 0
    """Directory that the dump is to have."""
    STAGE = 1
    """``forward of step 2 of 5``."""
    CALL = 2
    """The innermost call that is running, ``encoder.0.attn#1``; empty between calls."""
    CODE = 3
    """The exit code, once all is done."""


class Blackbox:
    """Notes that a parent process can read after its child has died. Made before the fork.

    It is the ``Running`` of a recording, and takes part in its ``Progress``.
    """

    def __init__(self) -> None:
        """Share memory, and a nameless file for the last traceback."""
        self._memory = mmap.mmap(-1, len(Note) * _SLOT_BYTES)
        self._trace: IO[bytes] | None = None
        self._watches = False
        with suppress(OSError):  # no room anywhere: then a crash is reported without its lines
            self._trace = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process

    def note(self, what: Note, text: str) -> None:
        """Put a note in the place of the one before."""
        data = text.encode("utf-8", "surrogateescape")[:_MOST_BYTES]
        start = what * _SLOT_BYTES
        self._memory[start : start + _LENGTH_BYTES + len(data)] = (
            len(data).to_bytes(_LENGTH_BYTES, "little") + data
        )

    def read(self, what: Note) -> str:
        """Return what was noted last, ``""`` if nothing was."""
        start = what * _SLOT_BYTES + _LENGTH_BYTES
        length = int.from_bytes(self._memory[start - _LENGTH_BYTES : start], "little")
        data = self._memory[start : start + min(length, _MOST_BYTES)]
        return data.decode("utf-8", "surrogateescape")

    def place(self, directory: Path) -> None:
        """Note where the dump goes."""
        self.note(Note.PLACE, str(directory.absolute()))

    def stage(self, name: str) -> None:
        """Note what is being done; no call runs as it begins."""
        self.note(Note.STAGE, name)
        self.note(Note.CALL, "")
        self.watch_faults()

    def call(self, path: str, index: int) -> None:
        """Note which call runs now."""
        self.note(Note.CALL, f"{path or '(root)'}#{index}")

    def between_calls(self) -> None:
        """Note that no call runs."""
        self.note(Note.CALL, "")

    def watch_faults(self) -> None:
        """Let a fatal signal write the Python lines that were running, before all other handlers.

        Frameworks install handlers of their own when they are imported, which do not hand on to
        earlier ones: so this is done again at each stage. A user's own faulthandler is left alone.
        """
        if self._trace is None or (faulthandler.is_enabled() and not self._watches):
            return
        faulthandler.disable()
        faulthandler.enable(self._trace, all_threads=False)
        self._watches = True

    def last_lines(self) -> tuple[str, ...]:
        """Return the lines that a fatal signal wrote, the innermost first; often there are none."""
        if self._trace is None:
            return ()
        self._trace.seek(0)
        text = self._trace.read().decode("utf-8", "replace")
        return tuple(line.strip() for line in text.splitlines() if line.startswith(_FRAME))


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
