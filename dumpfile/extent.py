"""Where elements lie in a file, so that another process can map them."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .digest import digest_of_mapped
from .dtypes import numpy_dtype
from .errors import DumpFormatError
from .untrusted import check_plain_file

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Extent", "FileId", "MappedFiles"]


@dataclass(frozen=True, slots=True)
class FileId:
    """What tells a file from one that was put in its place."""

    device: int
    inode: int
    size_bytes: int

    @classmethod
    def of(cls, handle: int) -> Self:
        """Return that of an open file."""
        found = os.fstat(handle)
        return cls(found.st_dev, found.st_ino, found.st_size)


@dataclass(frozen=True, slots=True)
class Extent:
    """Elements that lie in a file one behind the other."""

    path: str
    file: FileId | None
    """None where the digest alone tells, as on another machine."""
    start: int
    """Bytes before the first of them."""
    size: int
    """Number of elements, at least 1."""
    dtype: str
    """Name of their dtype."""
    digest: str
    """Of them, by which damage shows."""

    @property
    def nbytes(self) -> int:
        """Return how many bytes they take."""
        return self.size * numpy_dtype(self.dtype).itemsize


@dataclass(slots=True)
class MappedFiles:
    """Maps each file once, and gives elements of it without a copy."""

    _maps: dict[str, mmap.mmap] = field(default_factory=dict)
    _sound: set[Extent] = field(default_factory=set)
    """Those whose elements have their digest."""

    def array(self, extent: Extent) -> npt.NDArray[Any]:
        """Return the elements, read-only, in one dimension.

        Raises:
            DumpFormatError: The file is not the one that was meant, or damaged.
            OSError: It cannot be read.
        """
        held = self._maps.get(extent.path)
        if held is None:
            path = Path(extent.path)
            check_plain_file(path)
            with path.open("rb") as file:
                if extent.file not in (None, FileId.of(file.fileno())):
                    raise DumpFormatError(f"cannot read {extent.path!r}: it was replaced")
                held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._maps[extent.path] = held
        if extent.start + extent.nbytes > len(held):
            raise DumpFormatError(
                f"cannot read {extent.path!r}: expected at least {extent.start + extent.nbytes} "
                f"bytes, found {len(held)}"
            )
        dtype = numpy_dtype(extent.dtype)
        array = np.frombuffer(held, dtype=dtype, count=extent.size, offset=extent.start)
        if extent not in self._sound:
            data = array.view(np.uint8).data
            found = digest_of_mapped(data, extent.dtype, release=self.release_pages)
            if found != extent.digest:
                raise DumpFormatError(
                    f"cannot read {extent.path!r}: expected elements with the digest "
                    f"{extent.digest}, found {found}"
                )
            self._sound.add(extent)
        return array

    def release_pages(self) -> None:
        """Let the system take back the memory of all that was read; arrays stay valid."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for held in self._maps.values():
                held.madvise(mmap.MADV_DONTNEED)
