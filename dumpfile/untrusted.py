"""Files that somebody else made: plain ones alone, read in bounded memory, waiting for nobody."""

from __future__ import annotations

import errno
import os
import select
import stat
import zipfile
from typing import TYPE_CHECKING

from .errors import DumpFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LINK = "is a link, and links within a dump are never followed"


def check_plain_file(path: Path) -> None:
    """Look at a file within a dump before it is opened; one that is missing passes.

    Raises:
        DumpFormatError: It is a link, or lies in a step's directory that is one, or is a pipe, a
            device or a directory.
    """
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return  # whoever opens it says why not
    if stat.S_ISLNK(mode) or (path.parent.name.startswith("step_") and path.parent.is_symlink()):
        raise DumpFormatError(
            f"cannot read {str(path)!r}: it {LINK}",
            hint="copy the dump with the files that its links lead to: cp -rL",
        )
    if not stat.S_ISREG(mode):
        raise DumpFormatError(f"cannot read {str(path)!r}: expected a plain file")


_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_METHODS = {zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "lzma"}


def plain_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the members of an archive, all of which are stored or deflated.

    zipfile unpacks other compressions without a limit: 814 bytes of bzip2 become 1 GB in memory
    when the first byte is read.

    Raises:
        zipfile.BadZipFile: A member is compressed otherwise.
    """
    members = archive.infolist()
    for member in members:
        method = member.compress_type
        if method not in _PLAIN:
            name = _METHODS.get(method, f"method {method}")
            raise zipfile.BadZipFile(
                f"{member.filename[-80:]!r} is compressed by {name}: "
                "expected a stored or deflated member"
            )
    return members


_CHUNK_BYTES = 1 << 20
_WAIT_S = 60
"""For the first byte out of a pipe: one that came in an archive has nobody at its other end."""


def chunks_of(path: Path) -> Iterator[bytes]:
    """Yield a file's content, a chunk at a time.

    A pipe, such as the shell makes of ``<(command)``, is read to its end.

    Raises:
        OSError: It cannot be read, or is a pipe that nobody writes to.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if stat.S_ISFIFO(os.fstat(handle).st_mode):
            _await_writer(handle)
        os.set_blocking(handle, True)
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Read a file that has no more bytes than that.

    Raises:
        OSError: As of ``chunks_of``; ``EFBIG`` if it is larger.
    """
    too_large = OSError(errno.EFBIG, f"larger than {most_bytes} bytes")
    if path.stat().st_size > most_bytes:
        raise too_large
    found = bytearray()
    for chunk in chunks_of(path):
        if len(found) + len(chunk) > most_bytes:
            raise too_large
        found += chunk
    return bytes(found)


def _await_writer(handle: int) -> None:
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    if not waiting.poll(_WAIT_S * 1_000):
        raise OSError(errno.ETIMEDOUT, f"nobody wrote to this pipe for {_WAIT_S} seconds")
