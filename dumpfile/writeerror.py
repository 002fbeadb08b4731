"""Turns what the system says about a failed write into what a user can act on."""

from __future__ import annotations

import errno

from .errors import DumpWriteError

_HINTS = {
    errno.ENOSPC: 'free some space, or record less: include=, depth=, phase="forward"',
    errno.EDQUOT: "your quota is used up: free some space, or record less",
    errno.EFBIG: "the file exceeds the size that the system allows: raise `ulimit -f`",
    errno.EACCES: "choose a place you may write to by out=",
    errno.EPERM: "choose a place you may write to by out=",
    errno.EROFS: "the file system is read-only: choose another place by out=",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a part of the path is a file: choose another place by out=",
}


def write_error(doing: str, error: BaseException) -> DumpWriteError:
    """Make an error that says what was being done, why it failed, and the way out.

    Args:
        doing: Completes ``cannot ...``.
        error: What the system or HDF5 raised.
    """
    code = getattr(error, "errno", None)
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    made = DumpWriteError(f"cannot {doing}: {text}", hint=_HINTS.get(code) if code else None)
    made.errno = code
    return made
