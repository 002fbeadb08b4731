"""Runs commands in forked processes, which may get a signal or lose a folder at any moment."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from padiff.cli.main import main

LOADED = frozenset({"h5py", "jinja2", "padiff", "rich", "safetensors"})
NOBODY = 65534


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    moments: int
    elapsed_s: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A signal, and when it comes."""

    number: signal.Signals | None
    """None: a folder that the command writes into goes instead."""
    moment: int = 0
    """Which thing that is done to a file, from 1."""
    after_s: float = 0.0
    """Or how long after the beginning; 0: at the moment."""

    def __str__(self) -> str:
        when = f"after {self.after_s:.4f} s" if self.after_s else f"at moment {self.moment}"
        return f"{'no folder' if self.number is None else self.number.name} {when}"


class Sender:
    """Counts what a process does to files below a folder, and sends it a signal."""

    def __init__(self, folder: Path, sent: Sent | None) -> None:
        self._folder = str(folder)
        self._sent = sent
        self._is_on = True
        self.count = 0
        sys.addaudithook(self._heard)
        number = None if sent is None else sent.number
        if sent is not None and number is not None and sent.after_s:
            before = signal.getsignal(number)
            signal.signal(signal.SIGALRM, lambda *_: self._send(number, before))
            signal.setitimer(signal.ITIMER_REAL, sent.after_s)

    def stop(self) -> None:
        """Send nothing more."""
        self._is_on = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _send(self, number: signal.Signals, before: object) -> None:
        """Send it if the command is at work, and not what tries it."""
        if self._is_on and signal.getsignal(number) is not before:
            os.kill(os.getpid(), number)

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._is_on or not event.startswith(("open", "os.", "shutil.", "tempfile.")):
            return
        places = arguments[:1] if event == "open" else arguments[:2]  # after it: how to open
        texts = [str(Path.cwd() / one) for one in places if isinstance(one, str | Path)]
        if any(text.startswith(self._folder) for text in texts):
            self.count += 1
            if self._sent is None or self.count != self._sent.moment:
                return
            if self._sent.number is not None:
                os.kill(os.getpid(), self._sent.number)
            else:
                self._is_on = False
                shutil.rmtree(Path(self._folder) / "out", ignore_errors=True)


def run(
    words: list[str], home: Path, sent: Sent | None = None, *, as_nobody: bool = False
) -> Ended:
    """Run a command in a forked process, which may get a signal."""
    begun_s = time.perf_counter()
    said = os.memfd_create("said")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _work(words, home, said, writer, sent, as_nobody=as_nobody)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        count = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(said, "rb") as file:
        file.seek(0)
        text = file.read().decode(errors="replace")
    elapsed_s = time.perf_counter() - begun_s
    return Ended(code=status, moments=int(count or b"0"), elapsed_s=elapsed_s, text=text)


def _work(
    words: list[str],
    home: Path,
    said: int,
    writer: int,
    sent: Sent | None,
    *,
    as_nobody: bool,
) -> None:
    code = 99
    try:
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout = sys.stderr = os.fdopen(said, "w")
        if as_nobody:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        sender = Sender(home, sent)
        code = main(words)
        sender.stop()
        sys.stdout.flush()
        os.write(writer, str(sender.count).encode())
    finally:
        os._exit(code)


def load(words: list[str]) -> None:
    """Import what a command does."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with (
                Path(os.devnull).open("w") as said,
                contextlib.redirect_stdout(said),
                contextlib.redirect_stderr(said),
            ):
                main(words)
            with os.fdopen(writer, "w") as pipe:
                pipe.write("\n".join(sys.modules))
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as names:
        found = names.read().split("\n")
    os.waitpid(child, 0)
    for name in found:
        if name.partition(".")[0] in LOADED:
            importlib.import_module(name)
