"""Run commands in a forked process with little memory and time, and see what it touched."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from padiff.cli.main import main
from tests.support.warmed import load_padiff

if TYPE_CHECKING:
    from collections.abc import Sequence

load_padiff()  # once, not in each forked process

MEMORY_BYTES = 420 << 20
"""More than the process has when it is forked."""
TIME_S = 30
"""Of processor time for each command, so that a busy machine changes nothing."""
WAIT_S = 10 * TIME_S
"""Of time, for a command that waits for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How commands ended."""

    codes: tuple[int, ...]
    """Exit codes; a single negative one is the signal that ended them all."""
    text: str
    """All that they printed."""


def confined(*commands: Sequence[str | Path], folder: Path) -> Outcome:
    """Run command lines one after the other in one process that is held short.

    Args:
        commands: Each without ``padiff``.
        folder: Becomes the working directory.
    """
    with tempfile.TemporaryFile("w+b") as said:
        child = os.fork()
        if child == 0:
            _run(commands, folder, said.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        *lines, last = said.read().decode("utf-8", "replace").rsplit("\n", 1)
    text = lines[0] if lines else last
    if status != 0:
        return Outcome(codes=(status,), text=text)
    return Outcome(codes=tuple(int(code) for code in last.split()), text=text)


def _run(commands: Sequence[Sequence[str | Path]], folder: Path, said: int) -> None:
    """Be the child; the last line of what it writes are the exit codes."""
    try:
        gc.freeze()  # what is there already is collected by nobody, and not copied
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.chdir(folder)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        limit = _data_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        codes = []
        with open(1, "w", closefd=False) as out:
            sys.stdout = sys.stderr = out
            for words in commands:
                signal.alarm(WAIT_S)
                signal.setitimer(signal.ITIMER_PROF, TIME_S)
                codes.append(main([str(word) for word in words]))
                out.flush()
            out.write("\n" + " ".join(map(str, codes)))
        os._exit(0)
    finally:
        os._exit(99)


def _data_bytes() -> int:
    """Give how much writable memory the process has."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) << 10
    raise AssertionError("expected a Linux kernel")


def listing(folder: Path) -> dict[str, str]:
    """Give all entries below a folder, and what tells whether they changed."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = "" if path.is_dir() else f"{status.st_size} {status.st_mtime_ns}"
        found[str(path.relative_to(folder))] = f"{status.st_mode} {status.st_ino} {content}"
    return found
