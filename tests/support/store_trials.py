"""What a store has to do for dumps, whichever it is: tests that each store's file inherits."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumper.recording.named import write_named
from tests.support.command import run_padiff, run_python
from tests.support.indexes import FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["Store", "StoreTrials", "free_port", "needed", "served"]

_ARRAYS = 6
_ELEMENTS = 1 << 19
"""2 MiB of each array: far more than is read beside a table of contents."""
_STARTS_S = 120
"""How long a server may take to begin, in seconds."""
_PLACES = """
import sys
import fsspec

system, root = fsspec.core.url_to_fs(sys.argv[1])
"""
_REMOVE = """
system.rm_file(f"{root}/{sys.argv[2]}")
"""
_REPLACE = """
import time
from padiff.dumpfile import DumpFormatError, open_dump

with open_dump(sys.argv[1]).open() as file:
    time.sleep(1.1)  # some stores know the second in which something was written
    system.put_file(sys.argv[2], f"{root}/{sys.argv[3]}")
    try:
        file.array(file.index.records[3])
    except DumpFormatError as error:
        print(error)
"""


@dataclass(kw_only=True)
class Store:
    """A server on loopback, and how it is reached."""

    folder: Path
    """Of this test: it holds the dumps ``a`` and ``b``."""
    url: str
    """Below which dumps are put."""
    environment: dict[str, str]
    """With credentials."""
    stranger: dict[str, str]
    """Without, or with wrong ones."""
    secrets: tuple[str, ...] = ()
    """What no message may show."""
    pushed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Write two dumps of which one array differs."""
        rows = np.random.default_rng(0).standard_normal((_ARRAYS, _ELEMENTS)).astype(np.float32)
        arrays = {f"w{place}": row for place, row in enumerate(rows)}
        write_named(self.folder / "a", [arrays])
        write_named(self.folder / "b", [arrays | {"w4": rows[4] + 1}])

    def padiff(self, *words: str, code: int = 0, environment: dict[str, str] | None = None) -> str:
        """Run a command, check its exit code, and return what it wrote on both streams."""
        known = self.environment if environment is None else environment
        done = run_padiff(*words, cwd=self.folder, environment=known)
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        assert "Traceback" not in said
        assert not any(secret in said for secret in self.secrets)
        return said

    def push(self, name: str, place: str) -> str:
        """Put a dump there, unless it is; return its URL."""
        url = f"{self.url}/{place}"
        if place not in self.pushed:
            assert f"pushed: {url}" in self.padiff("push", name, url)
            self.pushed.add(place)
        return url

    def python(self, script: str, *words: str) -> str:
        """Run a script that has ``system`` and ``root``, and return what it printed."""
        code = _PLACES + script
        done = run_python("-c", code, *words, cwd=self.folder, environment=self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


class StoreTrials:
    """Each takes the fixture ``store``."""

    def test_pushed_dumps_are_compared_and_shown_like_those_on_a_disk(self, store: Store) -> None:
        urls = store.push("a", "a"), store.push("b", "b")

        assert store.padiff("compare", urls[0], urls[0]).startswith("MATCH")
        said = store.padiff("compare", *urls, code=1)
        assert said.startswith(f"DIVERGED: 1 of {_ARRAYS} arrays")
        for url, name in zip(urls, ("a", "b"), strict=True):
            said = said.replace(url, name)
        on_disk = store.padiff("compare", "a", "b", code=1)
        assert said.splitlines() == on_disk.splitlines()
        shown = store.padiff("show", urls[0], "--records")
        assert shown.replace(urls[0], "a") == store.padiff("show", "a", "--records")
        deep = f"ok: {urls[0]} is a valid dump (all elements read)\n"
        assert store.padiff("check", "--deep", urls[0]) == deep

    def test_a_dump_that_is_there_is_replaced_only_when_asked(self, store: Store) -> None:
        url = store.push("a", "kept")

        assert "a dump is there already" in store.padiff("push", "b", url, code=2)
        store.padiff("compare", "a", url)
        store.padiff("push", "b", url, "--overwrite")
        store.padiff("compare", "b", url)

    def test_a_dump_that_is_not_there_is_said(self, store: Store) -> None:
        said = store.padiff("compare", "a", f"{store.url}/nothing", code=2)

        assert "expected manifest.json there, found none" in said
        assert "hint:" in said

    def test_an_object_that_is_not_there_is_said(self, store: Store) -> None:
        url = store.push("a", "part")
        store.python(_REMOVE, url, FILE)

        said = store.padiff("compare", "a", url, code=2)

        assert f"expected the object '{FILE}', found none" in said
        assert "hint:" in said

    def test_an_object_that_is_replaced_while_it_is_read_is_refused(self, store: Store) -> None:
        url = store.push("a", "changing")

        said = store.python(_REPLACE, url, str(store.folder / "a" / FILE), FILE)

        assert "it changed while it was read" in said

    def test_without_credentials_nothing_is_read_or_written(self, store: Store) -> None:
        url = store.push("a", "a")
        environment = store.environment | store.stranger

        for words in (("compare", "a", url), ("push", "b", f"{store.url}/new")):
            said = store.padiff(*words, code=2, environment=environment)
            assert words[-1] in said
            assert "hint:" in said
        assert "found none" in store.padiff("check", f"{store.url}/new", code=2)


def free_port() -> int:
    """Return a port of loopback that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def served(command: Sequence[str | Path], log: Path, words: str) -> Iterator[None]:
    """Run a server for as long as the block runs, from when it wrote some words on."""
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as server:
        try:
            until = time.monotonic() + _STARTS_S
            while words not in log.read_text(errors="replace"):
                assert time.monotonic() < until, log.read_text()[-4000:]
                assert server.poll() is None, log.read_text()[-4000:]
                time.sleep(0.2)
            yield
        finally:
            server.kill()


def needed(name: str) -> str:
    """Return what ``make stores`` sets: where a server is installed."""
    found = os.environ.get(name)
    assert found, f"expected the variable {name}, as `make stores` sets it"
    return found
