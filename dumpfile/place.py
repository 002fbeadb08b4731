"""The place where a dump goes: lock, hidden sibling, swap, and what may be removed there.

A dump ``NAME`` is built in ``.NAME.partial-<random>`` beside it, under an exclusive lock on
``.NAME.lock``. To replace a dump, the old one is first renamed to ``.NAME.old-<random>``, so that
at every moment either of them is there as a whole. Whole steps of a recording that did not finish
go to ``NAME.incomplete``. Removed are only files with the names that dumps have; a directory with
anything else in it is not ours.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import DumpExistsError, DumpWriteError, write_error
from .floor import FLOOR_NAME
from .lock import PlaceLock
from .manifestcodec import BEGUN_NAME, FORMAT_NAME, MANIFEST_NAME
from .scratch import remove_dead
from .strictjson import StrictJSONError, from_json
from .unfinished import finish_unfinished, is_promised

if TYPE_CHECKING:
    from .schema import JSON

_STEP = re.compile(r"step_\d{6,}")
_FILE = re.compile(r"\.?rank_\d{4,}\.h5(\.partial)?")
_MANIFESTS = {
    name
    for plain in (MANIFEST_NAME, FLOOR_NAME, BEGUN_NAME)
    for name in (plain, f".{plain}.partial")
}
_RESERVED = re.compile(r"\.(.+)\.((partial|old)-[0-9a-f]{8}|lock|ranks)", re.DOTALL)
_MANIFEST_BYTES = 64 << 20
KILLED = "the process was killed"


def reserved_for(name: str) -> str | None:
    """Return the name of the dump for whose own files a name is kept, None if it is free.

    A dump of such a name would be renamed or removed by the next writer of the other dump.

    >>> reserved_for(".net.old-0123abcd")
    'net'
    """
    found = _RESERVED.fullmatch(name)
    return None if found is None else found[1]


def is_dump(directory: Path) -> bool:
    """Return whether a directory holds a dump with a manifest, of whatever version."""
    return bool(_manifest_at(directory))


def is_incomplete(directory: Path) -> bool:
    """Return whether a directory holds the whole steps of a recording that did not finish."""
    return bool(_manifest_at(directory).get("incomplete"))


def _manifest_at(directory: Path) -> dict[str, JSON]:
    """Read a manifest as far as it is one; empty where there is none."""
    manifest = directory / MANIFEST_NAME
    try:
        if not manifest.is_file() or manifest.stat().st_size > _MANIFEST_BYTES:
            return {}
        document = from_json(manifest.read_bytes())
    except (OSError, StrictJSONError):
        return {}
    is_ours = isinstance(document, dict) and document.get("format") == FORMAT_NAME
    return document if is_ours and isinstance(document, dict) else {}


def foreign_entry(directory: Path) -> Path | None:
    """Find something in a directory that no dump has there, None if all could be a dump's."""
    for entry in sorted(directory.iterdir()):
        if entry.name in _MANIFESTS and entry.is_file() and not entry.is_symlink():
            continue
        if not _STEP.fullmatch(entry.name) or not entry.is_dir() or entry.is_symlink():
            return entry
        for file in sorted(entry.iterdir()):
            if not _FILE.fullmatch(file.name) or not file.is_file() or file.is_symlink():
                return file
    return None


def remove_dump(directory: Path) -> None:
    """Remove a dump, complete or not; a directory with anything else in it stays as it is.

    Raises:
        OSError: It cannot be removed.
    """
    if foreign_entry(directory) is not None:
        return
    # The manifest goes first: what is half removed is no dump any more.
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name not in _MANIFESTS):
        if entry.name in _MANIFESTS:
            entry.unlink()
            continue
        for file in entry.iterdir():
            file.unlink()
        entry.rmdir()
    directory.rmdir()


def _try_remove(leftover: Path) -> None:
    with suppress(OSError):  # the next writer to this place tries again
        remove_dump(leftover)


def check_folder(folder: Path) -> None:
    """Check that a folder can be written to, or can be made; nothing is made.

    Raises:
        DumpWriteError: Something on the way there is not a folder, or nobody may write there.
    """
    there = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
    code = 0
    if not there.is_dir():
        code = errno.ENOTDIR
    elif not os.access(there, os.W_OK | os.X_OK):
        code = errno.EROFS if os.statvfs(there).f_flag & os.ST_RDONLY else errno.EACCES
    if code:
        error = OSError(code, os.strerror(code))
        raise write_error(f"create a dump in {str(folder)!r}", error) from error


class Place:
    """Exclusive access to the place of one dump, from ``claim`` to ``release``."""

    def __init__(self, directory: Path, *, overwrite: bool) -> None:
        """Note where the dump goes, and whether one there may be replaced."""
        self._target = Path(os.path.realpath(directory))
        self._shown = str(directory)
        self._overwrite = overwrite
        self._lock = PlaceLock(self._sibling("lock"))
        self._made: list[Path] = []
        self._partial = self._sibling(f"partial-{secrets.token_hex(4)}")

    @property
    def target(self) -> Path:
        """Return the resolved path of the dump."""
        return self._target

    @property
    def partial(self) -> Path:
        """Return the hidden directory to build the dump in."""
        return self._partial

    def check(self) -> None:
        """Check as far as can be seen that a dump may be written here; nothing is made or locked.

        Raises:
            DumpExistsError: Something is there that must not be replaced.
            DumpWriteError: The folder cannot be written.
        """
        check_folder(self._target.parent)
        try:
            self._check_target()
        except DumpExistsError:
            raise
        except OSError as error:
            raise write_error(f"create a dump at {self._shown!r}", error) from error

    def claim(self) -> None:
        """Lock the place, tidy up after dead processes, and make the hidden directory.

        Raises:
            DumpExistsError: Something is there that must not be replaced.
            DumpWriteError: The name is reserved, the place is locked by another writer, or cannot
                be written.
        """
        owner = reserved_for(self._target.name)
        if owner is not None:
            raise DumpWriteError(
                f"cannot write a dump at {self._shown!r}: such a name is kept for what belongs to "
                f"the dump {owner!r}",
                hint="choose another name",
            )
        try:
            self._make_parents()
            self._acquire()
            self._tidy()
            self._check_target()
            self._partial.mkdir()
        except (DumpExistsError, DumpWriteError):
            self.release()
            raise
        except OSError as error:
            self.release()
            raise write_error(f"create a dump at {self._shown!r}", error) from error

    def swap_in(self) -> None:
        """Give the built dump its name; the dump that was there before is then removed.

        Raises:
            DumpExistsError: Meanwhile something came there that must not be replaced.
            OSError: It cannot be renamed; what was there before is there again.
        """
        self._check_target()
        if not self._target.exists():
            self._partial.rename(self._target)
            return
        if not is_dump(self._target):
            self._target.rmdir()  # _check_target lets only an empty directory through
            self._partial.rename(self._target)
            return
        force_to_disk(self._partial)  # what takes the place of another must outlive a loss of power
        old = self._sibling(f"old-{secrets.token_hex(4)}")
        self._target.rename(old)
        try:
            self._partial.rename(self._target)
        except OSError:
            old.rename(self._target)
            raise
        _try_remove(old)

    def keep(self, reason: str) -> Path | None:
        """Make a dump of the whole steps in the hidden directory, named as an incomplete one.

        Args:
            reason: Why the recording did not finish.

        Returns:
            Where it is, ``NAME.incomplete``; None if no step is whole.

        Raises:
            OSError: It cannot be written.
        """
        return self._keep(self._partial, reason)

    def recover(self, reason: str = KILLED) -> Path | None:
        """Put back or keep what a writer left that died.

        Returns:
            Where there is something now: the dump itself, or its whole steps; None if nothing
            was left.

        Raises:
            DumpWriteError: A writer is at work there, or nobody may write.
        """
        was_there = os.path.lexists(self._target)
        try:
            self._acquire()
            kept = self._tidy(reason)
        except OSError as error:
            raise write_error(f"recover a dump at {self._shown!r}", error) from error
        finally:
            self.release()
        return self._target if not was_there and self._target.exists() else kept

    def discard(self) -> None:
        """Remove the hidden directory and parents that were made for it, as far as that works."""
        if self._partial.exists():
            _try_remove(self._partial)

    def release(self) -> None:
        """Give the lock back; harmless when there is none."""
        self._lock.release()
        for parent in reversed(self._made):
            try:
                parent.rmdir()
            except OSError:
                break  # something is in it now
        self._made.clear()

    def _sibling(self, suffix: str) -> Path:
        return self._target.with_name(f".{self._target.name}.{suffix}")

    def _make_parents(self) -> None:
        missing = [p for p in (self._target, *self._target.parents) if not p.exists()]
        for parent in reversed(missing):
            if parent != self._target:
                parent.mkdir(exist_ok=True)
                self._made.append(parent)

    def _acquire(self) -> None:
        holder = self._lock.acquire()
        if holder is not None:
            raise DumpWriteError(
                f"cannot write a dump at {self._shown!r}: {holder or 'another process'} is writing "
                "one there",
                hint="wait for it to finish, or choose another name",
            )

    def _tidy(self, reason: str = KILLED) -> Path | None:
        """Put back, keep or remove what writers left that died; only under the lock."""
        if not self._lock.is_held:
            return None
        remove_dead(self._target.parent)
        for partial in sorted(self._siblings("partial-")):
            if not self._target.exists() and is_promised(partial):
                partial.rename(self._target)  # all but the last rename was done
        for old in sorted(self._siblings("old-")):
            if not self._target.exists() and is_dump(old):
                old.rename(self._target)
            else:
                _try_remove(old)
        kept = None
        for partial in self._siblings("partial-"):
            with suppress(OSError):  # the next writer to this place tries again
                kept = self._keep(partial, reason) or kept
            if partial.exists():
                _try_remove(partial)
        return kept

    def _keep(self, directory: Path, reason: str) -> Path | None:
        if not directory.is_dir() or foreign_entry(directory) is not None:
            return None  # with a link in it, it would lead elsewhere what is dropped and written
        if finish_unfinished(directory, reason) is None:
            return None
        kept = self._target.with_name(f"{self._target.name}.incomplete")
        if not kept.is_symlink() and is_incomplete(kept):
            _try_remove(kept)
        if os.path.lexists(kept):
            kept = kept.with_name(f"{kept.name}-{secrets.token_hex(2)}")
        directory.rename(kept)
        return kept

    def _siblings(self, kind: str) -> list[Path]:
        prefix = f".{self._target.name}.{kind}"
        pattern = re.compile(re.escape(prefix) + r"[0-9a-f]{8}")
        return [
            entry
            for entry in self._target.parent.iterdir()
            if pattern.fullmatch(entry.name) and entry.is_dir() and not entry.is_symlink()
        ]

    def _check_target(self) -> None:
        if not os.path.lexists(self._target):
            return
        where = f"cannot write a dump at {self._shown!r}"
        if not self._target.is_dir():
            raise DumpExistsError(
                f"{where}: expected no file there, found one", hint="choose another name"
            )
        if not any(self._target.iterdir()):
            return
        if not is_dump(self._target):
            raise DumpExistsError(
                f"{where}: expected a dump or nothing, found a directory of other things",
                hint="choose another name; padiff removes nothing but dumps",
            )
        foreign = foreign_entry(self._target)
        if foreign is not None:
            raise DumpExistsError(
                f"{where}: the dump there also holds {str(foreign.relative_to(self._target))!r}",
                hint="move that file away, or choose another name; padiff removes only dumps",
            )
        if not self._overwrite:
            raise DumpExistsError(
                f"{where}: there is a dump already",
                hint="choose another name, or replace it with overwrite=True",
            )


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
