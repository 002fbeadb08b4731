"""Threads that are started while a step is recorded: what they run belongs to a call, too.

Hooks of modules are called in any thread, but a framework tells of operators only in threads that
ask for it, and nobody but the starter knows for which call a thread works.
"""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from padiff.dumper.watch import Patch, SharedPatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from .callstack import CallStack

    Context: TypeAlias = Callable[[], AbstractContextManager[object]]

_POOL = "multiprocessing.pool"
_TASKS = ("apply_async", "_map_async", "imap", "imap_unordered")
"""Methods of that module's ``ThreadPool`` to which all others come; a function stands first."""
_WORKERS = "concurrent.futures.thread"
"""Where the function is from that threads of a pool run: it lasts longer than any task."""


class _Followers:
    """The recordings that follow threads now."""

    def __init__(self) -> None:
        self._all: list[tuple[CallStack, Context]] = []
        self._patches = SharedPatches(self._patched)

    @contextmanager
    def follow(self, calls: CallStack, watch: Context) -> Iterator[None]:
        """Follow threads, and tasks of pools of threads, until the context is left.

        Args:
            calls: The running calls; a thread works for the innermost one of its starter.
            watch: Returns the context in which the operators of a thread are seen.
        """
        entry = calls, watch
        with self._patches.installed():
            self._all.append(entry)
            try:
                yield
            finally:
                self._all.remove(entry)

    def _contexts(self) -> list[Context]:
        """Return what a thread has to enter that works for this one."""
        return [partial(calls.work_for, calls.current(), watch) for calls, watch in self._all]

    def _patched(self) -> Iterator[Patch]:
        yield Patch(threading.Thread, "start", self._wrap_start)
        yield Patch(ThreadPoolExecutor, "submit", self._wrap_task)
        if _POOL in sys.modules:
            for name in _TASKS:
                yield Patch(sys.modules[_POOL].ThreadPool, name, self._wrap_task)

    def _wrap_start(self, start: Callable[..., None]) -> Callable[..., None]:
        def called(thread: Any) -> None:  # noqa: ANN401 - any subclass
            if getattr(getattr(thread, "_target", None), "__module__", "") != _WORKERS:
                thread.run = _within(self._contexts(), thread.run)
            start(thread)

        return called

    def _wrap_task(self, submit: Callable[..., Any]) -> Callable[..., Any]:
        def called(pool: object, task: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            return submit(pool, _within(self._contexts(), task), *args, **kwargs)

        return called


follow_threads = _Followers().follow


def _within(contexts: Sequence[Context], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that enters contexts in the thread in which it is called."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with ExitStack() as exits:
            for context in contexts:
                exits.enter_context(context())
            return function(*args, **kwargs)

    return called
