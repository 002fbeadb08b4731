"""Writes the file of one step and rank: stores tensors in a thread, then the index."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .bytequeue import ByteQueue
from .digest import digest_of_bytes
from .dtypes import Array, dtype_name, numpy_dtype
from .errors import DumpError
from .hdf5sink import HDF5Sink
from .indexcodec import encode_index
from .keep import Keep
from .sampling import is_sampled, sample_positions
from .schema import CallInfo, Content, FileInfo, ModuleInfo, Sample, ValueInfo
from .statistics import statistics_of
from .writeerror import write_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from .address import Phase, Role

_QUEUE_BYTES = 256 << 20
_ITEM_BYTES = 512  # what a waiting item costs beside its elements
_PAGE_BYTES = 4 << 20
_OWN_DATASET_BYTES = 64 << 10
_EVERYTHING = Keep()
_OVERLAPPED_BYTES = 1 << 20  # from here on, statistics are taken while the elements are written


@dataclass(slots=True, eq=False)
class Stored:
    """A tensor that was handed to a step's writer; known by value once the writer got to it."""

    info: ValueInfo | None = None
    """The value it turned out to be; None until then. ``StepWriter.flush`` waits for that."""


@dataclass(slots=True)
class _Page:
    """Small values of one dtype that wait to become one dataset."""

    dataset: str
    data: bytearray = field(default_factory=bytearray)


class StepWriter:
    """Writes one step of one rank. Made by ``DumpWriter.step``; use it as a context manager.

    ``store`` returns at once: digest, statistics and writing happen in a thread, and what the
    thread could not do surfaces as DumpWriteError at the next ``store``, ``flush`` or ``close``.
    All other methods belong to one thread.
    """

    def __init__(
        self,
        path: Path,
        *,
        relative: str,
        step: int,
        rank: int,
        compression: int | None = None,
        content: Keep = _EVERYTHING,
        finished: Callable[[FileInfo], None] = lambda info: None,
    ) -> None:
        """Create the file.

        Args:
            path: Where it will stand when it is whole; until then it has a hidden name.
            relative: The same, relative to the dump.
            step: Iteration.
            rank: Index of the process.
            compression: Level of deflate, None for none.
            content: What ``store`` writes unless it is told otherwise.
            finished: Called once by ``close`` with the description of the whole file.

        Raises:
            DumpWriteError: The file cannot be created.
        """
        self._path, self._relative = path, relative
        self._step, self._rank = step, rank
        self._finished = finished
        self._content, self._sample = content.content, content.sample
        self._partial = path.with_name(f".{path.name}.partial")
        self._modules: list[ModuleInfo] = []
        self._calls: dict[int, CallInfo] = {}
        self._records: list[list[Any]] = []
        self._addresses: dict[tuple[Any, ...], int] = {}
        self._values: list[ValueInfo] = []
        self._by_digest: dict[tuple[str, str], ValueInfo] = {}
        self._pages: dict[str, _Page] = {}
        self._page_count = 0
        self._is_closed = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._sink = HDF5Sink(self._partial, compression=compression)
        except (OSError, RuntimeError) as error:
            raise write_error(f"create {str(path)!r}", error) from error
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="padiff-statistics")
        self._queue: ByteQueue[tuple[Stored, Array, str, Content]] = ByteQueue(
            self._take, limit_bytes=_QUEUE_BYTES, name=f"padiff-writer-{step}-{rank}"
        )

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file, or remove it if an error is passing through."""
        if error is None:
            self.close()
        else:
            self.abandon()

    def add_modules(self, modules: Sequence[ModuleInfo]) -> None:
        """Add rows to the table of modules; ids must go on from those already there."""
        self._modules.extend(modules)

    def add_call(self, call: CallInfo) -> None:
        """Add a call, or replace the one with the same id (to state its end).

        Raises:
            ValueError: An id was left out.
        """
        if call.id > len(self._calls):
            raise ValueError(f"expected call {len(self._calls)} or an earlier one, found {call.id}")
        self._calls[call.id] = call

    def store(self, array: Array, *, content: Content | None = None) -> Stored:
        """Hand over a tensor's elements, which nobody may change from here on.

        Args:
            array: Any shape and any dtype that a dump can hold.
            content: How much of it to write; None as this file does.

        Raises:
            DumpWriteError: Something stored earlier could not be written.
            RecordError: Dumps cannot hold the dtype.
        """
        name = dtype_name(array.dtype)
        stored = Stored()
        self._queue.put((stored, array, name, content or self._content), array.nbytes + _ITEM_BYTES)
        self._raise_error()
        return stored

    def add_record(  # noqa: PLR0913
        self,
        *,
        module: int,
        call: int | None,
        phase: Phase,
        role: Role,
        slot: str,
        order: int,
        shape: tuple[int, ...],
        value: Stored | None,
        requires_grad: bool = False,
        tensor: int | None = None,
    ) -> int:
        """Add a record; see ``RecordInfo`` for the fields.

        What comes again at the same address, as a loss that is recorded twice in a step, gets
        ``@2``, ``@3`` … at the end of its slot.

        Returns:
            Its id.
        """
        slot = self._distinct((module, call, phase, role), slot)
        record = [module, call, phase, role, slot, order, shape, value, requires_grad, tensor]
        self._records.append(record)
        return len(self._records) - 1

    def _distinct(self, owner: tuple[int, int | None, Phase, Role], slot: str) -> str:
        address = (*owner, slot)
        before = self._addresses.get(address, 0)
        self._addresses[address] = before + 1
        return slot if not before else self._distinct(owner, f"{slot}@{before + 1}")

    def flush(self) -> None:
        """Wait until everything stored is known by value.

        Raises:
            DumpWriteError: Something could not be written.
        """
        self._queue.drain()
        self._raise_error()

    def close(self) -> None:
        """Write what is left and the index, and give the file its name.

        Raises:
            DumpWriteError: Something could not be written; the file is gone then.
        """
        if self._is_closed:
            return
        self._queue.close()
        self._pool.shutdown()
        try:
            self._raise_error()
            for dtype in tuple(self._pages):
                self._write_page(dtype)
            self._sink.write("/index", self._encoded_index(), "uint8")
            size_bytes = self._sink.close()
            self._partial.rename(self._path)
        except (OSError, RuntimeError) as error:
            self.abandon()
            if isinstance(error, DumpError):
                raise
            raise write_error(f"write {str(self._path)!r}", error) from error
        self._is_closed = True
        self._finished(
            FileInfo(
                step=self._step,
                rank=self._rank,
                path=self._relative,
                size_bytes=size_bytes,
                calls=len(self._calls),
                records=len(self._records),
            )
        )

    def abandon(self) -> None:
        """Stop and remove the file; harmless after ``close``."""
        if not self._is_closed:
            self._is_closed = True
            self._queue.close(discard=True)
            self._pool.shutdown()
            self._sink.abandon()
            with suppress(OSError):  # another rank's file may be in it
                self._path.parent.rmdir()

    def _raise_error(self) -> None:
        error = self._queue.error
        if error is None:
            return
        if isinstance(error, DumpError) or not isinstance(error, OSError | RuntimeError):
            raise error
        raise write_error(f"write {str(self._path)!r}", error) from error

    def _encoded_index(self) -> bytes:
        for record in self._records:
            stored = record[7]
            if stored is not None:
                record[7] = stored.info.id
        return encode_index(
            step=self._step,
            rank=self._rank,
            modules=self._modules,
            calls=(self._calls[call] for call in sorted(self._calls)),
            values=self._values,
            records=self._records,
        )

    # -- in the thread

    def _take(self, item: tuple[Stored, Array, str, Content]) -> None:
        stored, array, name, content = item
        flat = np.ascontiguousarray(array, dtype=numpy_dtype(name)).reshape(-1)
        data = flat.view(np.uint8).data
        key = (name, digest_of_bytes(data, name))
        known = self._by_digest.get(key)
        if content is Content.SAMPLE and not is_sampled(flat.size, self._sample):
            content = Content.FULL
        if known is None or known.content.rank < content.rank:
            known = self._by_digest[key] = self._add_value(flat, array.shape, key, content)
        stored.info = known

    def _add_value(
        self, flat: Array, shape: tuple[int, ...], key: tuple[str, str], content: Content
    ) -> ValueInfo:
        name, digest = key
        dataset, offset, sample = None, 0, None
        measured = flat[:0] if content is Content.DIGEST else flat
        is_large = measured.nbytes >= _OVERLAPPED_BYTES
        pending = self._pool.submit(statistics_of, measured) if is_large else None
        if content is Content.FULL and flat.size:
            dataset, offset = self._place(flat.view(np.uint8).data, name)
        elif content is Content.SAMPLE:
            sample = Sample(count=self._sample, shape=shape)
            chosen = flat[sample_positions(shape, self._sample)]
            dataset, offset = self._place(chosen.view(np.uint8).data, name)
        statistics = statistics_of(measured) if pending is None else pending.result()
        info = ValueInfo(
            id=len(self._values),
            digest=digest,
            dtype=name,
            size=flat.size,
            statistics=statistics,
            content=content,
            dataset=dataset,
            offset=offset,
            sample=sample,
        )
        self._values.append(info)
        return info

    def _place(self, data: memoryview, name: str) -> tuple[str, int]:
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
