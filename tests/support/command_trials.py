"""Commands that write, met by signals at every moment, by a full disk, and by closed places.

Run as ``python -m tests.support.command_trials FOLDER TRIAL``, since a test's own process has
threads; prints what it found as one line of JSON. Each command runs in a process forked from this
one: importing a framework takes seconds, a forked command milliseconds. A moment is one thing that
a command does to a file below its folder.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from padiff.cli.main import main
from padiff.dumper.weights.checkpoint import read_arrays, write_arrays
from padiff.dumpfile import open_dump, validate
from padiff.dumpfile.packed import pack, unpacked
from padiff.dumpfile.place import Place
from tests.support.confined import listing
from tests.support.tiny_net import tiny_net

if TYPE_CHECKING:
    from collections.abc import Callable

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
MODULES = ("accept", "compare", "dump", "extract", "formats", "map", "pack", "report", "weights")
NOBODY = 65534
DISK_BYTES = 16 << 20
NET = """
import torch


def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One command, what lies there before it, and what must hold afterwards."""

    words: list[str]
    whole: Callable[[Path], object]
    """Raises if what the command writes is there and not whole."""


def prepare(home: Path) -> None:
    """Write what the commands read, and an older version of what each writes."""
    home.mkdir()
    tiny_net().write(home / "a")
    tiny_net(weight_change=1.0).write(home / "b")
    tiny_net().write(home / "base")
    (home / "net.py").write_text(NET)
    np.save(home / "x.npy", np.ones((2, 3), np.float32))
    pack(home / "a", home / "packed.padiff.zip")
    for name in ("r.json", "r.html", "again.csv", "map.toml", "plan.toml"):
        (home / name).write_text("old" if name != "r.json" else "{}")
    write_arrays(home / "w.safetensors", {"old": np.ones(2, np.float32)})
    os.chdir(home)
    assert run(["compare", "a", "b", "-q", "--json", "result.json"], home, None).code == 1
    assert run(dump_words(), home, None).code == 0


def dump_words() -> list[str]:
    words = ["dump", "--model", "net.py:build", "--inputs", "x.npy", "--name", "d", "--steps", "2"]
    return [*words, "--out", ".", "--overwrite"]


def packed_is_whole(home: Path) -> None:
    with unpacked(home / "packed.padiff.zip") as place:
        assert validate(place, deep=True) == []


def dump_is_whole(name: str) -> Callable[[Path], None]:
    def check(home: Path) -> None:
        Place(home / name, overwrite=False).recover()
        assert validate(home / name, deep=True) == []
        kept = home / f"{name}.incomplete"
        assert not kept.exists() or open_dump(kept).manifest.incomplete

    return check


def text_is_whole(name: str, end: str) -> Callable[[Path], None]:
    def check(home: Path) -> None:
        text = (home / name).read_text()
        assert text in {"old", "{}"} or text.rstrip().endswith(end)

    return check


def extracted_is_whole(home: Path) -> None:
    for path in (home / "layer").glob("*.*"):
        if path.name.startswith("."):
            continue
        if path.suffix == ".npz":
            assert np.load(path).files
        elif path.suffix == ".json":
            assert json.loads(path.read_text())
        else:
            assert "__main__" in path.read_text()
            compile(path.read_text(), path.name, "exec")


TRIALS = {
    "dump": Trial(words=dump_words(), whole=dump_is_whole("d")),
    "accept": Trial(words=["accept", "base", "b", "--reason", "new"], whole=dump_is_whole("base")),
    "pack": Trial(
        words=["pack", "b", "-o", "packed.padiff.zip", "--overwrite"], whole=packed_is_whole
    ),
    "compare": Trial(
        words=["compare", "a", "b", "-q", "--json", "r.json", "--html", "r.html"],
        whole=lambda home: (
            json.loads((home / "r.json").read_text()),
            text_is_whole("r.html", "</html>")(home),
        ),
    ),
    "report": Trial(
        words=["report", "result.json", "--csv", "again.csv"], whole=text_is_whole("again.csv", "")
    ),
    "map": Trial(
        words=["map", "a", "b", "-o", "map.toml", "--overwrite"],
        whole=text_is_whole("map.toml", ""),
    ),
    "plan": Trial(
        words=["weights", "plan", "a", "b", "-o", "plan.toml"],
        whole=text_is_whole("plan.toml", ""),
    ),
    "convert": Trial(
        words=["weights", "convert", "a", "--like", "b", "--to", "w.safetensors", "--overwrite"],
        whole=lambda home: read_arrays(home / "w.safetensors"),
    ),
    "extract": Trial(
        words=["extract", "a", "b", "--module", "fc1", "-o", "layer"], whole=extracted_is_whole
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    moments: int
    text: str


class Sender:
    """Counts what a process does to files below a folder, and sends it a signal at one moment."""

    def __init__(self, folder: Path, number: signal.Signals | None, moment: int) -> None:
        self._folder = str(folder)
        self._number = number
        self._moment = moment
        self._is_on = True
        self.count = 0
        sys.addaudithook(self._heard)

    def stop(self) -> None:
        """Send nothing more."""
        self._is_on = False

    def _heard(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._is_on or not event.startswith(("open", "os.", "shutil.", "tempfile.")):
            return
        texts = [str(Path.cwd() / one) for one in arguments if isinstance(one, str | Path)]
        if any(text.startswith(self._folder) for text in texts):
            self.count += 1
            if self._number is not None and self.count == self._moment:
                os.kill(os.getpid(), self._number)


def run(
    words: list[str],
    home: Path,
    number: signal.Signals | None,
    moment: int = 0,
    *,
    as_nobody: bool = False,
) -> Ended:
    """Run a command in a forked process, which gets a signal at a moment."""
    said = os.memfd_create("said")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _work(words, home, said, writer, (number, moment), as_nobody=as_nobody)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        count = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(said, "rb") as file:
        file.seek(0)
        text = file.read().decode(errors="replace")
    return Ended(code=status, moments=int(count or b"0"), text=text)


def _work(
    words: list[str],
    home: Path,
    said: int,
    writer: int,
    when: tuple[signal.Signals | None, int],
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
        sender = Sender(home, *when)
        code = main(words)
        sender.stop()
        sys.stdout.flush()
        os.write(writer, str(sender.count).encode())
    finally:
        os._exit(code)


def hidden(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob(".*"))


def try_one(name: str, home: Path, number: signal.Signals, every: int, first: int) -> Counter[str]:
    """Send a signal at every so many moments of a command; gives how often it ended how."""
    trial = TRIALS[name]
    found: Counter[str] = Counter()
    moments = run(trial.words, home, None).moments
    assert hidden(home) == [], name
    assert moments > 0, name
    for moment in range(1 + first % every, moments + 1, every):
        ended = run(trial.words, home, number, moment)
        where = f"{name}, {number.name} at moment {moment} of {moments}: exit {ended.code}: "
        where += ended.text[-1500:]
        assert ended.code in {0, 1, CODES[number]}, where
        assert "Traceback" not in ended.text, where
        assert "internal error" not in ended.text, where
        trial.whole(home)
        found[str(ended.code)] += 1
        if (moment // every) % 4 == 0 or moment + every > moments:
            assert run(trial.words, home, None).code in {0, 1}, where
            assert hidden(home) == [], where
            trial.whole(home)
    return found


def try_signals(folder: Path, every: int) -> dict[str, dict[str, int]]:
    """Try all commands with all signals; gives how often they ended how."""
    home = folder / "home"
    prepare(home)
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
        ended = run(trial.words, home, None, as_nobody=as_nobody)
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
        prepare(home)
        result = {}
        for left in (0, 1, 5, 30):
            fill(disk / "filler", left)
            result[f"{left} pages left"] = met(home, "No space left on device")
        os.environ["TMPDIR"] = str(disk)
        tempfile.tempdir = None
        fill(disk / "filler", 2)
        result["little temporary space"] = {
            "check": run(["check", "packed.padiff.zip"], home, None).code,
            "compare": run(["compare", "a", "b", "-q"], home, None).code,
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
        prepare(home)
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
    prepare(home)
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
    folder = given.folder.resolve()
    if given.kind == "signals":
        result = try_signals(folder, given.every)
    else:
        kinds = {"full": try_full, "read-only": try_read_only, "foreign": try_foreign}
        result = kinds[given.kind](folder)
    print(json.dumps(result))


if __name__ == "__main__":
    run_all()
