"""A dump in one file: a zip archive of its directory, for archives and artifacts.

Reading one needs real files, which can be mapped: it is unpacked into a temporary folder for as
long as it is used. Only the names that dumps have are taken out of an archive, never a path of its
own choosing, and no more bytes than it declares and the disk has room for.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .errors import DumpError, DumpFormatError, DumpNotFoundError, DumpWriteError
from .floor import FLOOR_NAME
from .manifestcodec import MANIFEST_NAME
from .reader import open_dump
from .scratch import scratch_folder
from .untrusted import check_plain_file, plain_members
from .urls import url_of
from .wholefile import whole_file

PACKED_SUFFIX = ".padiff.zip"
_MEMBER = re.compile(r"step_\d{6,}/rank_\d{4,}\.h5", re.ASCII)
_TIME = (1980, 1, 1, 0, 0, 0)
"""Of all members, so that packing a dump twice gives the same bytes."""
_CHUNK_BYTES = 1 << 20
_MOST_RATIO = 100
"""Measured on dumps of real models: 1.1 to 8; of nothing but zeros: 1000."""
_SMALL_BYTES = 1 << 30
"""Up to this size any ratio is let through."""
_SPARE_BYTES = 64 << 20
"""Room to leave on the disk."""


def pack(
    dump: Path,
    target: Path,
    *,
    overwrite: bool = False,
    whole: Callable[[], None] = lambda: None,
) -> int:
    """Write a dump as one compressed file, which appears whole or not at all.

    Args:
        dump: Directory of the dump.
        target: The file to write; its name ends in ``.padiff.zip``.
        overwrite: Whether a file there may be replaced.
        whole: Called when all is written, just before the file takes its name.

    Returns:
        Its size in bytes.

    Raises:
        DumpError: The dump cannot be read.
        DumpWriteError: The file is there already, or cannot be written.
    """
    opened = open_dump(dump)
    names = [MANIFEST_NAME, *(info.path for info in opened.files)]
    if os.path.lexists(dump / FLOOR_NAME):
        names.append(FLOOR_NAME)
    if not target.name.endswith(PACKED_SUFFIX):
        raise DumpWriteError(
            f"cannot pack to {str(target)!r}: expected a name {'*' + PACKED_SUFFIX!r}"
        )
    if target.exists() and not overwrite:
        raise DumpWriteError(f"cannot pack to {str(target)!r}: it exists already")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as partial:
            with partial.open("xb") as file:
                archive = _Archive(file, "w", compression=zipfile.ZIP_DEFLATED)
                for name in names:
                    _add(archive, dump / name, name)
                archive.close()
            whole()
        return target.stat().st_size
    except OSError as error:
        text = error.strerror or str(error)
        raise DumpWriteError(f"cannot pack to {str(target)!r}: {text}") from error


class _Archive(zipfile.ZipFile):
    """An archive to write, which nothing but ``close`` ends.

    Where a signal breaks it off, it is let go as it is: ending it would complain of the member
    that is half written.
    """

    def __del__(self) -> None:
        """Do nothing; the file belongs to somebody else."""


def _add(archive: zipfile.ZipFile, source: Path, name: str) -> None:
    check_plain_file(source)
    member = zipfile.ZipInfo(name, date_time=_TIME)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.file_size = source.stat().st_size  # zip64 where it is needed
    with source.open("rb") as file, archive.open(member, "w") as out:
        shutil.copyfileobj(file, out, _CHUNK_BYTES)


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield the directory of a dump, unpacked for as long as the block runs if it is a packed one.

    A path with another name than a packed dump has is given back as it is.

    Raises:
        DumpNotFoundError: There is no such file.
        DumpFormatError: The file is no packed dump, or is damaged.
    """
    if not path.name.endswith(PACKED_SUFFIX):
        yield path
        return
    if url_of(path) is not None:
        raise DumpFormatError(
            f"cannot read packed dump {url_of(path)!r}: expected a file on a disk",
            hint="copy it to a disk; `padiff push` unpacks a packed dump into a store",
        )
    with ExitStack() as exits:
        try:
            place = exits.enter_context(scratch_folder()) / _plain_name(path)
        except OSError as error:
            raise DumpFormatError(
                f"cannot read packed dump {str(path)!r}: no temporary folder: "
                f"{error.strerror or error}",
                hint="set TMPDIR to a place with room",
            ) from error
        _unpack(path, place)
        yield place


def _plain_name(path: Path) -> str:
    """Return a folder of the file's own name, which messages can repeat."""
    name = path.name.removesuffix(PACKED_SUFFIX)
    return name if name.strip(".") else "dump"


def _unpack(path: Path, place: Path) -> None:
    what = f"cannot read packed dump {str(path)!r}"
    check_plain_file(Path(os.path.realpath(path)))
    try:
        with zipfile.ZipFile(path) as archive:
            members = plain_members(archive)
            _check(members, place, what)
            _check_ratio(members, path.stat().st_size, what)
            _take(archive, archive.getinfo(MANIFEST_NAME), place / MANIFEST_NAME, what)
            expected = {FLOOR_NAME, *(info.path for info in open_dump(place).files)}
            for member in members:
                if member.filename == MANIFEST_NAME:
                    continue
                if member.filename not in expected:
                    raise DumpFormatError(f"{what}: {member.filename!r} is not in its manifest")
                _take(archive, member, place / member.filename, what)
    except DumpError:
        raise
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError) as error:
        raise DumpFormatError(f"{what}: {error}", hint="see `padiff pack`") from error
    except FileNotFoundError as error:
        raise DumpNotFoundError(f"{what}: there is no such file") from error
    except (EOFError, OSError, ValueError) as error:
        raise DumpFormatError(f"{what}: {error}") from error
    except zlib.error as error:
        raise DumpFormatError(f"{what}: {error}", hint="it is damaged: copy it again") from error


def _check(members: list[zipfile.ZipInfo], place: Path, what: str) -> None:
    """Look at names and declared sizes before anything is written."""
    names = [member.filename for member in members]
    for name in names:
        if name not in (MANIFEST_NAME, FLOOR_NAME) and not _MEMBER.fullmatch(name):
            raise DumpFormatError(f"{what}: {name!r} is no part of a dump")
    if len(set(names)) < len(names):
        raise DumpFormatError(f"{what}: a name occurs twice")
    if MANIFEST_NAME not in names:
        raise DumpNotFoundError(f"{what}: expected {MANIFEST_NAME} in it, found none")
    needed = sum(member.file_size for member in members)
    room = shutil.disk_usage(place.parent).free - _SPARE_BYTES
    if needed > room:
        raise DumpFormatError(
            f"{what}: expected {needed} bytes of room for temporary files in "
            f"{str(place.parent.parent)!r}, found {max(room, 0)}",
            hint="set TMPDIR to a place with more room",
        )


def _check_ratio(members: list[zipfile.ZipInfo], packed_bytes: int, what: str) -> None:
    """Refuse what no dump of that size unpacks to."""
    needed = sum(member.file_size for member in members)
    if needed > max(_SMALL_BYTES, packed_bytes * _MOST_RATIO):
        raise DumpFormatError(
            f"{what}: expected at most {_MOST_RATIO} times its size when unpacked, found "
            f"{needed} bytes in {packed_bytes}",
            hint="if you trust it, unpack it yourself and name the directory",
        )


def _take(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, what: str) -> None:
    """Write one member, never more than it declares."""
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.file_size
    with archive.open(member) as file, target.open("xb") as out:
        while chunk := file.read(_CHUNK_BYTES):
            left -= len(chunk)
            if left < 0:
                raise DumpFormatError(f"{what}: {member.filename!r} is longer than it declares")
            if chunk.count(0) == len(chunk):
                out.seek(len(chunk), os.SEEK_CUR)  # a hole takes no room
            else:
                out.write(chunk)
        out.truncate(member.file_size - left)
    if left:
        raise DumpFormatError(f"{what}: {member.filename!r} is shorter than it declares")
