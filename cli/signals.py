"""Turns signals into exceptions while a command runs, so that it cleans up behind itself."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    _Handler = Callable[[int, FrameType | None], None]


_BY_SIGNAL = 128
"""Added to a signal's number."""
_TWICE_S = 0.5
"""A second SIGINT within this time is the same one: who signals a process and then its whole group
sends it twice."""
_PATIENCE_S = 10.0
"""After this time a second SIGTERM counts: what was to clean up should have done so."""
_RECENT_S = 2.0
"""An error within this time after a signal came of it."""
_AGAIN_S = 0.02
"""After this time a signal is sent again whose exception was lost."""


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; unwinds the stack so that nothing half-written stays."""

    def __init__(self, number: int) -> None:
        """Keep which one."""
        super().__init__(f"terminated ({signal.Signals(number).name})")
        self.number = number
        self.code = _BY_SIGNAL + number


class Handlers:
    """What is to be done on each signal; one that is ignored (``nohup``) stays so."""

    def __init__(self) -> None:
        self._is_closed = False
        self._raised: BaseException | None = None
        self._raised_s = -math.inf
        self._unraisable = sys.unraisablehook
        self._again: threading.Timer | None = None

    def wanted(self) -> dict[int, _Handler]:
        """Return the handlers to install."""
        found: dict[int, _Handler] = {int(signal.SIGTERM): self._terminate}
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            found[signal.SIGHUP] = self._terminate
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            found[signal.SIGINT] = self._interrupt
        return found

    def recent(self) -> BaseException | None:
        """Return what was raised for a signal a moment ago: C code may lose it in another error."""
        return self._raised if self._elapsed_s() < _RECENT_S else None

    def lost(self, what: sys.UnraisableHookArgs) -> None:
        """Send a signal again that came where no exception can be raised, as in a finalizer."""
        if what.exc_value is not None and what.exc_value is self._raised:
            error, self._raised, self._raised_s = self._raised, None, -math.inf
            self._send_again(error.number if isinstance(error, Terminated) else signal.SIGINT)
        else:
            self._unraisable(what)

    def _send_again(self, number: int) -> None:
        self._again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
        self._again.daemon = True
        self._again.start()

    def close(self) -> None:
        """Raise and send nothing more: all is done, and the old handlers come back."""
        self._is_closed = True
        if self._again is not None:
            self._again.cancel()

    def _terminate(self, number: int, _: FrameType | None) -> None:
        is_ending = isinstance(self._raised, Terminated)
        if not is_ending or self._elapsed_s() > _PATIENCE_S:
            self._raise(Terminated(number))  # one soon after would break the cleaning up off

    def _interrupt(self, _: int, __: FrameType | None) -> None:
        if self._elapsed_s() > _TWICE_S:
            self._raise(KeyboardInterrupt())

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._raised_s

    def _raise(self, error: BaseException) -> None:
        if not self._is_closed:
            self._raised, self._raised_s = error, time.monotonic()
            raise error


@contextlib.contextmanager
def terminable() -> Iterator[Handlers]:
    """Handle signals while the block runs, as far as this is the main thread."""
    handlers = Handlers()
    if threading.current_thread() is not threading.main_thread():
        yield handlers
        return
    previous = {number: signal.signal(number, do) for number, do in handlers.wanted().items()}
    hook, sys.unraisablehook = sys.unraisablehook, handlers.lost
    try:
        yield handlers
    finally:
        handlers.close()
        sys.unraisablehook = hook
        for number, handler in previous.items():
            signal.signal(number, handler)
