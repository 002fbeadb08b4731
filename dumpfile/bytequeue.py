"""A queue between one producer and one consumer thread, bounded in bytes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

Item = TypeVar("Item")

_REPORT_BYTES = 1 << 20  # the consumer gives room back in portions of this, not item by item
_WAKING_BYTES = 1 << 20  # so much may wait while the thread sleeps, until ``drain`` or ``close``


class ByteQueue(Generic[Item]):
    """Hand items to a thread that works on them in order; ``put`` waits while it is behind.

    The thread is woken for a good amount of work, not for each item: on busy cores every waking
    costs the producer more than a small item. An error of the thread surfaces at the producer's
    next ``put`` or ``drain``.
    """

    def __init__(self, work: Callable[[Item], None], *, limit_bytes: int, name: str) -> None:
        """Start the thread.

        Args:
            work: What to do with an item, in the thread.
            limit_bytes: Room for waiting items; one larger item alone is let through.
            name: Name of the thread.
        """
        self._limit = limit_bytes
        self._changed = threading.Condition()
        self._items: list[tuple[Item, int]] = []
        self._waiting_bytes = 0
        self._is_busy = False
        self._is_closed = False
        self.error: BaseException | None = None
        """The error that ended the thread's work, None while there is none."""
        self._thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
        self._thread.start()

    def put(self, item: Item, size_bytes: int) -> None:
        """Hand over one item; waits for room.

        Does nothing once the thread has failed: look at ``error``.
        """
        with self._changed:
            while self._waiting_bytes and self._waiting_bytes + size_bytes > self._limit:
                if self.error is not None:
                    return
                self._changed.notify_all()
                self._changed.wait()
            self._items.append((item, size_bytes))
            self._waiting_bytes += size_bytes
            if not self._is_busy and self._waiting_bytes >= min(_WAKING_BYTES, self._limit):
                self._changed.notify_all()

    def drain(self) -> None:
        """Wait until all items are worked off, or the thread has failed."""
        with self._changed:
            self._changed.notify_all()
            while (self._items or self._is_busy) and self.error is None:
                self._changed.wait()

    def close(self, *, discard: bool = False) -> None:
        """Work the items off, or drop those that wait, and end the thread."""
        with self._changed:
            if discard:
                self._items.clear()
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self, work: Callable[[Item], None]) -> None:
        with _Keeper(self):
            while batch := self._take():
                done = 0
                for item, size_bytes in batch:
                    work(item)
                    done += size_bytes
                    if done >= _REPORT_BYTES:
                        self._give_room(done)
                        done = 0
                batch.clear()
                self._give_room(done)

    def _take(self) -> list[tuple[Item, int]]:
        with self._changed:
            self._is_busy = False
            self._changed.notify_all()
            while not self._items and not self._is_closed:
                self._changed.wait()
            batch, self._items = self._items, []
            self._is_busy = bool(batch)
            return batch

    def _give_room(self, size_bytes: int) -> None:
        with self._changed:
            self._waiting_bytes -= size_bytes
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self.error = error
            self._items.clear()
            self._changed.notify_all()


class _Keeper:
    """Keeps an error for the producer, whatever it is: a thread has no one to raise to."""

    def __init__(self, queue: ByteQueue[Item]) -> None:
        self._queue = queue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if error is not None:
            self._queue._fail(error)
        return True
