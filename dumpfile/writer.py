"""Builds a whole dump beside its place, and swaps it in when it is complete."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from .arena import Arena
from .errors import DumpExistsError, DumpWriteError, PadiffError, write_error
from .keep import Keep
from .lock import Owner
from .manifestcodec import BEGUN_NAME, MANIFEST_NAME, encode_manifest, file_path
from .place import Place
from .stepwriter import StepWriter
from .unfinished import state_begin

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from .schema import FileInfo, Manifest, Mesh

_EVERYTHING = Keep()


class DumpWriter:
    """Writes a dump; use it as a context manager, and end with ``commit``.

    Until ``commit`` nothing is to be seen at the dump's place. Leaving without it, by an error or
    not, removes all that was written, unless ``describe`` was called and steps are whole: these
    are then kept beside the place as an incomplete dump. An earlier dump stays as it was.

    >>> with DumpWriter(Path("padiff_dump/net")) as writer:  # doctest: +SKIP
    ...     with writer.step(0, 0) as step:
    ...         step.add_modules(modules)
    ...     writer.commit(manifest)
    """

    def __init__(
        self,
        directory: Path,
        *,
        overwrite: bool = False,
        compression: int | None = None,
        content: Keep = _EVERYTHING,
    ) -> None:
        """Note where the dump goes.

        Args:
            directory: The dump's directory; parents are made.
            overwrite: Whether a dump that is there may be replaced. Anything else never is.
            compression: Level of deflate, 1 to 9; None to write datasets that can be mapped.
            content: How much of each value is written.
        """
        self._content = content
        self._shown = str(directory)
        self._place = Place(Path(directory), overwrite=overwrite)
        self._compression = compression
        self._arena = Arena()
        self._open: dict[str, StepWriter] = {}
        self._files: list[FileInfo] = []
        self._meshes: dict[Mesh, None] = {}
        self._is_described = False
        self._owner = Owner()

    def __enter__(self) -> Self:
        """Claim the place.

        Raises:
            DumpExistsError: There is something that must not be replaced.
            DumpWriteError: Another process writes there, or nobody may.
        """
        self._owner = Owner()  # it may have been made before a fork
        self._place.claim()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove what was not committed, but for whole steps, and give the place free.

        A forked process leaves everything to the one that began.
        """
        if not self.is_owned:
            return
        try:
            for step in self._open.values():
                step.abandon()
            if self._is_described and self._files:
                self._keep_whole_steps(error)
        finally:
            self._place.discard()
            self._place.release()

    @property
    def is_owned(self) -> bool:
        """Return whether this is the process that began to write, and none forked from it."""
        return self._owner.is_here

    def describe(self, manifest: Manifest) -> None:
        """Note what the dump is about, so that its whole steps are of use if it never ends.

        Args:
            manifest: As known when recording begins; ``files`` is not looked at.

        Raises:
            DumpWriteError: It cannot be written.
        """
        try:
            state_begin(self._place.partial, manifest)
        except OSError as error:
            raise write_error(f"write a dump at {self._shown!r}", error) from error
        self._is_described = True

    def step(self, step: int, rank: int = 0) -> StepWriter:
        """Begin the file of one step and rank.

        Raises:
            DumpWriteError: The file exists already, or cannot be created.
        """
        relative = file_path(step, rank)
        made = StepWriter(
            self._place.partial / relative,
            relative=relative,
            step=step,
            rank=rank,
            compression=self._compression,
            content=self._content,
            arena=self._arena,
            shown=str(Path(self._shown) / relative),
            finished=self._finished,
        )
        self._open[relative] = made
        return made

    @property
    def meshes(self) -> tuple[Mesh, ...]:
        """Return the meshes of the steps that are whole."""
        return tuple(self._meshes)

    def hand_over(self) -> tuple[Path, tuple[FileInfo, ...]]:
        """Close all steps and give what was written, for another writer to adopt.

        Returns:
            The hidden directory, and its files.

        Raises:
            DumpWriteError: A step could not be written.
        """
        for step in tuple(self._open.values()):
            step.close()
        return self._place.partial, tuple(self._files)

    def adopt(self, folder: Path, files: Iterable[FileInfo], meshes: Iterable[Mesh] = ()) -> None:
        """Take the files of another writer over; its ranks or steps must be others.

        Raises:
            DumpWriteError: A file cannot be moved, or is not whole.
        """
        self._meshes.update(dict.fromkeys(meshes))
        for info in files:
            target = self._place.partial / info.path
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(folder / info.path, target)
                found = target.stat().st_size
            except OSError as error:
                raise write_error(f"take over {info.path!r}", error) from error
            if found != info.size_bytes:
                raise DumpWriteError(
                    f"cannot take over {info.path!r}: expected {info.size_bytes} bytes, "
                    f"found {found}"
                )
            self._files.append(info)

    def commit(self, manifest: Manifest) -> Path:
        """Close all steps, write the manifest, and give the dump its name.

        Args:
            manifest: Describes the dump; ``files`` is filled in here.

        Returns:
            The dump's directory, absolute.

        Raises:
            DumpExistsError: Meanwhile something came there that must not be replaced.
            DumpWriteError: Something could not be written.
        """
        for step in tuple(self._open.values()):
            step.close()
        if not self._files:
            raise DumpWriteError(f"cannot write a dump at {self._shown!r}: nothing was recorded")
        files = tuple(sorted(self._files, key=lambda info: (info.step, info.rank)))
        whole = replace(manifest, files=files, meshes=self.meshes)
        hidden = self._place.partial / f".{MANIFEST_NAME}.partial"
        try:
            hidden.write_bytes(encode_manifest(whole))
            hidden.rename(self._place.partial / MANIFEST_NAME)
            (self._place.partial / BEGUN_NAME).unlink(missing_ok=True)
            self._is_described = False
            self._place.swap_in()
        except DumpExistsError:
            raise
        except OSError as error:
            raise write_error(f"write a dump at {self._shown!r}", error) from error
        return self._place.target

    def _finished(self, info: FileInfo, meshes: Iterable[Mesh]) -> None:
        self._open.pop(info.path, None)
        self._meshes.update(dict.fromkeys(meshes))
        self._files.append(info)

    def _keep_whole_steps(self, error: BaseException | None) -> None:
        reason = "the recording was not finished" if error is None else _reason(error)
        try:
            kept = self._place.keep(reason)
        except (OSError, RuntimeError):
            return  # a full disk, say; then they go with the rest
        if kept is not None and error is not None:
            count = len({info.step for info in self._files})
            error.add_note(
                f"kept: the {count} whole {'step' if count == 1 else 'steps'} recorded before, in "
                f"{str(kept)!r}"
            )


def _reason(error: BaseException) -> str:
    """Describe on one line what ended a recording."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted (Ctrl-C)"
    text = getattr(error, "message", None) or str(error)
    if isinstance(error, PadiffError) or not text:
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}"
