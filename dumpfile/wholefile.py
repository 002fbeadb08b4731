"""Writes one file that appears whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .lock import PlaceLock


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the path to write to; the file gets its name when the block ends well.

    It is written beside its place as ``.NAME.partial``, under a lock on ``.NAME.lock``; what a
    dead writer left under these names is taken over. A link stays one: what it leads to is
    replaced.

    Raises:
        OSError: The place cannot be written, or another process is writing the same file.
    """
    place = Path(os.path.realpath(path))
    lock = PlaceLock(place.with_name(f".{place.name}.lock"))
    holder = lock.acquire()
    if holder is not None:
        raise OSError(errno.EBUSY, f"{holder or 'another process'} is writing it")
    partial = place.with_name(f".{place.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        yield partial
        partial.replace(place)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        lock.release()
