"""Where the bytes of a step file are: in a file that is mapped, whoever fills it."""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING, Protocol

from h5py import h5f, h5g, h5p

from .dataset import HDF5_ERRORS, Found, count_values, find_dataset, members
from .errors import DumpFormatError
from .untrusted import check_plain_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Range = tuple[int, int]
"""A byte offset, and the one behind the last byte."""


class StepSource(Protocol):
    """What a step file is read through. ``LocalSource`` is one, of a file on a disk."""

    @property
    def is_complete(self) -> bool:
        """Whether all bytes are there."""

    @property
    def held(self) -> mmap.mmap:
        """The file, mapped; bytes that were not fetched are zero."""

    def members(self, group: str) -> frozenset[str]:
        """Return the names of what lies in a group; ``""`` is the root.

        Raises:
            DumpFormatError: There is no such group.
        """

    def count_values(self) -> int:
        """Count what lies in the group of values."""

    def find(self, path: str, dtype: str | None) -> Found:
        """Return a dataset, with every size checked against the file.

        Raises:
            DumpFormatError: It is missing, of another dtype, or something else than it should be.
        """

    def fetch(self, ranges: Iterable[Range], *, is_plan: bool = False) -> None:
        """See that bytes are there before they are read.

        Args:
            ranges: Which bytes.
            is_plan: Whether these are all that will be read for a while.

        Raises:
            DumpError: They cannot be had.
        """

    def close(self) -> None:
        """Close the file; what was mapped stays valid."""


class LocalSource:
    """A file on a disk. HDF5 says where datasets are."""

    is_complete = True

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            DumpFormatError: It is no HDF5 file.
        """
        check_plain_file(path)
        self._file: h5f.FileID | None = None
        self._groups: dict[str, h5g.GroupID] = {}
        try:
            access = h5p.create(h5p.FILE_ACCESS)
            access.set_fclose_degree(h5f.CLOSE_STRONG)
            self._file = h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=access)
            with path.open("rb") as raw:
                self.held = mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ)
        except HDF5_ERRORS as error:
            self.close()
            raise unreadable(path, error) from error

    def members(self, group: str) -> frozenset[str]:
        """Return the names of what lies in a group."""
        return members(self._file, group)

    def count_values(self) -> int:
        """Count what lies in the group of values."""
        return count_values(self._file)

    def find(self, path: str, dtype: str | None) -> Found:
        """Return a dataset that HDF5 finds."""
        return find_dataset(
            self._file, path, dtype=dtype, file_bytes=len(self.held), groups=self._groups
        )

    def fetch(self, ranges: Iterable[Range], *, is_plan: bool = False) -> None:
        """Do nothing: all bytes are there."""

    def close(self) -> None:
        """Close the file."""
        self._groups.clear()
        if self._file is not None and self._file.valid:
            self._file.close()


def unreadable(path: Path, error: BaseException) -> DumpFormatError:
    """Return what is raised of a file that HDF5 cannot read."""
    text = str(error)[:200]
    is_lock = "lock" in text
    return DumpFormatError(
        f"cannot read {str(path)!r}: expected a whole HDF5 file, found {text!r}",
        hint=(
            "set the environment variable HDF5_USE_FILE_LOCKING=FALSE"
            if is_lock
            else "the file is damaged or truncated: copy it again, or record again"
        ),
    )
