"""Reads compressed elements in bounded memory: what is large goes through a nameless file.

HDF5 unpacks a chunk to whatever its stream holds, and a thousand times its size fits into that:
chunks are therefore taken as they are stored, and unpacked here, never beyond the size that they
have. Deflate packs zeros a thousand to one, so that a small file may still hold more than fits into
memory. Large values are unpacked into a temporary file, in which blocks of zeros take no room, and
mapped from there like any other.
"""

from __future__ import annotations

import mmap
import shutil
import tempfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from h5py import h5z

from .errors import DumpFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .dataset import Found

_IN_MEMORY_BYTES = 64 << 20
_BLOCK_BYTES = 8 << 20
_SPARE_BYTES = 64 << 20
"""Room to leave on the disk."""

Array = npt.NDArray[Any]


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
