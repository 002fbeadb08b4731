"""The lock of a recorder's state, which tells the recorder's own work from the model's."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType


class OwnWork:
    """A lock that a thread may take again; who holds it does the recorder's work.

    Whatever a framework is asked meanwhile, to read elements for instance, is no operator of the
    model. No code of the user runs while the lock is held.
    """

    def __init__(
        self, unwatched: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        """Have no holder yet.

        Args:
            unwatched: Returns the context of the work, entered many times but never twice at once:
                the framework passes no operator on in it, which is faster than to ignore them one
                by one.
        """
        context = unwatched()
        self._enter, self._leave = context.__enter__, context.__exit__
        lock = threading.RLock()
        self._acquire, self._release = lock.acquire, lock.release
        self.is_going_on: Callable[[], bool] = lock._is_owned  # type: ignore[attr-defined]
        """Returns whether this thread holds the lock."""
        self._depth = 0
        """How often its holder took it."""

    def __enter__(self) -> None:
        """Take the lock, or take it once more."""
        self._acquire()
        self._depth += 1
        if self._depth == 1:
            self._enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go of what was taken last."""
        self._depth -= 1
        if not self._depth:
            self._leave(kind, error, trace)
        self._release()
