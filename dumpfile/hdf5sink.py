"""Puts arrays into one new HDF5 file: HDF5 places the datasets, plain writes fill them.

Contiguous datasets are allocated by HDF5 and then filled by ``pwrite`` at their address. That is
as fast as the disk, lets other threads run meanwhile (h5py holds the interpreter's lock), and a
full disk shows as a plain error at the write instead of inside HDF5's caches.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d, h5f, h5g, h5p, h5s

from .dtypes import hdf5_type

if TYPE_CHECKING:
    from pathlib import Path

_ALIGNMENT = 64
# Bytes; every dataset starts at a multiple, so that mapped elements are aligned for any dtype.
_ALIGNED_FROM = 512
_CHUNK_BYTES = 1 << 20

Bytes = memoryview | bytes | bytearray


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
        self._compression = compression
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_libver_bounds(h5f.LIBVER_V110, h5f.LIBVER_V110)
        access.set_alignment(_ALIGNED_FROM, _ALIGNMENT)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        self._file = h5f.create(os.fsencode(path), h5f.ACC_EXCL, fapl=access)
        self._raw: int | None = os.open(path, os.O_WRONLY)
        h5g.create(self._file, b"values").close()

    def write(self, name: str, data: Bytes, dtype: str) -> None:
        """Add a one-dimensional dataset.

        Args:
            name: Full path in the file.
            data: The elements, little-endian.
            dtype: Name of their dtype.
        """
        kind = hdf5_type(dtype)
        count = memoryview(data).nbytes // kind.get_size()
        space = h5s.create_simple((count,))
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_fill_time(h5d.FILL_TIME_NEVER)
        creation.set_obj_track_times(False)
        if self._compression is not None and name != "/index":
            self._write_compressed(name, data, kind, space, creation)
            return
        creation.set_layout(h5d.CONTIGUOUS)
        creation.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        dataset = h5d.create(self._file, name.encode(), kind, space, creation)
        offset = dataset.get_offset()
        dataset.close()
        self._pwrite(memoryview(data).cast("B"), offset)

    def _write_compressed(
        self,
        name: str,
        data: Bytes,
        kind: h5py.h5t.TypeID,
        space: h5s.SpaceID,
        creation: h5p.PropDCID,
    ) -> None:
        count = space.get_simple_extent_npoints()
        creation.set_chunk((min(count, _CHUNK_BYTES // kind.get_size()),))
        creation.set_shuffle()
        creation.set_deflate(self._compression)
        dataset = h5d.create(self._file, name.encode(), kind, space, creation)
        elements: npt.NDArray[Any] = np.frombuffer(data, dtype=f"V{kind.get_size()}")
        dataset.write(h5s.ALL, h5s.ALL, elements, mtype=kind)
        dataset.close()

    def _pwrite(self, rest: memoryview, offset: int) -> None:
        assert self._raw is not None, "written after close"
        while rest:
            done = os.pwrite(self._raw, rest, offset)
            rest = rest[done:]
            offset += done

    def close(self) -> int:
        """Finish the file.

        Returns:
            Its size in bytes.
        """
        assert self._raw is not None, "closed twice"
        self._file.close()
        size_bytes = os.fstat(self._raw).st_size
        self._close_raw()
        return size_bytes

    def abandon(self) -> None:
        """Close and remove the file, whatever state it is in. Harmless after a failed ``close``."""
        try:
            if self._raw is not None:
                os.ftruncate(self._raw, 0)  # gives HDF5 the room to write what it still holds
            if self._file.valid:
                self._file.close()
        except (OSError, RuntimeError):
            pass  # the file goes away anyhow
        finally:
            self._close_raw()
            self._path.unlink(missing_ok=True)

    def _close_raw(self) -> None:
        if self._raw is not None:
            os.close(self._raw)
            self._raw = None
