"""Kill a process at a random moment of its work."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

KILLED = -signal.SIGKILL


def duration_s(work: Callable[[], object]) -> float:
    """Measure how long the work takes in a process of its own."""
    started_s = time.perf_counter()
    assert run_and_kill(work, after_s=60.0) == 0
    return time.perf_counter() - started_s


def run_and_kill(work: Callable[[], object], *, after_s: float) -> int:
    """Do the work in a forked process that is killed after a while.

    Returns:
        Its exit code: 0 if it was done before, 1 if it raised, ``KILLED``.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    deadline_s = time.perf_counter() + after_s
    while time.perf_counter() < deadline_s:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(min(0.0005, max(0.0, deadline_s - time.perf_counter())))
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
