"""Stores the tensors of one file: each distinct one once, written by a thread.

A tensor's digest is taken from its own memory, so that one that is known already costs nothing
more. What is new is copied for the thread, as far as the arena has room; else the thread is
lent the memory itself, and whoever handed it over waits until it is written.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import numpy as np

from .bulk import build_all
from .digest import digest_of_bytes
from .dtypes import Array, dtype_name, numpy_dtype
from .errors import DumpError, write_error
from .sampling import is_sampled, sample_positions
from .schema import Content, Sample, Statistics, ValueInfo
from .smallvalues import SmallValues
from .statistics import SMALL_BYTES, statistics_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .arena import Arena, Piece
    from .hdf5sink import HDF5Sink
    from .keep import Keep


_QUEUE_BYTES = 128 << 20  # beside the arena, elements that are still on their way here
_ITEM_BYTES = 512  # what a waiting item costs beside its elements
_PAGE_BYTES = 4 << 20
_STATISTICS_BYTES = 64  # of eight numbers: what is no larger than they are is as well kept whole
_SMALL_BYTES = 1 << 20  # of small values, which go to the thread together
_OVERLAPPED_BYTES = 1 << 20  # from here on, statistics are taken while the elements are written
_NOWHERE = None, 0
_NO_STATISTICS = statistics_of(np.empty(0))


@dataclass(slots=True, eq=False)
class Stored:
    """A tensor that was handed over; known by value once the thread got to it."""

    content: Content = Content.FULL
    """How much of it is kept."""
    info: ValueInfo | None = None
    """The value it turned out to be; None until then. ``StepWriter.flush`` waits for that."""
    digest: str = ""
    """Its digest where that is known at once; empty while elements are still on their way."""
    row: int = -1
    """Where it waits among small values, -1 if it does not."""


@dataclass(slots=True)
class _Page:
    """Small values of one dtype that wait to become one dataset."""

    dataset: str
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True, kw_only=True)
class _Item:
    """A value on its way to the thread."""

    stored: Stored
    name: str
    size: int
    """Elements of the whole value."""
    data: Array
    """The elements that are kept, one-dimensional."""
    digest: str = ""
    statistics: Statistics | None = None
    """None if the thread is to take them of ``data``."""
    sample: Sample | None = None
    piece: Piece | None = None
    """What is given back once ``data`` is written."""
    arrival: Callable[[], object] | None = None
    """Waits until ``data`` is there; the other fields are filled in then."""
    shape: tuple[int, ...] = ()


class ValueStore:
    """Gives every distinct tensor an id and its elements a place in the file."""

    def __init__(
        self,
        sink: HDF5Sink,
        arena: Arena,
        keep: Keep,
        *,
        thread_name: str,
        shown: str,
    ) -> None:
        """Start the thread.

        Args:
            sink: The file; nobody else writes to it before ``finish``.
            arena: Where elements wait for the thread.
            keep: How much of each value is kept unless ``store`` is told otherwise.
            thread_name: Name of the thread.
            shown: The file's path as the user knows it, for messages.
        """
        self._sink, self._arena, self._keep = sink, arena, keep
        self._shown = shown
        self._stored: dict[str, Stored] = {}
        """By digest, which tells the dtype too."""
        self._values: list[ValueInfo] = []
        self._known: dict[str, ValueInfo] = {}
        self._pages: dict[str, _Page] = {}
        self._page_count = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="padiff-statistics")
        self._small = SmallValues()
        self.queue: ByteQueue[_Item | SmallValues] = ByteQueue(
            self._take, limit_bytes=_QUEUE_BYTES, name=thread_name
        )
        """What waits for the thread, and the error that ended its work."""

    def store(
        self,
        array: Array,
        content: Content | None = None,
        arrival: Callable[[], object] | None = None,
    ) -> Stored:
        """Take in a tensor's elements as they are now; they may change afterwards.

        Args:
            array: Any shape and any dtype that a dump can hold.
            content: How much of it to keep; None as the file does.
            arrival: Waits for the elements if they are still on their way; the array must not
                change at all then.

        Raises:
            RecordError: Dumps cannot hold the dtype.
        """
        name = dtype_name(array.dtype)
        content = content or self._keep.content
        if self._keep.program and array.nbytes <= _STATISTICS_BYTES:
            content = Content.FULL
        if content is Content.SAMPLE and not is_sampled(array.size, self._keep.sample):
            content = Content.FULL
        is_small = array.nbytes < SMALL_BYTES and content is not Content.SAMPLE
        if is_small and arrival is None:
            dtype = numpy_dtype(name)
            plain = array if array.dtype is dtype else array.astype(dtype, copy=False)
            return self.store_bytes(plain.tobytes(), name, array.shape, content)
        flat = np.ascontiguousarray(array, dtype=numpy_dtype(name)).reshape(-1)
        item = _Item(
            stored=Stored(content=content),
            name=name,
            size=flat.size,
            data=flat,
            arrival=arrival,
            shape=array.shape,
        )
        if arrival is not None:
            self._put_small()
            self.queue.put(item, _ITEM_BYTES + flat.nbytes)
            return item.stored
        item.digest = item.stored.digest = digest_of_bytes(flat.view(np.uint8).data, name)
        known = self._stored.get(item.digest)
        if known is not None and known.content.rank >= content.rank:
            return known
        self._cut(item)
        self._put_small()
        self._hand_over(item)
        self._stored[item.digest] = item.stored
        return item.stored

    def store_bytes(
        self, data: bytes, name: str, shape: tuple[int, ...], content: Content | None = None
    ) -> Stored:
        """Take in the elements of a small tensor that were copied already.

        Args:
            data: The elements, little-endian in C order; fewer bytes than ``SMALL_BYTES``.
            name: Of their dtype.
            shape: Of the tensor.
            content: How much of it to keep; None as the file does.

        Raises:
            DumpWriteError: Something stored earlier could not be written.
        """
        if self.queue.error is not None:
            self.raise_error()
        content = content or self._keep.content
        if content is Content.SAMPLE:
            return self.store(np.frombuffer(data, numpy_dtype(name)).reshape(shape), content)
        if len(data) <= _STATISTICS_BYTES and self._keep.program:
            content = Content.FULL
        digest = digest_of_bytes(data, name)
        known = self._stored.get(digest)
        if known is not None and (
            known.content.rank >= content.rank or self._small.deepen(known, content)
        ):
            return known
        stored = self._stored[digest] = Stored(content, None, digest)
        self._small.add(stored, name, data)
        if self._small.size_bytes >= _SMALL_BYTES:
            self._put_small()
        return stored

    def deepen(self, stored: Stored, content: Content) -> bool:
        """Keep more of a value than was wanted when it was stored, if that can still be done."""
        return content is not Content.SAMPLE and self._small.deepen(stored, content)

    def _put_small(self) -> None:
        """Give the small values that wait to the thread."""
        if self._small.stored:
            small, self._small = self._small, SmallValues()
            self.queue.put(small, small.size_bytes)

    def flush(self) -> None:
        """Wait until everything stored is known by value, or the thread has failed."""
        self._put_small()
        self.queue.drain()

    def raise_error(self) -> None:
        """Raise the error that ended the thread's work, if any did."""
        error = self.queue.error
        if error is None:
            return
        if isinstance(error, DumpError) or not isinstance(error, OSError | RuntimeError):
            raise error
        raise write_error(f"write {self._shown!r}", error) from error

    def stop(self, *, discard: bool = False) -> None:
        """End the thread, after its work or at once."""
        if not discard:
            self._put_small()
        self.queue.close(discard=discard)
        self._pool.shutdown()
        self._arena.clear(self)

    def finish(self) -> list[ValueInfo]:
        """Write what is left, once the thread has ended; give all values."""
        for dtype in tuple(self._pages):
            self._write_page(dtype)
        return self._values

    def _cut(self, item: _Item) -> None:
        """Leave of the elements what is kept, and take what must be read off all of them."""
        content, flat = item.stored.content, item.data
        if content is Content.FULL:
            return
        item.data = np.empty(0, flat.dtype)  # an empty view would keep all of the memory
        item.statistics = _NO_STATISTICS if content is Content.DIGEST else statistics_of(flat)
        if content is Content.SAMPLE:
            item.sample = Sample(count=self._keep.sample, shape=item.shape)
            item.data = flat[sample_positions(item.shape, self._keep.sample)]

    def _hand_over(self, item: _Item) -> None:
        """Give an item to the thread, with a copy of the elements unless it is one already."""
        is_lent = False
        if item.data.size and item.sample is None:
            item.piece = self._arena.take(item.data.nbytes, self)
            is_lent = item.piece is None
            if item.piece is not None:
                copied = item.piece.data.view(item.data.dtype)
                np.copyto(copied, item.data)
                item.data = copied
        self.queue.put(item, _ITEM_BYTES + (0 if is_lent else item.data.nbytes))
        if is_lent:
            self.queue.drain()

    # -- in the thread

    def _take(self, item: _Item | SmallValues) -> None:
        """Make values of an item or of many small ones."""
        if isinstance(item, _Item):
            self._take_item(item)
        else:
            self._take_small(item)

    def _take_small(self, small: SmallValues) -> None:
        """Make values of small ones; of those that are known, more may be kept."""
        stored, names, data = small.stored, small.names, small.data
        before = [self._known.get(one.digest) for one in stored]
        rows = [row for row, known in enumerate(before) if known is None]
        if len(rows) < len(before):
            for one, known in zip(stored, before, strict=True):
                one.info = known
            deeper = [
                row
                for row, known in enumerate(before)
                if known is not None and known.content.rank < stored[row].content.rank
            ]
            rows = deeper + rows
        places: dict[int, tuple[str | None, int]] = dict.fromkeys(rows, _NOWHERE)
        for row in small.kept:  # this order is that of the elements in the file
            if row in places and data[row]:
                places[row] = self._on_page(names[row], data[row])
        ids, statistics = [], small.measured()
        widths = {name: numpy_dtype(name).itemsize for name in set(names)}
        free = count(len(self._values))
        for row in rows:
            known = before[row]
            if known is None or known.dataset is not None:
                ids.append(next(free))
                continue
            ids.append(known.id)
            if known.content is not Content.DIGEST:
                statistics[row] = known.statistics
        made = build_all(
            ValueInfo,
            len(rows),
            id=ids,
            digest=[stored[row].digest for row in rows],
            dtype=[names[row] for row in rows],
            size=[len(data[row]) // widths[names[row]] for row in rows],
            statistics=[statistics[row] for row in rows],
            content=[stored[row].content for row in rows],
            dataset=[places[row][0] for row in rows],
            offset=[places[row][1] for row in rows],
        )
        for row, value in zip(rows, made, strict=True):
            self._values[value.id : value.id + 1] = [value]
            self._known[value.digest] = stored[row].info = value

    def _take_item(self, item: _Item) -> None:
        """Make a value of an item, unless it turns out to be one that is known."""
        if item.arrival is not None:
            item.arrival()
            item.digest = digest_of_bytes(item.data.view(np.uint8).data, item.name)
        known = self._known.get(item.digest)
        if known is None or known.content.rank < item.stored.content.rank:
            if item.arrival is not None:
                self._cut(item)
            known = self._known[item.digest] = self._add_value(item, known)
        if item.piece is not None:
            self._arena.give_back(item.piece)
        item.stored.info = known

    def _add_value(self, item: _Item, known: ValueInfo | None) -> ValueInfo:
        """Make a value of an item.

        Args:
            item: What was stored.
            known: The same value, of which less was kept until now. It keeps its id, unless some of
                its elements have a place already.
        """
        pending = None
        if known is not None and known.dataset is not None:
            known = None
        number = len(self._values) if known is None else known.id
        if known is not None and known.content is not Content.DIGEST:
            item.statistics = known.statistics
        if item.statistics is None and item.data.nbytes >= _OVERLAPPED_BYTES:
            pending = self._pool.submit(statistics_of, item.data)
        try:
            dataset, offset = self._place(item, number)
        finally:  # the memory may be gone afterwards
            statistics = item.statistics if pending is None else pending.result()
        info = ValueInfo(
            id=number,
            digest=item.digest,
            dtype=item.name,
            size=item.size,
            statistics=statistics_of(item.data) if statistics is None else statistics,
            content=item.stored.content,
            dataset=dataset,
            offset=offset,
            sample=item.sample,
        )
        if known is None:
            self._values.append(info)
        else:
            self._values[known.id] = info
        return info

    def _place(self, item: _Item, number: int) -> tuple[str | None, int]:
        """Write the elements, or put them on a page; give the dataset and where in it."""
        if not item.data.size:
            return None, 0
        data, name = item.data.view(np.uint8).data, item.name
        if data.nbytes >= SMALL_BYTES:
            dataset = f"/values/v{number:08d}"
            self._sink.write(dataset, data, name)
            return dataset, 0
        return self._on_page(name, data)

    def _on_page(self, name: str, data: memoryview | bytes) -> tuple[str, int]:
        """Put elements on the page of their dtype; return its dataset and where they are in it."""
        page = self._pages.get(name)
        if page is None:
            page = self._pages[name] = _Page(dataset=f"/values/p{self._page_count:04d}_{name}")
            self._page_count += 1
        offset = len(page.data) // numpy_dtype(name).itemsize
        page.data += data
        if len(page.data) >= _PAGE_BYTES:
            self._write_page(name)
        return page.dataset, offset

    def _write_page(self, name: str) -> None:
        page = self._pages.pop(name)
        self._sink.write(page.dataset, page.data, name)


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
