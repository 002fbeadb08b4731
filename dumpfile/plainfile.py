"""Refuses what is no plain file: a link leads elsewhere, and a pipe waits for ever."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from .errors import DumpFormatError

if TYPE_CHECKING:
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
