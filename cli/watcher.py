"""A parent that does nothing but wait, so that a crash of the work is told and nothing is lost.

A model can take the interpreter down (a kernel that reads a null pointer, an ``abort`` in a
library), and so can a damaged file the library that reads it. The work therefore runs in a child
that is forked before anything heavy is imported; it has the terminal, the streams and the devices
to itself. The parent hands on the signals that are sent to it, and turns the child's end into an
exit code and a message. Where there is no fork, under a debugger and with ``PADIFF_WATCH=0`` the
work runs in the process itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .blackbox import Blackbox, Note

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Crash", "can_watch", "watched"]

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
        """Say what happened: ``SIGSEGV (segmentation fault)``."""
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
    """Tell whether the work can run in a child here."""
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
