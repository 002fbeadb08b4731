"""Where a dump is: in a directory, or below a URL. Nothing else of the reader knows which."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .directory import MANIFEST_LIMIT_BYTES, linked_steps, read_manifest, step_files
from .errors import DumpError, DumpFormatError, DumpNotFoundError
from .manifestcodec import MANIFEST_NAME
from .problem import Problem, ProblemKind
from .remote import RemoteFiles, RemoteSource
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

    Args:
        place: Its directory or its URL.

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
