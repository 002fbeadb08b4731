"""Reads files that a user names and somebody else made: in bounded memory, waiting for nobody."""

from __future__ import annotations

import errno
import os
import select
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["chunks_of", "read_bounded"]

_CHUNK_BYTES = 1 << 20
_WAIT_S = 60
"""For the first byte out of a pipe: one that came in an archive has nobody at its other end."""


def chunks_of(path: Path) -> Iterator[bytes]:
    """Give a file's content, a chunk at a time.

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
