"""Puts arrays into one new HDF5 file: HDF5 places the datasets, plain writes fill them.

Contiguous datasets are allocated by HDF5 and then filled by ``pwrite`` at their address. That is
as fast as the disk, and lets other threads run meanwhile (h5py holds the interpreter's lock).
HDF5's own writes go through ``_Disk``, which keeps an error for us and tells HDF5 that all is
well: the library crashes when it closes a file whose last writes failed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5fd, h5g, h5p, h5s, h5t

from .contents import CONTENTS, described
from .dtypes import Array, hdf5_type
from .lock import Owner
from .strictjson import to_json

if TYPE_CHECKING:
    from pathlib import Path

    from .schema import JSON

_ALIGNMENT = 64
# Bytes; every dataset starts at a multiple, so that mapped elements are aligned for any dtype.
_ALIGNED_FROM = 512
_CHUNK_BYTES = 1 << 20

Bytes = memoryview | bytes | bytearray


@lru_cache(maxsize=256)
def _table_type(dtype: np.dtype[Any]) -> h5t.TypeID:
    """Return the HDF5 type of a table, which many files have."""
    return h5t.py_create(dtype)


class HDF5Sink:
    """One HDF5 file that is being written. Not thread-safe.

    All methods raise OSError or RuntimeError (from HDF5) if the file cannot be written.
    """

    def __init__(self, path: Path, *, compression: int | None = None) -> None:
        """Create the file; it must not exist.

        Args:
            path: Where.
            compression: Level of deflate, 1 to 9; None for contiguous datasets.
        """
        self._path = path
        self._owner = Owner()
        self._compression = compression
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
        access.set_alignment(_ALIGNED_FROM, _ALIGNMENT)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        self._disk = _Disk(path)
        access.set_fileobj_driver(h5fd.fileobj_driver, self._disk)
        timeless = h5p.create(h5p.FILE_CREATE)  # two dumps of one run are the same bytes
        timeless.set_obj_track_times(False)
        self._file = h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=timeless, fapl=access)
        self._contents: dict[str, JSON] = {}
        self._plain = _creation()
        self._plain.set_layout(h5d.CONTIGUOUS)
        self._plain.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        self.add_group("/values")

    def add_group(self, name: str) -> None:
        """Add a group, whose few members HDF5 lists in as little room as it can."""
        creation = h5p.create(h5p.GROUP_CREATE)
        creation.set_obj_track_times(False)
        h5g.create(self._file, name.encode(), None, creation).close()
        self._disk.raise_error()

    def write(self, name: str, data: Bytes, dtype: str) -> None:
        """Add a one-dimensional dataset.

        Args:
            name: Full path in the file.
            data: The elements, little-endian.
            dtype: Name of their dtype.
        """
        self._write(name, data, hdf5_type(dtype), dtype)

    def write_table(self, name: str, table: Array) -> None:
        """Add a one-dimensional dataset of integers, numbers, or fields of these.

        Args:
            name: Full path in the file.
            table: The rows, little-endian.
        """
        data = np.ascontiguousarray(table).view(np.uint8).data
        self._write(name, data, _table_type(table.dtype), table.dtype)

    def write_contents(self) -> tuple[int, int]:
        """Add the table of contents, as the last dataset.

        Returns:
            Its byte offset and its size in bytes.
        """
        text = to_json(self._contents).encode()
        dtype = np.dtype(np.uint8)
        return self._write(CONTENTS, text, _table_type(dtype), dtype), len(text)

    def _write(self, name: str, data: Bytes, kind: h5t.TypeID, dtype: str | np.dtype[Any]) -> int:
        """Write a dataset and return its byte offset, 0 where it has none."""
        count = memoryview(data).nbytes // kind.get_size()
        space = h5s.create_simple((count,))
        if self._compression is not None and name.startswith("/values/"):
            self._write_compressed(name, data, kind, space, str(dtype))
            self._disk.raise_error()
            return 0
        dataset = h5d.create(self._file, name.encode(), kind, space, self._plain)
        offset = dataset.get_offset() or 0  # HDF5 places no empty one
        dataset.close()
        self._contents[name] = described(dtype, count, offset)
        self._disk.write_at(memoryview(data).cast("B"), offset)
        self._disk.raise_error()
        return int(offset)

    def _write_compressed(
        self,
        name: str,
        data: Bytes,
        kind: h5py.h5t.TypeID,
        space: h5s.SpaceID,
        dtype: str,
    ) -> None:
        creation = _creation()
        count = space.get_simple_extent_npoints()
        chunk = min(count, _CHUNK_BYTES // kind.get_size())
        creation.set_chunk((chunk,))
        creation.set_shuffle()
        creation.set_deflate(self._compression)
        dataset = h5d.create(self._file, name.encode(), kind, space, creation)
        elements: npt.NDArray[Any] = np.frombuffer(data, dtype=f"V{kind.get_size()}")
        dataset.write(h5s.ALL, h5s.ALL, elements, mtype=kind)
        dataset.flush()  # before that, chunks have no place
        found = [dataset.get_chunk_info_by_coord((first,)) for first in range(0, count, chunk)]
        places = [(one.byte_offset, one.size) for one in found]
        self._contents[name] = described(dtype, count, chunk=chunk, chunks=places)
        dataset.close()

    def close(self) -> int:
        """Finish the file.

        Returns:
            Its size in bytes.
        """
        self._file.close()
        self._disk.raise_error()
        return self._disk.close()

    def abandon(self) -> None:
        """Close and remove the file, whatever state it is in. Harmless after a failed ``close``.

        A forked process closes its copy, as HDF5 would crash at its end; the file stays.
        """
        self._disk.give_up()
        try:
            if self._file.valid:
                self._file.close()
        except (OSError, RuntimeError):
            pass  # the file goes away anyhow
        finally:
            self._disk.close()
            if self._owner.is_here:
                with suppress(FileNotFoundError, NotADirectoryError):
                    self._path.unlink()


def _creation() -> h5p.PropDCID:
    """Return the properties of every dataset."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_fill_time(h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    return creation


class _Disk:
    """The file as HDF5 sees it: nothing ever fails. As a file object has it, for HDF5's driver."""

    def __init__(self, path: Path) -> None:
        """Create the file; it must not exist."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self._raw: int | None = os.open(path, flags, 0o666)
        self._at = 0
        self._error: OSError | None = None
        self._owner = Owner()
        self._is_given_up = False

    def raise_error(self) -> None:
        """Raise what went wrong since the file was created."""
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """Write nothing any more."""
        self._is_given_up = True

    @property
    def _is_writable(self) -> bool:
        """Return whether it may still be changed, and by this process."""
        return not self._is_given_up and self._owner.is_here

    def write_at(self, rest: memoryview, offset: int) -> None:
        """Write bytes to a place; an error is kept."""
        try:
            while rest and self._raw is not None and self._is_writable:
                done = os.pwrite(self._raw, rest, offset)
                rest = rest[done:]
                offset += done
        except OSError as error:
            self._error = self._error or error

    def close(self) -> int:
        """Close the file and give its size in bytes, 0 if it was closed before."""
        if self._raw is None:
            return 0
        size_bytes = os.fstat(self._raw).st_size
        os.close(self._raw)
        self._raw = None
        return size_bytes

    # -- what h5py's driver calls

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            offset += 0 if self._raw is None else os.fstat(self._raw).st_size
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at

    def write(self, data: memoryview) -> int:
        view = memoryview(data).cast("B")
        self.write_at(view, self._at)
        self._at += view.nbytes
        return view.nbytes

    def readinto(self, buffer: memoryview) -> int:
        view = memoryview(buffer).cast("B")
        data = b"" if self._raw is None else os.pread(self._raw, view.nbytes, self._at)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        size = self._at if size is None else size
        try:
            if self._raw is not None and self._is_writable:
                os.ftruncate(self._raw, size)
        except OSError as error:
            self._error = self._error or error
        return size

    def flush(self) -> None:
        """Do nothing: nothing is held back."""
