"""Which process may write: the owner of what it began, and who holds the lock on a place."""

from __future__ import annotations

import errno
import os
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 200


class PlaceLock:
    """An exclusive ``flock`` on a file that says who holds it.

    A lock file without a process behind it locks nothing: the system gave the lock back when the
    process died. Some systems and file systems know no such locks; nobody is kept out there.
    """

    def __init__(self, path: Path) -> None:
        """Note which file to lock; its directory must be there when the lock is taken."""
        self._path = path
        self._handle: int | None = None

    @property
    def is_held(self) -> bool:
        """Return whether this object holds the lock."""
        return self._handle is not None

    def acquire(self) -> str | None:
        """Take the lock, without waiting.

        Returns:
            None if it is taken, or cannot be here; else who has it, ``""`` if that is unknown.

        Raises:
            OSError: The file cannot be made.
        """
        if sys.platform == "win32":
            return None
        while True:
            handle = self._opened()
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = _read_holder(handle)
                os.close(handle)
                return holder if error.errno in {errno.EWOULDBLOCK, errno.EACCES} else None
            if self._is_still(handle):
                _write_holder(handle)
                self._handle = handle
                return None
            os.close(handle)  # its owner removed it between our open and our lock

    def release(self) -> None:
        """Give the lock back and remove the file; harmless when the lock is not held."""
        if self._handle is None:
            return
        with suppress(OSError):  # the directory may have vanished, or be closed to us by now
            self._path.unlink(missing_ok=True)
        os.close(self._handle)
        self._handle = None

    def _opened(self) -> int:
        """Open the file, never through a link: what that leads to would be overwritten."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._path, flags, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                text = f"the lock file {self._path.name!r} is a link, which is not followed"
                raise OSError(errno.ELOOP, text) from error
            raise

    def _is_still(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self._path.lstat())
        except FileNotFoundError:
            return False


def _write_holder(handle: int) -> None:
    with suppress(OSError):  # only a convenience: on a full disk the lock still holds
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)


def _read_holder(handle: int) -> str:
    try:
        return os.pread(handle, _MOST_BYTES, 0).decode("utf-8", "replace")
    except OSError:
        return ""


class Owner:
    """The process in which an object was made.

    A forked process has a copy of every object. What a copy would flush, rename or remove when it
    is ended belongs to the process that made the original, and so do the threads that it waits for.
    """

    __slots__ = ("_process",)

    def __init__(self) -> None:
        """Take the process that runs."""
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """Return whether the owner is the process that asks."""
        return self._process == os.getpid()
