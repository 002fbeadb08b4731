"""Where a dump is: in a directory, or below a URL. Nothing else of the reader knows which.

A directory may hold the manifest of a dump, its files, or neither.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .errors import DumpError, DumpFormatError, DumpNotFoundError
from .manifestcodec import MANIFEST_NAME, file_path
from .problem import Problem, ProblemKind
from .remote import RemoteFiles, RemoteSource
from .stepfile import StepFile
from .stepsource import LocalSource, StepSource
from .untrusted import LINK, check_plain_file
from .urls import url_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from .schema import FileInfo


class Store(Protocol):
    """The files of one dump."""

    @property
    def shown(self) -> str:
        """The dump's name, for messages."""

    def manifest(self) -> bytes:
        """Read the manifest.

        Raises:
            DumpNotFoundError: There is no dump.
            DumpFormatError: It is incomplete.
        """

    def extra(self, name: str, most_bytes: int) -> bytes | None:
        """Read a file beside the manifest, None if there is none.

        Raises:
            DumpError: It cannot be read, or is larger.
            OSError: The same.
        """

    def source(self, info: FileInfo) -> StepSource:
        """Open a step file, if it has the size that the manifest says.

        Raises:
            DumpError: It has not, or cannot be read.
        """

    def opened_anyhow(self, info: FileInfo) -> tuple[StepSource | None, list[Problem]]:
        """Open a step file as far as that goes, and return what is wrong with it."""

    def strays(self, listed: Collection[str]) -> list[Problem]:
        """Return what is wrong with files that are not listed."""


def store_of(place: Path | str) -> Store:
    """Return the store of a dump.

    Raises:
        ConfigError: The URL's protocol is not known, or a package is missing.
    """
    url = url_of(place)
    if url is None:
        return _Directory(Path(place))
    return _Remote(RemoteFiles(url))


class _Directory:
    """A dump on a disk."""

    def __init__(self, directory: Path) -> None:
        self._path = directory
        self.shown = str(directory)

    def manifest(self) -> bytes:
        return read_manifest(self._path)

    def extra(self, name: str, most_bytes: int) -> bytes | None:
        path = self._path / name
        check_plain_file(path)
        if not path.exists():
            return None
        found = path.stat().st_size
        if found > most_bytes:
            raise DumpFormatError(
                f"cannot read {str(path)!r}: expected at most {most_bytes} bytes, found {found}"
            )
        return path.read_bytes()

    def source(self, info: FileInfo) -> StepSource:
        path = self._path / info.path
        check_plain_file(path)
        try:
            found = path.stat().st_size
        except OSError as error:
            raise DumpFormatError(
                f"cannot read dump {self.shown!r}: expected the file {info.path!r}, "
                f"found {error.strerror}",
                hint="copy the whole directory, or record again",
            ) from error
        if found != info.size_bytes:
            raise DumpFormatError(
                f"cannot read dump {self.shown!r}: expected {info.size_bytes} bytes in "
                f"{info.path!r}, found {found}",
                hint="the file is truncated or was changed: copy it again, or record again",
            )
        return LocalSource(path)

    def opened_anyhow(self, info: FileInfo) -> tuple[StepSource | None, list[Problem]]:
        path = self._path / info.path
        try:
            check_plain_file(path)
        except DumpFormatError as error:
            return None, [_problem(info.path, ProblemKind.FORBIDDEN, error.message)]
        if not path.is_file():
            return None, [_problem(info.path, ProblemKind.MISSING, "expected the file, found none")]
        found = path.stat().st_size
        problems: list[Problem] = []
        if found != info.size_bytes:
            message = f"expected {info.size_bytes} bytes, found {found}"
            problems.append(_problem(info.path, ProblemKind.SIZE, message))
        try:
            return LocalSource(path), problems
        except DumpError as error:
            return None, [*problems, _problem(info.path, ProblemKind.SYNTAX, error.message)]

    def strays(self, listed: Collection[str]) -> list[Problem]:
        problems = [
            _problem(name, ProblemKind.UNEXPECTED, "no entry in the manifest")
            for name in step_files(self._path)
            if name not in listed
        ]
        return problems + [
            _problem(name, ProblemKind.FORBIDDEN, f"it {LINK}")
            for name in linked_steps(self._path)
            if not any(path.startswith(f"{name}/") for path in listed)
        ]


class _Remote:
    """A dump below a URL."""

    def __init__(self, files: RemoteFiles) -> None:
        self._files = files
        self.shown = files.shown

    def manifest(self) -> bytes:
        try:
            return self._files.read(MANIFEST_NAME, MANIFEST_LIMIT_BYTES)
        except DumpNotFoundError as error:
            raise DumpNotFoundError(
                f"cannot read dump {self.shown!r}: expected {MANIFEST_NAME} there, found none",
                hint="`padiff push DUMP URL` puts a dump there, its manifest last",
            ) from error

    def extra(self, name: str, most_bytes: int) -> bytes | None:
        try:
            return self._files.read(name, most_bytes)
        except DumpNotFoundError:
            return None

    def source(self, info: FileInfo) -> StepSource:
        try:
            return RemoteSource(self._files, info)
        except DumpNotFoundError as error:
            raise DumpFormatError(
                f"cannot read dump {self.shown!r}: expected the object {info.path!r}, found none",
                hint="push the dump again",
            ) from error

    def opened_anyhow(self, info: FileInfo) -> tuple[StepSource | None, list[Problem]]:
        try:
            return self.source(info), []
        except DumpError as error:
            return None, [_problem(info.path, ProblemKind.SYNTAX, error.message)]

    def strays(self, listed: Collection[str]) -> list[Problem]:
        del listed
        return []  # nothing reads what no manifest lists


def _problem(loc: str, kind: ProblemKind, message: str) -> Problem:
    return Problem(loc=loc, kind=kind, message=message)


MANIFEST_LIMIT_BYTES = 64 << 20
_STEP = re.compile(r"step_(\d{6,})")
_RANK = re.compile(r"rank_(\d{4,})\.h5")


def read_manifest(directory: Path) -> bytes:
    """Read the manifest's bytes.

    Raises:
        DumpNotFoundError: There is nothing, or no dump.
        DumpFormatError: The dump is incomplete, or the manifest cannot be read.
    """
    manifest = directory / MANIFEST_NAME
    check_plain_file(manifest)
    try:
        if manifest.stat().st_size > MANIFEST_LIMIT_BYTES:
            raise DumpFormatError(f"cannot read {str(manifest)!r}: it is too big for a manifest")
        return manifest.read_bytes()
    except DumpError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise _explain_missing(directory) from None
    except (OSError, ValueError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise DumpFormatError(f"cannot read dump {str(directory)!r}: {text}") from error


def _explain_missing(directory: Path) -> DumpError:
    where = f"cannot read dump {str(directory)!r}"
    if not directory.exists():
        return DumpNotFoundError(f"{where}: there is no such directory", hint=_beside(directory))
    if not directory.is_dir():
        return DumpNotFoundError(f"{where}: expected a directory, found a file")
    files = step_files(directory)
    if files:
        whole = [name for name in files if _is_whole(directory / name)]
        found = ", ".join(whole[:20]) if whole else "none"
        return DumpFormatError(
            f"{where}: it is incomplete (no {MANIFEST_NAME}); whole are: {found}",
            hint="the recording did not finish, or is still going on: `padiff check --recover "
            "NAME` makes a dump of the whole steps; or record again",
        )
    inner = sorted(
        entry.name
        for entry in directory.iterdir()
        if not entry.name.startswith(".") and (entry / MANIFEST_NAME).is_file()
    )
    names = ", ".join(str(directory / name) for name in inner[:5])
    return DumpNotFoundError(
        f"{where}: expected {MANIFEST_NAME} there, found none",
        hint=f"did you mean one of: {names}" if inner else None,
    )


def _beside(directory: Path) -> str | None:
    parent = directory.parent
    if not directory.name or not parent.is_dir():
        return None
    pattern = re.compile(rf"\.{re.escape(directory.name)}\.(partial|old)-[0-9a-f]{{8}}")
    hidden = sorted(entry for entry in parent.iterdir() if pattern.fullmatch(entry.name))
    if hidden:
        return (
            f"a recording that did not finish, or is still going on, left {str(hidden[0])!r}: "
            "`padiff check --recover` saves what is whole"
        )
    if (parent / f"{directory.name}.incomplete" / MANIFEST_NAME).is_file():
        kept = str(parent / f"{directory.name}.incomplete")
        return f"the whole steps of a recording that did not finish are in {kept!r}"
    dumps = sorted(
        entry.name
        for entry in parent.iterdir()
        if not entry.name.startswith(".") and (entry / MANIFEST_NAME).is_file()
    )
    return f"dumps there: {', '.join(dumps[:5])}" if dumps else None


def linked_steps(directory: Path) -> list[str]:
    """List the names of step directories that are links."""
    return sorted(
        entry.name
        for entry in directory.iterdir()
        if _STEP.fullmatch(entry.name) and entry.is_symlink()
    )


def step_files(directory: Path) -> list[str]:
    """List the paths of all step files in a directory, relative to it, in the manifest or not.

    A step directory that is a link is passed over: what it leads to is not even listed.
    """
    found: list[tuple[int, int]] = []
    for entry in directory.iterdir():
        step = _STEP.fullmatch(entry.name)
        if step is None or entry.is_symlink() or not entry.is_dir():
            continue
        names = (file.name for file in entry.iterdir())
        ranks = (_RANK.fullmatch(name) for name in names)
        found.extend((int(step[1]), int(rank[1])) for rank in ranks if rank is not None)
    return [file_path(step, rank) for step, rank in sorted(found)]


def _is_whole(path: Path) -> bool:
    try:
        with StepFile(path) as file:
            return not file.problems
    except DumpError:
        return False
