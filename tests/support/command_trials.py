"""Commands that write, met by signals at any moment, by a full disk, and by closed places.

Run as ``python -m tests.support.command_trials FOLDER TRIAL``, since a test's own process has
threads; prints what it found as one line of JSON. Each command runs in a process forked from this
one: importing a framework takes seconds, a forked command milliseconds. A moment is one thing that
a command does to a file below its folder; others are drawn from the time that it takes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from padiff.cli.main import main
from tests.support.confined import listing
from tests.support.trial_commands import TRIALS, prepare

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
MODULES = ("accept", "compare", "dump", "extract", "formats", "map", "pack", "report", "weights")
LOADED = frozenset({"h5py", "jinja2", "padiff", "rich", "safetensors"})
NOBODY = 65534
DISK_BYTES = 16 << 20
TIMES = 25
"""Signals at any time, for each command and signal, where each moment is tried."""


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

    number: signal.Signals
    moment: int = 0
    """Which thing that is done to a file, from 1."""
    after_s: float = 0.0
    """Or how long after the beginning; 0: at the moment."""

    def __str__(self) -> str:
        when = f"after {self.after_s:.4f} s" if self.after_s else f"at moment {self.moment}"
        return f"{self.number.name} {when}"


class Sender:
    """Counts what a process does to files below a folder, and sends it a signal."""

    def __init__(self, folder: Path, sent: Sent | None) -> None:
        self._folder = str(folder)
        self._sent = sent
        self._is_on = True
        self.count = 0
        sys.addaudithook(self._heard)
        if sent is not None and sent.after_s:
            before = signal.getsignal(sent.number)
            signal.signal(signal.SIGALRM, lambda *_: self._send(sent.number, before))
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
            if self._sent is not None and self.count == self._sent.moment:
                os.kill(os.getpid(), self._sent.number)


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


def prepared(home: Path) -> None:
    """Write what the commands read, by commands in forked processes."""
    prepare(home, lambda words, place: run(words, place).code)


def load_all() -> None:
    """Import what the commands do, in this process, so that not each forked one has to."""
    with tempfile.TemporaryDirectory(prefix="padiff-test-") as folder:
        prepared(Path(folder) / "home")
        for trial in TRIALS.values():
            load(trial.words)
        os.chdir("/")


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


def hidden(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob(".*"))


def all_sent(ended: Ended, number: signal.Signals, every: int, first: int) -> list[Sent]:
    """Give a signal for every so many moments of a command, and for as many of any time."""
    chance = random.Random(number + first)
    moments = range(1 + first % every, ended.moments + 1, every)
    at_moments = [Sent(number=number, moment=moment) for moment in moments]
    times_s = [chance.uniform(0.005, ended.elapsed_s) for _ in range(max(1, TIMES // every))]
    return at_moments + [Sent(number=number, after_s=time_s) for time_s in times_s]


def try_one(name: str, home: Path, number: signal.Signals, every: int, first: int) -> Counter[str]:
    """Send a signal at every so many moments of a command; gives how often it ended how."""
    trial = TRIALS[name]
    found: Counter[str] = Counter()
    usual = run(trial.words, home)
    assert hidden(home) == [], name
    assert usual.moments > 0, name
    signals = all_sent(usual, number, every, first)
    for place, sent in enumerate(signals):
        ended = run(trial.words, home, sent)
        where = f"{name}, {sent} of {usual.moments}: exit {ended.code}: {ended.text[-1500:]}"
        assert ended.code in {0, 1, CODES[number]}, where
        assert "Traceback" not in ended.text, where
        assert "internal error" not in ended.text, where
        trial.whole(home)
        found[str(ended.code)] += 1
        if place % 4 == 0 or place + 1 == len(signals):
            assert run(trial.words, home).code in {0, 1}, where
            assert hidden(home) == [], where
            trial.whole(home)
    return found


def try_signals(folder: Path, every: int) -> dict[str, dict[str, int]]:
    """Try all commands with all signals; gives how often they ended how."""
    home = folder / "home"
    prepared(home)
    return {
        f"{name} {number.name}": dict(try_one(name, home, number, every, place))
        for place, name in enumerate(TRIALS)
        for number in CODES
    }


# -- places that cannot be written


def mounted(folder: Path) -> Path:
    """Give a small file system in memory, at a folder that is made."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs"]
    subprocess.run(["mount", *options, str(folder)], check=True)
    return folder


def met(home: Path, words: str, *, as_nobody: bool = False) -> dict[str, int]:
    """Run all commands where they cannot write, but for a little; gives their exit codes."""
    before = listing(home)
    found = {}
    for name, trial in TRIALS.items():
        ended = run(trial.words, home, as_nobody=as_nobody)
        where = f"{name}: exit {ended.code}: {ended.text[-1500:]}"
        assert "Traceback" not in ended.text, where
        assert "internal error" not in ended.text, where
        assert ended.code in {0, 1} or (ended.code == 2 and words in ended.text), where
        if listing(home) != before:
            trial.whole(home)
            before = listing(home)
        assert hidden(home) == [], where
        found[name] = ended.code
    return found


def try_full(folder: Path) -> dict[str, dict[str, int]]:
    """Fill a disk up to the last byte, and to less than what the commands need."""
    disk = mounted(folder / "disk")
    try:
        home = disk / "home"
        prepared(home)
        result = {}
        for left in (0, 1, 5, 30):
            fill(disk / "filler", left)
            result[f"{left} pages left"] = met(home, "No space left on device")
        os.environ["TMPDIR"] = str(disk)
        tempfile.tempdir = None
        fill(disk / "filler", 2)
        result["little temporary space"] = {
            "check": run(["check", "packed.padiff.zip"], home).code,
            "compare": run(["compare", "a", "b", "-q"], home).code,
        }
        return result
    finally:
        os.chdir("/")
        subprocess.run(["umount", str(disk)], check=True)


def fill(path: Path, left: int) -> None:
    """Let a file take all room of its disk but so many pages."""
    path.unlink(missing_ok=True)
    free = shutil.disk_usage(path.parent).free
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - left * mmap.PAGESIZE)


def try_read_only(folder: Path) -> dict[str, dict[str, int]]:
    """Let the file system be read-only."""
    disk = mounted(folder / "disk")
    try:
        home = disk / "home"
        prepared(home)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = listing(home)
        found = met(home, "Read-only file system")
        assert listing(home) == before
        return {"read-only": found}
    finally:
        os.chdir("/")
        subprocess.run(["umount", str(disk)], check=True)


def try_foreign(folder: Path) -> dict[str, dict[str, int]]:
    """Let another user run the commands, who may only read."""
    home = folder / "home"
    prepared(home)
    with (folder / "said").open("w") as said, contextlib.redirect_stdout(said):
        for trial in TRIALS.values():
            assert main(trial.words) in {0, 1}  # imports all that the other user could not read
    before = listing(home)
    found = met(home, "Permission denied", as_nobody=True)
    assert listing(home) == before
    return {"foreign": found}


def run_all() -> None:
    """Run one kind of trial and print what was found."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("kind", choices=["signals", "full", "read-only", "foreign"])
    options.add_argument("--every", type=int, default=1)
    given = options.parse_args()
    for module in MODULES:
        importlib.import_module(f"padiff.cli.{module}")
    importlib.import_module("torch")  # once, before the forks
    load_all()
    folder = given.folder.resolve()
    if given.kind == "signals":
        result = try_signals(folder, given.every)
    else:
        kinds = {"full": try_full, "read-only": try_read_only, "foreign": try_foreign}
        result = kinds[given.kind](folder)
    print(json.dumps(result))


if __name__ == "__main__":
    run_all()
