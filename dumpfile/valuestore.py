"""Stores the tensors of one file: each distinct one once, written by a thread.

A tensor's digest is taken from its own memory, so that one that is known already costs nothing
more. What is new is copied for the thread, as far as the arena has room; else the thread is
lent the memory itself, and whoever handed it over waits until it is written.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .bytequeue import ByteQueue
from .digest import digest_of_bytes
from .dtypes import Array, dtype_name, numpy_dtype
from .sampling import is_sampled, sample_positions
from .schema import Content, Sample, Statistics, ValueInfo
from .statistics import statistics_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .arena import Arena, Piece
    from .hdf5sink import HDF5Sink
    from .keep import Keep

__all__ = ["Stored", "ValueStore"]

_QUEUE_BYTES = 128 << 20  # beside the arena, elements that are still on their way here
_ITEM_BYTES = 512  # what a waiting item costs beside its elements
_PAGE_BYTES = 4 << 20
_OWN_DATASET_BYTES = 64 << 10
_OVERLAPPED_BYTES = 1 << 20  # from here on, statistics are taken while the elements are written
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

    def __init__(self, sink: HDF5Sink, arena: Arena, keep: Keep, *, thread_name: str) -> None:
        """Start the thread.

        Args:
            sink: The file; nobody else writes to it before ``finish``.
            arena: Where elements wait for the thread.
            keep: How much of each value is kept unless ``store`` is told otherwise.
            thread_name: Name of the thread.
        """
        self._sink, self._arena, self._keep = sink, arena, keep
        self._stored: dict[tuple[str, str], Stored] = {}
        self._values: list[ValueInfo] = []
        self._known: dict[tuple[str, str], ValueInfo] = {}
        self._pages: dict[str, _Page] = {}
        self._page_count = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="padiff-statistics")
        self._queue: ByteQueue[_Item] = ByteQueue(
            self._take, limit_bytes=_QUEUE_BYTES, name=thread_name
        )

    @property
    def error(self) -> BaseException | None:
        """Give the error that ended the thread's work, None while there is none."""
        return self._queue.error

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
        flat = np.ascontiguousarray(array, dtype=numpy_dtype(name)).reshape(-1)
        content = content or self._keep.content
        if content is Content.SAMPLE and not is_sampled(flat.size, self._keep.sample):
            content = Content.FULL
        item = _Item(
            stored=Stored(content=content),
            name=name,
            size=flat.size,
            data=flat,
            arrival=arrival,
            shape=array.shape,
        )
        if arrival is not None:
            self._queue.put(item, _ITEM_BYTES + flat.nbytes)
            return item.stored
        item.digest = item.stored.digest = digest_of_bytes(flat.view(np.uint8).data, name)
        known = self._stored.get((name, item.digest))
        if known is not None and known.content.rank >= content.rank:
            return known
        self._cut(item)
        self._hand_over(item)
        self._stored[name, item.digest] = item.stored
        return item.stored

    def flush(self) -> None:
        """Wait until everything stored is known by value, or the thread has failed."""
        self._queue.drain()

    def stop(self, *, discard: bool = False) -> None:
        """End the thread, after its work or at once."""
        self._queue.close(discard=discard)
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
        self._queue.put(item, _ITEM_BYTES + (0 if is_lent else item.data.nbytes))
        if is_lent:
            self._queue.drain()

    # -- in the thread

    def _take(self, item: _Item) -> None:
        """Make a value of an item, unless it turns out to be one that is known."""
        if item.arrival is not None:
            item.arrival()
            item.digest = digest_of_bytes(item.data.view(np.uint8).data, item.name)
        key = item.name, item.digest
        known = self._known.get(key)
        if known is None or known.content.rank < item.stored.content.rank:
            if item.arrival is not None:
                self._cut(item)
            known = self._known[key] = self._add_value(item, known)
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
        if data.nbytes >= _OWN_DATASET_BYTES:
            dataset = f"/values/v{number:08d}"
            self._sink.write(dataset, data, name)
            return dataset, 0
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
