"""Which calls are running: one stack for each thread."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from padiff.dumpfile import JSON, CallInfo, SourceLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType


@dataclass(slots=True, kw_only=True)
class OpenCall:
    """A call that has begun; becomes a ``CallInfo`` when the step is closed."""

    id: int
    module: int
    index: int
    parent: int | None
    start: int
    training: bool
    site: SourceLine | None
    end: int | None = None
    literals: dict[str, JSON] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    recomputed: int = 0
    """How often it was run again inside a backward pass."""

    def info(self) -> CallInfo:
        """Return the finished row."""
        return CallInfo(
            id=self.id,
            module=self.module,
            index=self.index,
            parent=self.parent,
            start=self.start,
            end=self.end,
            training=self.training,
            site=self.site,
            literals=self.literals,
            containers=self.containers,
            recomputed=self.recomputed,
        )


@dataclass(slots=True, kw_only=True)
class _Own:
    """What one thread runs."""

    entries: list[tuple[OpenCall, FrameType | None]] = field(default_factory=list)
    starter: OpenCall | None = None
    """The call for which it was started, around all of its own."""
    begin: Callable[[], object] | None = None
    """Lets operators of the thread be seen; None if they are, or nobody wants to see them."""

    def work(self) -> None:
        """Begin to have to do with the model."""
        if self.begin is not None:
            self.begin()
            self.begin = None


class CallStack:
    """The running calls of every thread.

    A call that ended by an exception gets no event. It is recognised because the frame that
    ran it is no longer among the callers of the next call.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def parent(self, frame: FrameType | None) -> OpenCall | None:
        """Return the innermost running call around a frame, dropping calls that have died."""
        entries = self._entries()
        while entries:
            call, runner = entries[-1]
            if _is_inside(frame, runner):
                return call
            entries.pop()
        return self._own().starter

    def current(self) -> OpenCall | None:
        """Return the innermost call that this thread runs, or works for."""
        own = self._own()
        return own.entries[-1][0] if own.entries else own.starter

    def running(self) -> int | None:
        """Return the id of the innermost call of this thread, None outside any."""
        own = getattr(self._local, "own", None) or self._own()
        call = own.entries[-1][0] if own.entries else own.starter
        return None if call is None else call.id

    @contextmanager
    def work_for(
        self, call: OpenCall | None, watch: Callable[[], AbstractContextManager[object]]
    ) -> Iterator[None]:
        """Let this thread work for another one until the context is left.

        Args:
            call: What its starter ran; with None it may do anything, and has to do with the model
                only from the first call of a module on.
            watch: Returns the context in which the thread's operators are seen.
        """
        local = self._local
        before = getattr(local, "own", None)
        with ExitStack() as exits:
            local.own = own = _Own(starter=call)
            own.begin = partial(exits.enter_context, watch())
            if call is not None:
                own.work()
            try:
                yield
            finally:
                local.own = before

    def runner(self) -> FrameType | None:
        """Return the frame that runs the innermost call, None outside any."""
        entries = self._entries()
        return entries[-1][1] if entries else None

    def push(self, call: OpenCall, frame: FrameType | None) -> None:
        """Note that a call is run by a frame."""
        own = self._own()
        own.work()
        own.entries.append((call, frame))

    def pop(self, module: int) -> OpenCall | None:
        """End the innermost call of a module; None if none is running in this thread."""
        entries = self._entries()
        if not any(call.module == module for call, _ in reversed(entries)):
            return None
        while True:
            call, _ = entries.pop()
            if call.module == module:
                return call

    def clear(self) -> None:
        """Forget all threads' calls and the frames that they hold."""
        self._local = threading.local()

    def _entries(self) -> list[tuple[OpenCall, FrameType | None]]:
        return self._own().entries

    def _own(self) -> _Own:
        own: _Own | None = getattr(self._local, "own", None)
        if own is None:
            own = self._local.own = _Own()
        return own


def _is_inside(frame: FrameType | None, runner: FrameType | None) -> bool:
    """Return whether one frame was, directly or not, called by the other."""
    while frame is not None:
        if frame is runner:
            return True
        frame = frame.f_back
    return False
