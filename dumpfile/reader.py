"""Opens a dump: reads its manifest, says clearly what is wrong, and opens its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .errors import DumpFormatError, DumpNotFoundError
from .manifestcodec import FOLDED, LOADED, MANIFEST_NAME, RUN, UNSAVED, decode_manifest
from .problem import Problem, ProblemKind
from .stepfile import StepFile
from .store import store_of
from .validity import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .schema import FileInfo, Manifest
    from .store import Store

_MOST_SHOWN = 3
_OTHER_VERSIONS = {
    ProblemKind.VERSION: "install a newer padiff",
    ProblemKind.AGE: "record again, or install the padiff that wrote it",
}
"""What helps against a dump of another version."""


class Dump:
    """A complete dump. Made by ``open_dump``."""

    def __init__(self, path: Path, manifest: Manifest, store: Store | None = None) -> None:
        """Keep the path and what was read there.

        Args:
            path: Of the dump.
            manifest: What was read there.
            store: Where its files are; None looks at the path.
        """
        self._path = path
        self._store = store_of(path) if store is None else store
        self._manifest = manifest
        self._places = {(info.step, info.rank): info for info in manifest.files}

    @property
    def path(self) -> Path:
        """Return the dump's directory, as it was named; a URL lacks a slash there."""
        return self._path

    @property
    def manifest(self) -> Manifest:
        """Return the manifest."""
        return self._manifest

    @property
    def files(self) -> tuple[FileInfo, ...]:
        """Return all files, by step and rank."""
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
        opened = StepFile(
            self._path / info.path,
            source=self._store.source(info),
            framework=self._manifest.framework,
            unsaved=_names(self._manifest, UNSAVED),
            folded=_names(self._manifest, FOLDED),
            did_run=self._manifest.settings.get(RUN) is not False,
            like=like,
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


def _names(manifest: Manifest, setting: str) -> frozenset[str]:
    """Return the names of weights that a setting lists; none of what is no name."""
    names = manifest.settings.get(setting, ())
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
        path: Its directory, ``padiff_dump/<model>``, or its URL.

    Raises:
        DumpNotFoundError: There is nothing, or no dump.
        DumpFormatError: It is incomplete, of another version, or its manifest is wrong.
    """
    store = store_of(path)
    manifest, problems = decode_manifest(store.manifest())
    if manifest is not None:
        return Dump(Path(path), manifest, store)
    if problems[0].kind in _OTHER_VERSIONS:
        raise DumpFormatError(
            f"cannot read dump {store.shown!r}: {problems[0].message}",
            hint=_OTHER_VERSIONS[problems[0].kind],
        )
    shown = "; ".join(f"{problem.loc}: {problem.message}" for problem in problems[:_MOST_SHOWN])
    raise DumpFormatError(
        f"cannot read dump {store.shown!r}: {MANIFEST_NAME} is wrong: {shown}",
        hint="see all problems with `padiff check`, and record again",
    )
