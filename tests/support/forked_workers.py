"""Processes that padiff starts, forked from one that has imported their framework."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any

from padiff import models
from padiff.ops.workers import worker
from tests.support.command import run_python
from tests.support.warm import Started, warm_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

__all__ = ["fork_dumps", "fork_workers"]


@dataclass(frozen=True, kw_only=True)
class _Forked:
    """What a worker's starter has of it, as of a ``subprocess.Popen``."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    started: Started

    def wait(self, timeout: float = 60) -> int:
        """Wait for its end."""
        try:
            return self.started.wait(time.monotonic() + timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired([], timeout) from None

    def kill(self) -> None:
        """End it."""
        os.kill(self.started.pid, 9)


def fork_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process fork its workers, where how they are started is not tested."""
    monkeypatch.setattr(worker, "subprocess", _Subprocess())


def fork_dumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``compare_models`` fork its dumps likewise."""

    def run(words: Sequence[str], *, check: bool, **how: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401
        if words[0] != sys.executable:
            return subprocess.run(words, check=check, **how)
        return run_python(*words[1:], cwd=Path.cwd())

    monkeypatch.setattr(models, "subprocess", SimpleNamespace(run=run))


class _Subprocess:
    """What a worker's starter uses of ``subprocess``."""

    PIPE, TimeoutExpired = subprocess.PIPE, subprocess.TimeoutExpired

    def Popen(  # noqa: N802 -- as there
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int,
        stdout: int,
        stderr: IO[bytes],
    ) -> _Forked | subprocess.Popen[bytes]:
        """Start another interpreter, or fork what this one would become."""
        python, _, *command = words
        if python != sys.executable:
            return subprocess.Popen(words, env=env, stdin=stdin, stdout=stdout, stderr=stderr)
        asked, asking = os.pipe()
        answering, answered = os.pipe()
        warm = warm_with(command[1])
        started = warm.start(command, Path.cwd(), env, [asked, answered, stderr.fileno()])
        os.close(asked)
        os.close(answered)
        return _Forked(
            stdin=os.fdopen(asking, "wb"), stdout=os.fdopen(answering, "rb"), started=started
        )
