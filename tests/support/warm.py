"""Start Python programs out of a process that has imported what they need.

Importing torch or Paddle takes 1.5 s of processor time, all of padiff 0.4 s, and the tests start
some 500 programs. A program that is started here is a fork of a process that did nothing but
import: it has a process, streams, arguments, environment and exit of its own. A test of what
happens at the start of the interpreter asks for a fresh one, and so does a variable that is read
there.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import warmed
from tests.support.warmed import FRAMEWORKS, MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STORES = {"s3://": "s3fs", "ssh://": "fsspec.implementations.sftp"}
"""What a command imports of which a word begins so."""
RANKS = ("torch", "torch.distributed.fsdp", "torch.distributed.pipelining")
"""What the scripts import that run on several ranks."""
WITHIN_S = 300.0
LATE = frozenset(
    {
        *(
            "CI",
            "COLUMNS",
            "CUBLAS_WORKSPACE_CONFIG",
            "EPS",
            "FORCE_COLOR",
            "HOME",
            "NO_COLOR",
            "TERM",
        ),
        *("AWS_ACCESS_KEY_ID", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED"),
        *("AWS_ENDPOINT_URL", "AWS_SECRET_ACCESS_KEY", "NO_PROXY", "SSH_AUTH_SOCK"),
        *("LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"),
        *("PADIFF_DEBUG", "PADIFF_RANK_WAIT_S", "PADIFF_TEST_BLOCKED"),
        *("PYTEST_CURRENT_TEST", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONPATH"),
    }
)
"""Variables that nothing reads before a program's own code runs, or that are set again then."""


@dataclass
class Started:
    """A program that was started."""

    pid: int
    parent: Warm
    status: int | None = None

    def wait(self, until_s: float) -> int:
        """Wait for its end, until a moment of the monotonic clock; return the exit status."""
        while self.status is None:
            self.parent.listen(until_s)
        return self.status


@dataclass
class Warm:
    """A process that has imported some modules of frameworks, and the programs forked from it."""

    imported: tuple[str, ...]
    base: Warm | None = None
    """What it is forked from; None starts an interpreter, which imports padiff first."""
    environment: dict[str, str] = field(default_factory=dict)
    loaded: frozenset[str] = frozenset()
    """Names of the packages that it has imported."""
    _running: dict[int, Started] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start it, and wait until it has imported everything."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._end: Callable[[], object]
        with theirs:
            if self.base is None:
                self.environment = os.environ | {"OMP_NUM_THREADS": "1"}
                self._end = subprocess.Popen(
                    [sys.executable, warmed.__file__, str(theirs.fileno()), *self.imported],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                ).wait
            else:
                self.environment = self.base.environment
                started = self.base.fork({"imported": self.imported}, [theirs.fileno()])
                self._end = lambda: started.wait(time.monotonic() + WITHIN_S)
        atexit.register(self.close)
        self._socket.settimeout(WITHIN_S)
        self.loaded = frozenset(self._receive()["loaded"])

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._end()

    def can_start(self, environment: Mapping[str, str], blocked: Sequence[str]) -> bool:
        """Return whether a program would notice no difference to one of a fresh interpreter."""
        changed = {
            name
            for name in environment.keys() | self.environment.keys()
            if environment.get(name) != self.environment.get(name)
        }
        return changed <= LATE and self.loaded.isdisjoint(blocked)

    def start(
        self, words: Sequence[str], cwd: Path, environment: Mapping[str, str], streams: list[int]
    ) -> Started:
        """Start what ``python WORDS`` does, with three open files as its streams."""
        request = {"words": list(words), "cwd": str(cwd), "environment": dict(environment)}
        return self.fork(request, streams)

    def fork(self, request: Mapping[str, Any], files: list[int]) -> Started:
        """Let it fork a process, which gets a request and some open files."""
        self._socket.settimeout(WITHIN_S)
        socket.send_fds(self._socket, [json.dumps(request).encode()], files)
        while "status" in (reply := self._receive()):
            self._ended(reply)
        started = Started(pid=reply["pid"], parent=self)
        self._running[started.pid] = started
        return started

    def listen(self, until_s: float) -> None:
        """Wait for the end of any of its programs."""
        self._socket.settimeout(max(0.01, until_s - time.monotonic()))
        self._ended(self._receive())

    def _ended(self, reply: dict[str, Any]) -> None:
        self._running.pop(reply["pid"]).status = reply["status"]

    def _receive(self) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(self._socket.recv(MESSAGE_BYTES) or b"{}")
        assert reply, f"the process that has imported {self.imported} is gone"
        return reply


@functools.cache
def _warm(imported: tuple[str, ...], worker: int) -> Warm:
    """Return the process with these modules, one for each process that runs tests."""
    assert worker == os.getpid()
    return Warm(imported=imported, base=_warm((), worker) if imported else None)


def warm_with(*imported: str) -> Warm:
    """Return the process that has imported some frameworks."""
    return _warm(imported, os.getpid())


def warm_for(words: Sequence[str], cwd: Path) -> Warm:
    """Return the process that has the framework which a command imports, and what its URLs need.

    The framework is what the Python files import which the command names; those of ``pytest`` are
    all in the folder.
    """
    code = words[1:2] if words[0] == "-c" else []
    named = (cwd / word.partition(":")[0] for word in words)
    paths = [path for path in named if path.suffix == ".py" and path.is_file()]
    paths += cwd.glob("test_*.py") if "pytest" in words else ()
    texts = [*code, *(path.read_text(encoding="utf-8", errors="replace") for path in paths)]
    found = tuple(
        name for name in FRAMEWORKS if re.search(rf"\b(?:import|from) {name}\b", "\n".join(texts))
    )
    stores = {
        module for word in words for begin, module in STORES.items() if word.startswith(begin)
    }
    return warm_with(*(found if len(found) == 1 else ()), *sorted(stores))


def run_warm(
    words: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    warm: Warm,
) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS`` as ``subprocess.run`` does, with captured streams."""
    with contextlib.ExitStack() as opened:
        reading, writing = [], []
        for _ in ("stdout", "stderr"):
            reader, writer = os.pipe()
            reading.append(opened.enter_context(os.fdopen(reader, "rb", buffering=0)))
            writing.append(os.fdopen(writer, "wb"))
        with writing[0], writing[1], Path(os.devnull).open("rb") as nothing:
            streams = [file.fileno() for file in (nothing, *writing)]
            started = warm.start(words, cwd, environment, streams)
        until_s = time.monotonic() + WITHIN_S
        try:
            out, err = _read_all(reading, until_s)
            status = started.wait(until_s)
        except TimeoutError:
            os.kill(started.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(words), WITHIN_S) from None
    return subprocess.CompletedProcess(
        list(words), os.waitstatus_to_exitcode(status), _text(out), _text(err)
    )


def run_ranks(
    words: Sequence[str], cwd: Path, environment: Mapping[str, str], count: int
) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS`` on some ranks at once, as torchrun does."""
    warm = warm_with(*RANKS)
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    shared |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    with tempfile.TemporaryFile("w+") as said, Path(os.devnull).open("rb") as nothing:
        streams = [nothing.fileno(), said.fileno(), said.fileno()]
        ranks = [
            warm.start(
                words, cwd, {**environment, **shared, "RANK": rank, "LOCAL_RANK": rank}, streams
            )
            for rank in map(str, range(count))
        ]
        until_s = time.monotonic() + WITHIN_S
        try:
            codes = [os.waitstatus_to_exitcode(rank.wait(until_s)) for rank in ranks]
        finally:
            for rank in ranks:
                if rank.status is None:
                    os.kill(rank.pid, signal.SIGKILL)
        said.seek(0)
        return subprocess.CompletedProcess(list(words), max(codes, key=abs), said.read(), "")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _text(content: bytes) -> str:
    return content.decode().replace("\r\n", "\n").replace("\r", "\n")


def _read_all(files: list[Any], until_s: float) -> list[bytes]:
    """Read pipes to their ends, whichever has something."""
    contents = {file: bytearray() for file in files}
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.01, until_s - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                read = key.fileobj.read(1 << 16)  # type: ignore[union-attr]
                contents[key.fileobj] += read
                if not read:
                    selector.unregister(key.fileobj)
    return [bytes(content) for content in contents.values()]
