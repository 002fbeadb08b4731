"""Reads the file of one step and rank: the index at once, elements on demand without a copy.

Compressed elements are read in bounded memory. HDF5 unpacks a chunk to whatever its stream holds,
and a thousand times its size fits into that: chunks are therefore taken as they are stored, and
unpacked here, never beyond the size that they have. Deflate packs zeros a thousand to one, so that
a small file may still hold more than fits into memory. Large values are unpacked into a temporary
file, in which blocks of zeros take no room, and mapped from there like any other.
"""

from __future__ import annotations

import mmap
import shutil
import tempfile
import zlib
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from h5py import h5z

from .contents import CONTENTS
from .dataset import HDF5_ERRORS, Found
from .digest import digest_of_mapped
from .dtypes import numpy_dtype
from .errors import DumpError, DumpFormatError
from .indexcodec import StoredIndex, decode_index
from .problem import Problem, ProblemKind
from .programcolumns import ProgramColumns, decode_program
from .sampling import sample_positions
from .schema import Content, Index, RecordInfo, ValueInfo
from .stepsource import LocalSource, Range, StepSource, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType


Array = npt.NDArray[Any]

_MOST_SHOWN = 3
_TABLES_LIMIT_BYTES = 256 << 20
"""Of the index, and of the program: ten million records, or some 50 million operands."""
_RELEASE_BYTES = 32 << 20
"""After so much was read the map lets go of its pages: who still needs some gets them again."""


class StepFile:
    """One step and rank of a dump, open for reading. Made by ``Dump.open``.

    Arrays that were given out stay valid after ``close``.
    """

    def __init__(
        self,
        path: Path,
        *,
        framework: str = "",
        unsaved: frozenset[str] = frozenset(),
        folded: frozenset[str] = frozenset(),
        did_run: bool = True,
        like: StepFile | None = None,
        source: StepSource | None = None,
    ) -> None:
        """Open a file and read its index.

        Args:
            path: The HDF5 file.
            framework: What the manifest names.
            unsaved: Full names of buffers that, by the manifest, are not saved with weights.
            folded: Full names of weights that, by the manifest, an exporter folded.
            did_run: Whether a framework made the values, by the manifest.
            like: An open file that this one may be like: tables of the index that are the same in
                both become the same objects.
            source: Where its bytes are; None takes the file at the path.

        Raises:
            DumpFormatError: It is no whole file of a dump.
        """
        self._path = path
        self._framework = framework
        self._unsaved, self._folded, self._did_run = unsaved, folded, did_run
        self._found: dict[str, tuple[str | None, Found]] = {}
        self._arrays: dict[tuple[str, str], Array] = {}
        self._read_bytes = 0
        self._sound: set[int] = set()
        """Values whose elements have the digest that the index states."""
        self._source: StepSource | None = LocalSource(path) if source is None else source
        try:
            self._stored, self._problems = self._read_index(like)
        except DumpError:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    @property
    def path(self) -> Path:
        """Return the file's path."""
        return self._path

    @property
    def is_local(self) -> bool:
        """Return whether the file is on a disk, where another process finds it by its path."""
        return isinstance(self._source, LocalSource)

    @property
    def framework(self) -> str:
        """Name the framework that recorded it, ``""`` if unknown."""
        return self._framework

    @property
    def unsaved(self) -> frozenset[str]:
        """Return full names of buffers that the framework does not save with weights."""
        return self._unsaved

    @property
    def folded(self) -> frozenset[str]:
        """Return full names of weights that an exporter folded into others, or left out."""
        return self._folded

    @property
    def did_run(self) -> bool:
        """Return whether a framework made the values; else they follow from the program."""
        return self._did_run

    @property
    def index(self) -> Index:
        """Return all modules, calls, records and values.

        Raises:
            DumpFormatError: The index has problems.
        """
        return self.stored.index

    @property
    def stored(self) -> StoredIndex:
        """Return the index with the columns that it was read from.

        Raises:
            DumpFormatError: The index has problems.
        """
        if self._stored is None:
            shown = "; ".join(f"{p.loc}: {p.message}" for p in self._problems[:_MOST_SHOWN])
            rest = len(self._problems) - _MOST_SHOWN
            more = f"; and {rest} more" if rest > 0 else ""
            raise DumpFormatError(
                f"cannot read {str(self._path)!r}: {shown}{more}",
                hint="see all problems with `padiff check`, and record again",
            )
        return self._stored

    @property
    def has_program(self) -> bool:
        """Whether the program that ran was recorded."""
        return "program" in self._opened().members("")

    def program(self) -> ProgramColumns | None:
        """Read the program that ran; None where none was recorded.

        Raises:
            DumpFormatError: The program or the index has problems.
        """
        program, problems = self.read_program()
        if problems:
            raise DumpFormatError(
                f"cannot read {str(self._path)!r}: {problems[0].loc}: {problems[0].message}",
                hint="see all problems with `padiff check`, and record again",
            )
        return program

    def read_program(self) -> tuple[ProgramColumns | None, list[Problem]]:
        """Read the program and find everything that is wrong with it.

        Raises:
            DumpFormatError: A column is not in the file, or the index has problems.
        """
        stored = self.stored
        if not self.has_program:
            return None, []
        return decode_program(self._tables("program"), stored.tables, stored.pools)

    @property
    def contents(self) -> tuple[int, int] | None:
        """Return byte offset and size of the table of contents, None where there is none."""
        if "contents" not in self._opened().members(""):
            return None
        found = self._dataset(CONTENTS, None)
        return (found.offset_bytes or 0), found.size

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return what is wrong with the index; ``loc`` is relative to the file."""
        return tuple(self._problems)

    def array(self, record: RecordInfo) -> Array:
        """Return a record's elements, read-only, in its own shape and dtype.

        Raises:
            DumpFormatError: The elements are not in the file, damaged, or cannot be read.
        """
        if record.value is None:
            raise DumpFormatError(
                f"cannot read {self.index.address(record)}: the framework had None there"
            )
        return self.value_array(self.index.values[record.value]).reshape(record.shape)

    def value_array(self, value: ValueInfo) -> Array:
        """Return a value's elements, read-only, in one dimension; mapped where they are contiguous.

        They are held against the value's digest when they are read for the first time.

        Raises:
            DumpFormatError: The elements are not in the file, damaged, or cannot be read.
        """
        array = self.stored_array(value)
        self._check_digest(value, array)
        return array

    def stored_array(self, value: ValueInfo) -> Array:
        """Return what the file holds of a value's elements, whether or not it is what was recorded.

        Raises:
            DumpFormatError: The elements are not in the file or cannot be read.
        """
        if value.content is not Content.FULL:
            what = "its digest and statistics" if value.sample is None else "a sample of it"
            raise DumpFormatError(
                f"cannot read value {value.id} of {str(self._path)!r}: only {what} was recorded",
                hint="record with `--content full`",
            )
        return self._elements(value, value.size)

    def fetch(self, values: Iterable[ValueInfo], *, is_plan: bool = False) -> None:
        """See that the elements of values are at hand before they are read.

        Of a file on a disk they are. Of one in a store, those of many values come in few requests.

        Args:
            values: Which values; those that the file does not hold are left out.
            is_plan: Whether these are all that will be read for a while.

        Raises:
            DumpError: They cannot be had.
        """
        if self._opened().is_complete:
            return
        ranges: list[Range] = []
        for value in values:
            if value.dataset is not None:
                found = self._dataset(value.dataset, value.dtype)
                if found.offset_bytes is None:
                    continue  # chunks are fetched when they are unpacked
                width = numpy_dtype(value.dtype).itemsize
                start = found.offset_bytes + value.offset * width
                size = value.size if value.sample is None else 2 * value.sample.count
                stop = min(start + size * width, found.offset_bytes + found.size * width)
                ranges.append((start, stop))
        self._opened().fetch(ranges, is_plan=is_plan)

    def rows(self, values: Sequence[ValueInfo]) -> Array:
        """Return the elements of values of one dtype and size as rows of a matrix, a copy.

        Args:
            values: At least one, none of them empty.

        Raises:
            DumpFormatError: Elements are not in the file, damaged, or cannot be read.
        """
        first = values[0]
        is_plain = first.dtype != "bool" and all(one.content is Content.FULL for one in values)
        whole = None
        if is_plain and first.dataset is not None and len({one.dataset for one in values}) == 1:
            whole = self._whole(first.dataset, first.dtype)
        offsets = [one.offset for one in values]
        if whole is None or max(offsets) + first.size > whole.size:
            return np.stack([self.value_array(one) for one in values])
        self.fetch(values)
        self._count(len(values) * first.size * whole.itemsize)
        places = whole.size - first.size + 1, first.size
        steps = whole.itemsize, whole.itemsize
        windows = np.lib.stride_tricks.as_strided(whole, places, steps, writeable=False)
        found: Array = windows[offsets]
        for value, row in zip(values, found, strict=True):
            self._check_digest(value, row)
        return found

    def sample(self, value: ValueInfo) -> tuple[npt.NDArray[np.int64], Array]:
        """Return the elements that were recorded of a sampled value.

        Returns:
            Their flat positions, ascending, and themselves; both read-only.

        Raises:
            DumpFormatError: The value is not sampled, or its elements cannot be read.
        """
        if value.sample is None:
            raise DumpFormatError(
                f"cannot read a sample of value {value.id} of {str(self._path)!r}: it has none"
            )
        # No more is drawn than the file could hold.
        self._check_range(value, min(value.sample.count, value.size))
        positions = sample_positions(value.sample.shape, value.sample.count)
        return positions, self._elements(value, positions.size)

    def _check_digest(self, value: ValueInfo, array: Array) -> None:
        """Refuse elements that are not those that were recorded.

        Args:
            value: What the index says of them.
            array: All of them, in one dimension without gaps.
        """
        if value.id in self._sound:
            return
        data = array.view(np.uint8).data
        found = digest_of_mapped(data, value.dtype, release=self.release_pages)
        if found != value.digest:
            records = self.index.records
            named = (str(self.index.address(one)) for one in records if one.value == value.id)
            raise DumpFormatError(
                f"cannot read {next(named, f'value {value.id}')} of {str(self._path)!r}: expected "
                f"elements with the digest {value.digest}, found {found}",
                hint="the file is damaged: copy it again, or record again; `padiff check --deep` "
                "lists all that is damaged",
            )
        self._sound.add(value.id)

    def _check_range(self, value: ValueInfo, size: int) -> None:
        if value.dataset is None:
            return
        found = self._dataset(value.dataset, value.dtype)
        if value.offset + size > found.size:
            raise DumpFormatError(
                f"cannot read value {value.id} of {str(self._path)!r}: expected elements "
                f"{value.offset} to {value.offset + size}, found {found.size} in "
                f"{value.dataset!r}"
            )

    def _elements(self, value: ValueInfo, size: int) -> Array:
        """Return the elements from the value's offset on."""
        if value.dataset is None:
            return _read_only(np.empty(0, dtype=numpy_dtype(value.dtype)))
        whole = self._whole(value.dataset, value.dtype)
        if whole is None or value.offset + size > whole.size:
            self._check_range(value, size)
            found = self._dataset(value.dataset, value.dtype)
            array = _read_only(self._read(found, value, size))
        else:
            self.fetch([value])
            self._count(size * whole.itemsize)
            array = whole[value.offset : value.offset + size]
            if not array.flags.aligned:
                array = _read_only(array.copy())
        if value.dtype == "bool" and array.view(np.uint8).max() > 1:
            raise DumpFormatError(
                f"cannot read value {value.id} of {str(self._path)!r}: expected booleans, found "
                "bytes other than 0 and 1"
            )
        return array

    def _whole(self, path: str, dtype: str) -> Array | None:
        """Return a dataset as a mapped, read-only array; None if its elements are compressed."""
        known = self._arrays.get((path, dtype))
        if known is not None:
            return known
        found = self._dataset(path, dtype)
        if found.offset_bytes is None:
            return None
        whole = np.frombuffer(
            self._opened().held,
            dtype=numpy_dtype(dtype),
            count=found.size,
            offset=found.offset_bytes,
        )
        self._arrays[path, dtype] = whole
        return whole

    def _count(self, size_bytes: int) -> None:
        """Count what is read from the map, and let go of what was read before."""
        self._read_bytes += size_bytes
        if self._read_bytes > _RELEASE_BYTES:
            self.release_pages()

    def release_pages(self) -> None:
        """Let the system take back the memory of all that was read; arrays stay valid."""
        self._read_bytes = 0
        if self._source is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._source.held.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the file; harmless when it is closed."""
        self._found.clear()
        self._arrays.clear()
        if self._source is not None:
            self._source.close()
        self._source = None  # unmapped when the last array is gone

    def _opened(self) -> StepSource:
        if self._source is None:
            raise DumpFormatError(f"cannot read {str(self._path)!r}: it was closed")
        return self._source

    def _dataset(self, path: str, dtype: str | None) -> Found:
        known = self._found.get(path)
        if known is not None and known[0] == dtype:
            return known[1]
        source = self._opened()
        try:
            found = source.find(path, dtype)
        except DumpFormatError as error:
            raise DumpFormatError(f"{error.message} of {str(self._path)!r}") from error
        self._found[path] = (dtype, found)
        return found

    def _read(self, found: Found, value: ValueInfo, size: int) -> Array:
        width = numpy_dtype(value.dtype).itemsize
        try:
            elements = inflate(found, offset=value.offset, size=size, width=width)
        except DumpFormatError as error:
            raise DumpFormatError(
                f"{error.message}, in {value.dataset!r} of {str(self._path)!r}", hint=error.hint
            ) from error
        except HDF5_ERRORS as error:
            raise unreadable(self._path, error) from error
        return elements.view(numpy_dtype(value.dtype))

    def _read_index(self, like: StepFile | None) -> tuple[StoredIndex | None, list[Problem]]:
        datasets = self._tables("index")
        known = None if like is None else like.stored
        stored, problems = decode_index(datasets, like=known)
        self.release_pages()
        if stored is not None:
            problems = self._strangers(stored)
        return None if problems else stored, problems

    def _tables(self, group: str) -> dict[str, Array]:
        """Copy all datasets of a group out of the file, which must not be much."""
        size_bytes = 0
        source = self._opened()
        places: dict[str, tuple[np.dtype[Any], int, int]] = {}
        for name in sorted(source.members(group)):
            found = self._dataset(f"/{group}/{name}", None)
            kind = np.dtype(found.dtype)
            places[name] = kind, found.size, found.offset_bytes or 0
            size_bytes += found.size * kind.itemsize
            if size_bytes > _TABLES_LIMIT_BYTES:
                raise DumpFormatError(
                    f"cannot read {str(self._path)!r}: expected at most {_TABLES_LIMIT_BYTES} "
                    f"bytes in {group!r}, found {name!r} of {found.size} elements"
                )
        source.fetch(
            [(start, start + size * kind.itemsize) for kind, size, start in places.values()],
            is_plan=True,
        )
        return {name: np.frombuffer(source.held, *place).copy() for name, place in places.items()}

    def _strangers(self, stored: StoredIndex) -> list[Problem]:
        """Find out whether the file holds anything that belongs to no value."""
        datasets = stored.tables["values"]["dataset"]
        expected = len(set(datasets.tolist()) - {-1})
        source = self._opened()
        unknown = source.members("") - {"index", "program", "values", "contents"}
        found = source.count_values() + len(unknown)
        if found <= expected:
            return []  # one that is missing shows when it is read
        message = f"expected {expected} datasets as the index says, found {found}"
        return [Problem(loc="values", kind=ProblemKind.UNEXPECTED, message=message)]


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


_IN_MEMORY_BYTES = 64 << 20
_BLOCK_BYTES = 8 << 20
_SPARE_BYTES = 64 << 20
"""Room to leave on the disk."""


def inflate(found: Found, *, offset: int, size: int, width: int) -> Array:
    """Read elements of a dataset that is stored in compressed chunks.

    Args:
        found: The dataset, checked.
        offset: Index of the first element.
        size: How many; all lie in the dataset.
        width: Bytes of an element.

    Returns:
        Raw elements (dtype ``V``), one dimension; in memory, or mapped from a file without name.

    Raises:
        DumpFormatError: There is no room for them, or a chunk holds something else.
        OSError: They cannot be read; other errors of HDF5 as well.
    """
    if size * width <= _IN_MEMORY_BYTES:
        return _block(found, offset, size, width)
    with tempfile.TemporaryFile(prefix="padiff") as file:
        room = shutil.disk_usage(tempfile.gettempdir()).free - _SPARE_BYTES
        written = 0
        for first, length in _portions(found, offset, size, _BLOCK_BYTES // width):
            block = _block(found, offset + first, length, width).view(np.uint8)
            if not block.any():
                continue
            written += block.nbytes
            if written > room:
                raise DumpFormatError(
                    f"cannot unpack {size * width} bytes: expected room for them in "
                    f"{tempfile.gettempdir()!r}, found {max(room, 0)} bytes",
                    hint="set TMPDIR to a place with more room, or record without --compress",
                )
            file.seek(first * width)
            file.write(block.data)
        file.truncate(size * width)
        file.flush()
        mapped = mmap.mmap(file.fileno(), size * width, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, dtype=f"V{width}")


def _portions(found: Found, offset: int, size: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield portions of about that length that end where chunks do: none is unpacked twice."""
    step = max(length // found.chunk, 1) * found.chunk
    first = 0
    while first < size:
        stop = min(((offset + first) // step + 1) * step - offset, size)
        yield first, stop - first
        first = stop


def _block(found: Found, offset: int, size: int, width: int) -> Array:
    elements = np.empty(size, dtype=f"V{width}")
    for start in range(offset // found.chunk * found.chunk, offset + size, found.chunk):
        low, high = max(start, offset), min(start + found.chunk, offset + size)
        elements[low - offset : high - offset] = _chunk(found, start, width)[
            low - start : high - start
        ]
    return elements


def _chunk(found: Found, start: int, width: int) -> Array:
    """Unpack the chunk that begins at an element, or take it from the last time."""
    known = found.last.get(start)
    if known is not None:
        return known
    if found.read_chunk is None:
        raise DumpFormatError("cannot unpack a chunk: its dataset has none")
    mask, data = found.read_chunk(start)
    size_bytes = found.chunk * width
    for code in reversed(found.filters):
        if code == h5z.FILTER_DEFLATE:
            data = _unpacked(data, size_bytes)
        elif len(data) == size_bytes:
            data = np.frombuffer(data, np.uint8).reshape(width, -1).T.tobytes()
    if mask or len(data) != size_bytes:
        raise DumpFormatError(
            f"cannot unpack a chunk: expected {size_bytes} bytes through all filters, found others"
        )
    made: Array = np.frombuffer(data, dtype=f"V{width}")
    found.last.clear()
    found.last[start] = made
    return made


def _unpacked(data: bytes, size_bytes: int) -> bytes:
    """Undo deflate, as far as one byte more than there may be."""
    try:
        return zlib.decompressobj().decompress(data, size_bytes + 1)
    except zlib.error as error:
        raise DumpFormatError(f"cannot unpack a chunk: {error}") from error
