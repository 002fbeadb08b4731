"""Forces what was written to the disk, so that it outlives a loss of power."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

_NOT_POSSIBLE = {errno.EINVAL, errno.ENOTSUP}
"""What file systems say that cannot do it for a directory, or at all."""


def force_to_disk(directory: Path) -> None:
    """Wait until a directory and all that is in it is on the disk.

    Links are not followed.

    Raises:
        OSError: Something cannot be written after all.
    """
    for folder, _, names in os.walk(directory):
        for name in names:
            _force(Path(folder) / name)
        if sys.platform != "win32":  # which cannot open directories
            _force(Path(folder))


def _force(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NOT_POSSIBLE:
            raise
    finally:
        os.close(handle)
