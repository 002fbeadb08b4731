"""Opens a dump: reads its manifest, says clearly what is wrong, and opens its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .directory import read_manifest
from .errors import DumpFormatError, DumpNotFoundError
from .manifestcodec import LOADED, MANIFEST_NAME, UNSAVED, decode_manifest
from .plainfile import check_plain_file
from .problem import Problem, ProblemKind
from .stepfile import StepFile
from .validity import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .schema import FileInfo, Manifest

_MOST_SHOWN = 3


class Dump:
    """A complete dump. Made by ``open_dump``."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """Keep the path and what was read there."""
        self._path = path
        self._manifest = manifest
        self._places = {(info.step, info.rank): info for info in manifest.files}

    @property
    def path(self) -> Path:
        """Give the dump's directory, as it was named."""
        return self._path

    @property
    def manifest(self) -> Manifest:
        """Give the manifest."""
        return self._manifest

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """Give all files, by step and rank."""
        return self._manifest.files

    @property
    def loaded_weights(self) -> tuple[tuple[str, str], ...]:
        """Return a weight's name in the source with its name here, for all that were loaded."""
        return tuple(_loaded(self._manifest))

    def open(self, step: int = 0, rank: int = 0, *, like: StepFile | None = None) -> StepFile:
        """Open the file of one step and rank.

        Args:
            step: Iteration, from 0.
            rank: Index of the process, from 0.
            like: An open file that it may be like: what both say of modules, calls and records is
                read once.

        Raises:
            DumpNotFoundError: The dump has no such step and rank.
            DumpFormatError: The file is missing, truncated or no file of a dump.
        """
        info = self._places.get((step, rank))
        if info is not None:
            return self._open(info, like)
        have = ", ".join(f"step {info.step} rank {info.rank}" for info in self.files[:20])
        raise DumpNotFoundError(
            f"cannot read step {step} rank {rank} of dump {str(self._path)!r}: it has {have}"
        )

    def problems(self) -> list[Problem]:
        """Check the whole dump without recomputing digests; see ``validate``."""
        return validate(self._path, deep=False)

    def _open(self, info: FileInfo, like: StepFile | None) -> StepFile:
        path = self._path / info.path
        check_plain_file(path)
        try:
            found = path.stat().st_size
        except OSError as error:
            raise DumpFormatError(
                f"cannot read dump {str(self._path)!r}: expected the file {info.path!r}, "
                f"found {error.strerror}",
                hint="copy the whole directory, or record again",
            ) from error
        if found != info.size_bytes:
            raise DumpFormatError(
                f"cannot read dump {str(self._path)!r}: expected {info.size_bytes} bytes in "
                f"{info.path!r}, found {found}",
                hint="the file is truncated or was changed: copy it again, or record again",
            )
        opened = StepFile(
            path, framework=self._manifest.framework, unsaved=_unsaved(self._manifest), like=like
        )
        try:
            _check_place(opened, info)
        except DumpFormatError:
            opened.close()
            raise
        return opened


def _loaded(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield each name of a source with that of the weight; what is written otherwise is left."""
    names = manifest.settings.get(LOADED, {})
    for name, sources in names.items() if isinstance(names, dict) else ():
        for source in sources if isinstance(sources, list) else ():
            if isinstance(source, str):
                yield source, name


def _unsaved(manifest: Manifest) -> frozenset[str]:
    """Return names of buffers that the framework does not save; none of what is no name."""
    names = manifest.settings.get(UNSAVED, ())
    if not isinstance(names, list):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str))


def _check_place(file: StepFile, info: FileInfo) -> None:
    index = file.index
    if (index.step, index.rank) != (info.step, info.rank):
        raise DumpFormatError(
            f"cannot read {str(file.path)!r}: expected step {info.step} rank {info.rank}, "
            f"found step {index.step} rank {index.rank}"
        )


def open_dump(path: Path | str) -> Dump:
    """Open a dump.

    Args:
        path: Its directory, ``padiff_dump/<model>``.

    Raises:
        DumpNotFoundError: There is nothing, or no dump.
        DumpFormatError: It is incomplete, of a newer version, or its manifest is wrong.
    """
    directory = Path(path)
    data = read_manifest(directory)
    manifest, problems = decode_manifest(data)
    if manifest is not None:
        return Dump(directory, manifest)
    if problems[0].kind is ProblemKind.VERSION:
        raise DumpFormatError(
            f"cannot read dump {str(directory)!r}: {problems[0].message}",
            hint="install a newer padiff",
        )
    shown = "; ".join(f"{problem.loc}: {problem.message}" for problem in problems[:_MOST_SHOWN])
    raise DumpFormatError(
        f"cannot read dump {str(directory)!r}: {MANIFEST_NAME} is wrong: {shown}",
        hint="see all problems with `padiff check`, and record again",
    )
