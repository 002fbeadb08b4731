"""Processes of this machine that work for this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor


class _Process(SpawnProcess):
    """A process that imports nothing of the user's: neither their script nor their folder."""

    def start(self) -> None:
        """Start it.

        ``multiprocessing`` imports the main script again, which need not be guarded against that
        where padiff is called as a library; and Python looks for modules in the folder that
        somebody is in, which holds dumps.
        """
        main, safe = sys.modules["__main__"], os.environ.get("PYTHONSAFEPATH")
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main
            del os.environ["PYTHONSAFEPATH"]
            if safe is not None:
                os.environ["PYTHONSAFEPATH"] = safe


class _Context(SpawnContext):
    """Starts processes, and knows those that it started."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[_Process] = []

    def Process(self, *args: Any, **kwargs: Any) -> _Process:  # type: ignore[override]  # noqa: ANN401, N802
        """Make a process as ``multiprocessing.Process`` does."""
        self.started.append(_Process(*args, **kwargs))
        return self.started[-1]


@contextmanager
def pool_of(count: int) -> Iterator[Executor]:
    """Open a pool of processes of this machine; they end with the context, or with this process."""
    context = _Context()
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin)
    try:
        yield pool
    finally:
        for process in context.started:
            if process.pid is not None:
                process.kill()
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Leave interrupts to the process that asked, and end when it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
