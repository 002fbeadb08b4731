"""Reads compressed elements in bounded memory: what is large goes through a nameless file.

Deflate packs zeros a thousand to one, so that a small file may hold more than fits into memory.
Large values are therefore unpacked block by block into a temporary file, in which blocks of zeros
take no room, and mapped from there like any other.
"""

from __future__ import annotations

import mmap
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from h5py import h5s

from .errors import DumpFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import h5py

    from .dataset import Found

_IN_MEMORY_BYTES = 64 << 20
_BLOCK_BYTES = 8 << 20
_SPARE_BYTES = 64 << 20
"""Room to leave on the disk."""

Array = npt.NDArray[Any]


def inflate(found: Found, *, offset: int, size: int, kind: h5py.h5t.TypeID) -> Array:
    """Read elements of a dataset that HDF5 has to unpack.

    Args:
        found: The dataset, checked.
        offset: Index of the first element.
        size: How many; all lie in the dataset.
        kind: Their HDF5 type.

    Returns:
        Raw elements (dtype ``V``), one dimension; in memory, or mapped from a file without name.

    Raises:
        DumpFormatError: There is no room for them.
        OSError: They cannot be read; other errors of HDF5 as well.
    """
    width = kind.get_size()
    if size * width <= _IN_MEMORY_BYTES:
        return _block(found, offset, size, kind)
    with tempfile.TemporaryFile(prefix="padiff") as file:
        room = shutil.disk_usage(tempfile.gettempdir()).free - _SPARE_BYTES
        written = 0
        for first, length in _portions(found, offset, size, _BLOCK_BYTES // width):
            block = _block(found, offset + first, length, kind).view(np.uint8)
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
    """Give portions of about that length that end where chunks do: none is unpacked twice."""
    chunk = found.dataset.get_create_plist().get_chunk()[0]
    step = max(length // chunk, 1) * chunk
    first = 0
    while first < size:
        stop = min(((offset + first) // step + 1) * step - offset, size)
        yield first, stop - first
        first = stop


def _block(found: Found, offset: int, size: int, kind: h5py.h5t.TypeID) -> Array:
    elements = np.empty(size, dtype=f"V{kind.get_size()}")
    space = h5s.create_simple((found.size,))
    space.select_hyperslab((offset,), (size,))
    memory = h5s.create_simple((size,))
    found.dataset.read(memory, space, elements, mtype=kind)
    return elements
