"""Operators of frameworks without a mode that sees calls: what they are bound to is replaced.

Each adapter knows its bindings; who hears of a thread's calls is the same for all.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, Protocol

from padiff.dumper.operators import Operators
from padiff.dumpfile import Opaque

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from padiff.dumper.operators import RunOperator


class Listeners(threading.local):
    """Who hears of the operators of a thread; one for each framework."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.runs: list[RunOperator] = []
        self.is_busy = False
        """Whether an operator runs: what it calls to do its work does not count."""


class Busy:
    """The context in which nobody hears of a thread's operators."""

    def __init__(self, listeners: Listeners) -> None:
        """Take those of the framework."""
        self._listeners = listeners

    def __enter__(self) -> None:
        """Be busy."""
        self._before, self._listeners.is_busy = self._listeners.is_busy, True

    def __exit__(self, *error: object) -> None:
        """Be what the thread was before."""
        self._listeners.is_busy = self._before


class Bindings(Protocol):
    """All that computes, and what replaces it."""

    def install(self) -> None:
        """Replace everything, unless it is replaced already."""

    def remove(self) -> None:
        """Put everything back that nobody needs replaced any more."""


class PatchedOperators(Operators):
    """Hands over the calls of a thread while bindings are replaced."""

    writes_surely = False

    def __init__(self, bindings: Bindings, listeners: Listeners) -> None:
        """Replace nothing yet."""
        self._bindings, self._listeners = bindings, listeners

    @contextmanager
    def watch(self, run: RunOperator) -> Iterator[None]:
        """Replace the operators; their calls in this thread are handed over."""
        try:
            self._bindings.install()
            with self.watch_thread(run):
                yield
        finally:
            self._bindings.remove()  # also what an error has left half installed

    def watch_building(self, run: RunOperator) -> AbstractContextManager[object]:
        """Watch as ever: nothing has to be kept from being compiled."""
        return self.watch(run)

    @contextmanager
    def watch_thread(self, run: RunOperator) -> Iterator[None]:
        """Note who hears of this thread."""
        runs = self._listeners.runs
        runs.append(run)
        try:
            yield
        finally:
            runs.remove(run)

    def unwatched(self) -> AbstractContextManager[object]:
        """Return what makes this thread busy, so that operators are called directly."""
        return Busy(self._listeners)


def class_name(thing: object) -> Opaque:
    """Return the name of a class or a function, or of the class of anything else.

    A proxy is never asked for an attribute: it might take note of it.
    """
    is_named = isinstance(thing, type | FunctionType | BuiltinFunctionType)
    kind: Any = thing if is_named else type(thing)
    return Opaque(f"<{kind.__module__}.{kind.__qualname__}>")
