"""The tree of errors that padiff raises.

``PadiffError`` is the root; everything below says what was being done, where, what was
expected and what was found, and carries a ``hint`` that the command line prints on a line of
its own::

    PadiffError
    ├── DumpError             a dump as a whole
    │   ├── DumpNotFoundError     no such dump                       (FileNotFoundError)
    │   ├── DumpExistsError       refusing to replace a dump         (FileExistsError)
    │   ├── DumpFormatError       not a dump, truncated, hostile     (ValueError)
    │   ├── DumpWriteError        disk full, read-only, locked       (OSError)
    │   └── ProgramError          a program that cannot be executed  (ValueError)
    ├── RecordError           the user's model, while it is recorded (RuntimeError)
    ├── CompareError          two dumps that cannot be compared      (ValueError)
    └── ConfigError           an option, map file, input file, name  (ValueError)

A difference between two models is a result, never one of these.
"""

from __future__ import annotations

import errno


class PadiffError(Exception):
    """Root of all errors that padiff raises on purpose."""

    def __init__(
        self, message: str, *, details: tuple[str, ...] = (), hint: str | None = None
    ) -> None:
        """Keep the one-line message and the way out.

        Args:
            message: One line, lower case, no full stop: what was being done, where, what was
                expected, what was found.
            details: The single problems, one line each, where one message states several.
            hint: What the user can do about it; None if nothing better can be said.
        """
        super().__init__(message)
        self.message = message
        self.details = details
        self.hint = hint

    def __str__(self) -> str:
        """Return the message, and each detail and the hint on lines of their own."""
        hint = () if self.hint is None else (f"hint: {self.hint}",)
        return "\n".join((self.message, *(f"  {line}" for line in self.details), *hint))


class DumpError(PadiffError):
    """A dump as a whole cannot be read or written."""


class DumpNotFoundError(DumpError, FileNotFoundError):
    """There is no dump at the given place."""


class DumpExistsError(DumpError, FileExistsError):
    """A dump is already there and must not be replaced."""


class DumpFormatError(DumpError, ValueError):
    """What is there is no valid dump: incomplete, truncated, too new or hostile."""


class DumpWriteError(DumpError, OSError):
    """The dump cannot be written: no space, no permission, locked by another process."""


class ProgramError(DumpError, ValueError):
    """A recorded program contradicts itself, lacks a leaf, or needs more than the limits allow."""


class RecordError(PadiffError, RuntimeError):
    """The user's model failed, or cannot be recorded."""


class CompareError(PadiffError, ValueError):
    """Two dumps that are each readable cannot be compared."""


class ConfigError(PadiffError, ValueError):
    """An option, a file or a name that the user gave is wrong."""


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
