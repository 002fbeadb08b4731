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
    from .arena import Arena, Piece
    from .hdf5sink import HDF5Sink
    from .keep import Keep

__all__ = ["Stored", "ValueStore"]

_QUEUE_BYTES = 256 << 20
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


@dataclass(slots=True)
class _Page:
    """Small values of one dtype that wait to become one dataset."""

    dataset: str
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True, kw_only=True)
class _Item:
    """A new value on its way to the thread."""

    stored: Stored
    name: str
    digest: str
    size: int
    """Elements of the whole value."""
    data: Array
    """The elements that are kept, one-dimensional."""
    statistics: Statistics | None
    """None if the thread is to take them of ``data``."""
    sample: Sample | None = None
    piece: Piece | None = None
    """What is given back once ``data`` is written."""


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

    def store(self, array: Array, content: Content | None = None) -> Stored:
        """Take in a tensor's elements as they are now; they may change afterwards.

        Args:
            array: Any shape and any dtype that a dump can hold.
            content: How much of it to keep; None as the file does.

        Raises:
            RecordError: Dumps cannot hold the dtype.
        """
        name = dtype_name(array.dtype)
        flat = np.ascontiguousarray(array, dtype=numpy_dtype(name)).reshape(-1)
        content = content or self._keep.content
        if content is Content.SAMPLE and not is_sampled(flat.size, self._keep.sample):
            content = Content.FULL
        digest = digest_of_bytes(flat.view(np.uint8).data, name)
        known = self._stored.get((name, digest))
        if known is not None and known.content.rank >= content.rank:
            return known
        stored = Stored(content=content)
        data, statistics, sample = self._kept(flat, array.shape, content)
        item = _Item(
            stored=stored,
            name=name,
            digest=digest,
            size=flat.size,
            data=data,
            statistics=statistics,
            sample=sample,
        )
        self._hand_over(item)
        self._stored[name, digest] = stored
        return stored

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

    # -- in the caller's thread

    def _kept(
        self, flat: Array, shape: tuple[int, ...], content: Content
    ) -> tuple[Array, Statistics | None, Sample | None]:
        """Give the elements to write, and what must be read off the whole value now."""
        if content is Content.FULL:
            return flat, None, None
        nothing = flat[:0]
        if content is Content.DIGEST:
            return nothing, _NO_STATISTICS, None
        statistics = statistics_of(flat)
        if content is Content.STATS:
            return nothing, statistics, None
        sample = Sample(count=self._keep.sample, shape=shape)
        return flat[sample_positions(shape, sample.count)], statistics, sample

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
        pending = None
        if item.statistics is None and item.data.nbytes >= _OVERLAPPED_BYTES:
            pending = self._pool.submit(statistics_of, item.data)
        try:
            dataset, offset = self._place(item)
        finally:  # the memory may be gone afterwards
            statistics = item.statistics if pending is None else pending.result()
        info = ValueInfo(
            id=len(self._values),
            digest=item.digest,
            dtype=item.name,
            size=item.size,
            statistics=statistics_of(item.data) if statistics is None else statistics,
            content=item.stored.content,
            dataset=dataset,
            offset=offset,
            sample=item.sample,
        )
        if item.piece is not None:
            self._arena.give_back(item.piece)
        self._values.append(info)
        item.stored.info = info

    def _place(self, item: _Item) -> tuple[str | None, int]:
        """Write the elements, or put them on a page; give the dataset and where in it."""
        if not item.data.size:
            return None, 0
        data, name = item.data.view(np.uint8).data, item.name
        if data.nbytes >= _OWN_DATASET_BYTES:
            dataset = f"/values/v{len(self._values):08d}"
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
