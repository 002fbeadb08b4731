"""A folder for what is needed only while something runs, also when a run before was killed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .lock import Owner, PlaceLock

_PREFIX = ".padiff-scratch-"
_LOCK = "lock"


@contextmanager
def scratch_folder(place: Path | None = None) -> Iterator[Path]:
    """Make a folder, below the system's temporary one or another, gone when the block ends.

    Folders of processes that were killed are removed first.

    Raises:
        OSError: There is no room, or no place for temporary files.
    """
    above = Path(tempfile.gettempdir()) if place is None else place
    remove_dead(above)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=above))
        lock = PlaceLock(folder / _LOCK)
        if lock.acquire() is None:
            break  # else another process took it for a dead one's, between the two lines above
    owner = Owner()
    try:
        yield folder
    finally:
        if owner.is_here:
            lock.release()
            shutil.rmtree(folder, ignore_errors=True)


def remove_dead(place: Path) -> None:
    """Remove what processes left that were killed: folders of this user whose lock nobody holds."""
    with suppress(OSError):
        for folder in place.glob(f"{_PREFIX}*"):
            if _is_ours(folder) and (folder / _LOCK).is_file():
                lock = PlaceLock(folder / _LOCK)
                if lock.acquire() is None and lock.is_held:
                    lock.release()
                    shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    status = folder.lstat()
    is_mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and is_mine
