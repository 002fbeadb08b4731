"""Dumps in object stores and on other machines, read in few ranges through fsspec.

What is read of a step file lands at its own offset in a sparse temporary file, which is mapped like
any other: the rest of the reader sees no difference. HDF5 reads nothing of it; where datasets lie
says the file's table of contents, whose place stands in the manifest.
"""

from __future__ import annotations

import logging
import mmap
import os
import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .contents import CONTENTS_LIMIT_BYTES, Contents
from .errors import ConfigError, DumpError, DumpFormatError, DumpNotFoundError
from .scratch import scratch_folder
from .urls import PACKAGES, shown_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .dataset import Found
    from .schema import FileInfo
    from .stepsource import Range

_IDENTITY = (
    *("ETag", "etag", "VersionId", "generation", "mtime", "LastModified", "last_modified"),
    *("created", "modification_time"),
)
"""What stores say of an object that changes when it is replaced. No times of access."""

_BLOCK_BYTES = 64 << 10
"""What is fetched is whole blocks of that size."""
_GAP_BYTES = 1 << 20
"""Ranges with less between them are one request: reading 1 MiB takes about as long as asking."""
_TABLES_BYTES = 256 << 10
"""In front of the table of contents, asked for with it: the whole index of a small model."""
_REQUEST_BYTES = 16 << 20
"""Of the largest single request."""
_AT_ONCE_BYTES = 64 << 20
"""Of the requests that run side by side, whose answers lie in memory."""
_AHEAD_BYTES = 1 << 20
"""What is read behind a range that nobody planned; twice as much each time, up to the limit."""
_AHEAD_LIMIT_BYTES = 16 << 20
_SPARE_BYTES = 64 << 20
"""Room to leave on the disk."""
_MOST_TEXT = 200
"""Characters of what a store says."""


class RemoteFiles:
    """The files below one URL. Errors say what was being done, and no password."""

    def __init__(self, url: str) -> None:
        """Connect to the store.

        Raises:
            ConfigError: The protocol is not known, or a package is missing.
            DumpError: The store refuses.
        """
        self.url = url.rstrip("/")
        self.shown = shown_url(self.url)
        self.pinned: dict[str, tuple[object, ...]] = {}
        """What ``identity`` said of each file that was opened, when it first was."""
        protocol = url.partition("://")[0]
        if protocol not in PACKAGES or "::" in url:
            known = ", ".join(f"{name}://" for name in PACKAGES)
            raise ConfigError(
                f"cannot open {self.shown!r}: expected one of the protocols {known}",
                hint="copy the dump to a disk, or to one of these",
            )
        if self.shown != self.url:
            raise ConfigError(
                f"cannot open {self.shown!r}: expected a URL without a password",
                hint="reports repeat the URL: put it where the store's own client looks for it",
            )
        # what a client logs besides its errors goes where the user sends it, not to stderr
        client = PACKAGES[protocol].replace("-", "_") or "fsspec"
        logging.getLogger(client).addHandler(logging.NullHandler())
        packages = " ".join(filter(None, ("'padiff-align[remote]'", PACKAGES[protocol])))
        with self._explained("open", f"pip install {packages}"):
            from fsspec.core import url_to_fs  # noqa: PLC0415 - an extra, only for URLs

            self._system: Any
            self._system, self._root = url_to_fs(self.url)

    def read(self, name: str, most_bytes: int) -> bytes:
        """Read a whole file.

        Raises:
            DumpNotFoundError: There is none.
            DumpFormatError: It is larger than that.
        """
        with self._explained(f"read {name!r} of"):
            data: bytes = self._system.cat_file(self._at(name), start=0, end=most_bytes + 1)
        if len(data) > most_bytes:
            raise DumpFormatError(
                f"cannot read {name!r} of {self.shown!r}: expected at most {most_bytes} bytes"
            )
        return data

    def identity(self, name: str) -> tuple[object, ...]:
        """Return what changes when a file is replaced; its size is the first.

        Raises:
            DumpNotFoundError: There is none.
        """
        with self._explained(f"read {name!r} of"):
            self._system.invalidate_cache(self._root)
            info = self._system.info(self._at(name))
            told = {key: str(info[key]) for key in _IDENTITY if key in info}
            return info["size"], *told.items()

    def ranges(self, name: str, ranges: list[Range]) -> list[bytes]:
        """Read ranges of a file, side by side where the store can.

        Raises:
            DumpError: They cannot be had, or are shorter than they should be.
        """
        with self._explained(f"read {name!r} of"):
            starts, stops = [start for start, _ in ranges], [stop for _, stop in ranges]
            found = self._system.cat_ranges([self._at(name)] * len(ranges), starts, stops)
            for one in found:
                if isinstance(one, BaseException):
                    raise one
        for (start, stop), data in zip(ranges, found, strict=True):
            if len(data) != stop - start:
                raise DumpFormatError(
                    f"cannot read {name!r} of {self.shown!r}: expected {stop - start} bytes from "
                    f"{start} on, found {len(data)}"
                )
        return list(found)

    def put(self, source: Path, name: str) -> None:
        """Write a file from one on a disk."""
        with self._explained(f"write {name!r} of"):
            self._system.makedirs(self._at(name).rpartition("/")[0], exist_ok=True)
            self._system.put_file(str(source), self._at(name))

    def remove(self, name: str) -> None:
        """Remove a file; harmless where there is none."""
        with self._explained(f"remove {name!r} of"):
            if self._system.exists(self._at(name)):
                self._system.rm_file(self._at(name))

    def download(self, name: str, target: Path) -> None:
        """Copy a file to a disk."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._explained(f"read {name!r} of"):
            self._system.get_file(self._at(name), str(target))

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}" if name else str(self._root)

    @contextmanager
    def _explained(self, doing: str, install: str = "") -> Iterator[None]:
        what = f"cannot {doing} {self.shown!r}"
        try:
            yield
        except DumpError:
            raise
        except ImportError as error:
            raise ConfigError(f"{what}: {error}", hint=install or None) from error
        except FileNotFoundError as error:
            raise DumpNotFoundError(f"{what}: there is no such object") from error
        except Exception as error:  # each store's client has errors of its own, under no one root
            text = shown_url(" ".join(str(error).split()))[:_MOST_TEXT]
            raise DumpError(
                f"{what}: {type(error).__name__}: {text}",
                hint="the store's own client must be able to read it: check its credentials, its "
                "endpoint and the name",
            ) from error


class RemoteSource:
    """A step file in a store. What was read of it lies in a sparse file, and is mapped there."""

    is_complete = False

    def __init__(self, files: RemoteFiles, info: FileInfo) -> None:
        """Look at the object, and read its table of contents.

        Raises:
            DumpError: It is not the file that the manifest lists, or cannot be read.
        """
        self._files, self._info = files, info
        self._what = f"cannot read {info.path!r} of {files.shown!r}"
        found = files.identity(info.path)
        self._pinned = files.pinned.setdefault(info.path, found)
        self._check_same(found)
        self._contents_at = self._checked_sizes()
        self._has = np.zeros(-(-info.size_bytes // _BLOCK_BYTES), bool)
        self._ahead_bytes = _AHEAD_BYTES
        self._exits = ExitStack()
        try:
            folder = self._exits.enter_context(scratch_folder())
            self.place = folder / Path(info.path).name
            self._file = self._exits.enter_context(self.place.open("w+b"))
            self._file.truncate(info.size_bytes)
            self.held = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._contents = self._read_contents()
        except OSError as error:
            self._exits.close()
            raise self._no_room(error) from error
        except BaseException:
            self._exits.close()
            raise

    def members(self, group: str) -> frozenset[str]:
        """Return the names of what lies in a group."""
        return self._contents.members(group)

    def count_values(self) -> int:
        """Count what lies in the group of values."""
        return len(self._contents.members("values"))

    def find(self, path: str, dtype: str | None) -> Found:
        """Return a dataset that the table of contents names."""
        return self._contents.find(path, dtype)

    def fetch(self, ranges: Iterable[Range], *, is_plan: bool = False) -> None:
        """Read what is not there yet, and see that the object is still the same."""
        missing = self._missing(ranges, ahead_bytes=0 if is_plan else self._ahead_bytes)
        if not missing:
            return
        if not is_plan:
            self._ahead_bytes = min(2 * self._ahead_bytes, _AHEAD_LIMIT_BYTES)
        self._check_room(sum(stop - start for start, stop in missing))
        fresh: list[slice] = []
        while missing:
            taken = [missing.pop(0)]
            while missing and sum(b - a for a, b in [*taken, missing[0]]) <= _AT_ONCE_BYTES:
                taken.append(missing.pop(0))
            for (start, stop), data in zip(
                taken, self._files.ranges(self._info.path, taken), strict=True
            ):
                self._write(start, data)
                fresh.append(slice(start // _BLOCK_BYTES, -(-stop // _BLOCK_BYTES)))
        self._check_same(self._files.identity(self._info.path))
        for blocks in fresh:
            self._has[blocks] = True

    def close(self) -> None:
        """Remove the temporary file; what was mapped stays valid."""
        self._exits.close()

    def _read_contents(self) -> Contents:
        start, size = self._contents_at
        before = max(start - _TABLES_BYTES, 0)  # tables stand in front of it
        self.fetch([(before, start + size)], is_plan=True)
        return Contents(
            self.held[start : start + size],
            file_bytes=self._info.size_bytes,
            read=self._read,
        )

    def _read(self, start: int, size: int) -> bytes:
        self.fetch([(start, start + size)])
        return self.held[start : start + size]

    def _missing(self, ranges: Iterable[Range], *, ahead_bytes: int) -> list[Range]:
        """Return which bytes to ask for, in few pieces."""
        wanted = np.zeros(len(self._has) + 1, np.int64)
        for start, stop in ranges:
            if (
                stop > start
                and not self._has[start // _BLOCK_BYTES : -(-stop // _BLOCK_BYTES)].all()
            ):
                wanted[start // _BLOCK_BYTES] += 1
                wanted[min(-(-max(stop, start + ahead_bytes) // _BLOCK_BYTES), len(self._has))] -= 1
        blocks = np.flatnonzero((np.cumsum(wanted)[:-1] > 0) & ~self._has)
        if not blocks.size:
            return []
        cuts = np.flatnonzero(np.diff(blocks) > _GAP_BYTES // _BLOCK_BYTES) + 1
        found: list[Range] = []
        for run in np.split(blocks, cuts):
            start, end = int(run[0]) * _BLOCK_BYTES, (int(run[-1]) + 1) * _BLOCK_BYTES
            end = min(end, self._info.size_bytes)
            found += [
                (at, min(at + _REQUEST_BYTES, end)) for at in range(start, end, _REQUEST_BYTES)
            ]
        return found

    def _write(self, start: int, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                done = os.pwrite(self._file.fileno(), view, start)
                view, start = view[done:], start + done
        except OSError as error:
            raise self._no_room(error) from error

    def _no_room(self, error: OSError) -> DumpError:
        if isinstance(error, DumpError):
            return error
        return DumpFormatError(
            f"{self._what}: no temporary file: {error.strerror or error}",
            hint="set TMPDIR to a place with room",
        )

    def _check_room(self, size_bytes: int) -> None:
        room = shutil.disk_usage(self.place.parent).free - _SPARE_BYTES
        if size_bytes > room:
            raise DumpFormatError(
                f"{self._what}: expected room for {size_bytes} bytes in "
                f"{str(self.place.parent.parent)!r}, found {max(room, 0)}",
                hint="set TMPDIR to a place with more room",
            )

    def _check_same(self, found: tuple[object, ...]) -> None:
        if found != self._pinned:
            raise DumpFormatError(
                f"{self._what}: it changed while it was read",
                hint="run the command again when nobody writes there",
            )

    def _checked_sizes(self) -> tuple[int, int]:
        """Return where the table of contents is, after all sizes were looked at."""
        found = self._pinned[0]
        if found != self._info.size_bytes:
            raise DumpFormatError(
                f"{self._what}: expected {self._info.size_bytes} bytes, found {found}",
                hint="the object is truncated or was changed: push it again",
            )
        told = self._info.contents
        if told is None:
            raise DumpFormatError(
                f"{self._what}: it has no table of contents, by which it could be read from there",
                hint="copy the dump to a disk: an earlier padiff wrote it",
            )
        start, size = told
        if not 0 < size <= CONTENTS_LIMIT_BYTES or start + size > self._info.size_bytes:
            raise DumpFormatError(
                f"{self._what}: expected a table of contents of at most {CONTENTS_LIMIT_BYTES} "
                f"bytes in the file, found {size} bytes at {start}"
            )
        return told
