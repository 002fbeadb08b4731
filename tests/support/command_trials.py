"""Commands that write, met by signals at any moment, by a full disk, and by closed places.

Run as ``python -m tests.support.command_trials FOLDER TRIAL...``, since a test's own process has
threads; prints what each found as one line of JSON. Each command runs in a process forked from this
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
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from padiff.cli.main import main
from tests.support.confined import listing
from tests.support.forked_commands import Ended, Sent, load, run
from tests.support.trial_commands import INTO_A_FOLDER, TEMPORARY, TRIALS, prepare

if TYPE_CHECKING:
    from collections.abc import Callable

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
MODULES = ("accept", "compare", "dump", "extract", "formats", "map", "pack", "report", "weights")
DISK_BYTES = 16 << 20
TIMES = 25
"""Signals at any time, for each command and signal, where each moment is tried."""


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


def try_vanishing(folder: Path, every: int) -> dict[str, dict[str, int]]:
    """Take the folder away that commands write into, at every so many moments."""
    home = folder / "home"
    prepared(home)
    found = {}
    for place, (name, words) in enumerate(INTO_A_FOLDER.items()):
        shutil.rmtree(home / "out", ignore_errors=True)
        shutil.copytree(home / "base", home / "out" / "base")
        moments = run(words, home).moments
        codes: Counter[str] = Counter()
        for moment in range(1 + place % every, moments + 1, every):
            shutil.rmtree(home / "out", ignore_errors=True)
            shutil.copytree(home / "base", home / "out" / "base")
            before = without_out(home)
            ended = run(words, home, Sent(number=None, moment=moment))
            where = f"{name} at moment {moment} of {moments}: exit {ended.code}: {ended.text}"
            assert "Traceback" not in ended.text, where
            assert "internal error" not in ended.text, where
            assert ended.code in {0, 1} or (ended.code == 2 and "cannot" in ended.text), where
            assert without_out(home) == before, where
            codes[str(ended.code)] += 1
        found[name] = dict(codes)
    return found


def without_out(home: Path) -> dict[str, str]:
    return {name: text for name, text in listing(home).items() if not name.startswith("out")}


def try_full_temporary(folder: Path) -> dict[str, dict[str, int]]:
    """Leave no room, and little, for temporary files; there is enough for all else."""
    disk = mounted(folder / "disk")
    home = folder / "home"
    prepared(home)
    try:
        os.environ["TMPDIR"] = str(disk)
        tempfile.tempdir = None
        result = {}
        for left in (0, 2):
            fill(disk / "filler", left)
            codes = {}
            for name, words in TEMPORARY.items():
                ended = run(words, home)
                where = f"{name}: exit {ended.code}: {ended.text}"
                assert "Traceback" not in ended.text, where
                assert "internal error" not in ended.text, where
                assert ended.code != 2 or str(disk) in ended.text or "TMPDIR" in ended.text, where
                assert [path.name for path in disk.iterdir()] == ["filler"], where
                codes[name] = ended.code
            result[f"{left} pages left"] = codes
        return result
    finally:
        os.environ.pop("TMPDIR")
        tempfile.tempdir = None
        os.chdir("/")
        subprocess.run(["umount", str(disk)], check=True)


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


KINDS: dict[str, Callable[..., dict[str, dict[str, int]]]] = {
    "signals": try_signals,
    "vanishing": try_vanishing,
    "full": try_full,
    "full-temporary": try_full_temporary,
    "read-only": try_read_only,
    "foreign": try_foreign,
}


def run_all() -> None:
    """Run some kinds of trials and print what each found."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("kinds", nargs="+", choices=KINDS)
    options.add_argument("--every", type=int, default=1)
    given = options.parse_args()
    for module in MODULES:
        importlib.import_module(f"padiff.cli.{module}")
    importlib.import_module("torch")  # once, before the forks
    load_all()
    for kind in given.kinds:
        folder = given.folder.resolve() / kind
        folder.mkdir()
        every = (given.every,) if kind in {"signals", "vanishing"} else ()
        print(json.dumps({kind: KINDS[kind](folder, *every)}))


if __name__ == "__main__":
    run_all()
