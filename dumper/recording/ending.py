"""What happens where something cannot be recorded: the recording ends, the user's run goes on."""

from __future__ import annotations

import sys
import traceback
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from padiff.dumpfile import PadiffError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Ending:
    """Ends one recording at the first error, with a message on stderr."""

    def __init__(self, name: str = "", *, raises: bool = True) -> None:
        """Have no error yet.

        Args:
            name: Of the dump, for the message.
            raises: Whether errors are raised where they happen: the run is made for the recording.
        """
        self._name, self._raises = name, raises
        self._stop: list[WeakMethod[Callable[[], None]]] = []
        self.error: Exception | None = None
        """Why the recording has ended."""

    def before(self, stop: Callable[[], None]) -> None:
        """Call a method once the recording ends, inside any hook, if its object still lives."""
        self._stop.append(WeakMethod(stop))

    def because(self, error: Exception) -> None:
        """End the recording, or raise the error that is being handled.

        Args:
            error: Of which only the first is told.
        """
        if self._raises:
            raise error
        if self.error is not None:
            return
        self.error = error
        print(  # noqa: T201
            f"padiff: the recording of {self._name!r} has ended, the run goes on: {_told(error)}",
            file=sys.stderr,
            flush=True,
        )
        for method in self._stop:
            stop = method()
            if stop is not None:
                stop()

    @contextmanager
    def contained(self) -> Iterator[None]:
        """End the recording where the block raises."""
        try:
            yield
        except Exception as error:
            self.because(error)

    def guard(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Return a hook that ends the recording where it would raise."""
        if self._raises:
            return hook

        @wraps(hook)
        def guarded(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - what the framework passes
            try:
                hook(*args, **kwargs)
            except Exception as error:
                self.because(error)

        return guarded


def _told(error: Exception) -> str:
    """Return the text of an error, with its line if padiff did not mean it to happen."""
    if isinstance(error, PadiffError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({one.filename}:{one.lineno})" for one in last)
    return f"{type(error).__name__}: {error}{where}"
