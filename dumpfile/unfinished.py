"""A recording that did not finish: what of it is whole, and how that becomes a dump.

A recording states in ``begun.json`` what it is about before its first step. If it dies, the files
of its whole steps and that statement are enough for a manifest, which says in ``incomplete`` why
the recording ended. Such a dump never gets the name that the recording was to have.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from .address import Phase
from .errors import DumpError
from .manifestcodec import BEGUN_NAME, MANIFEST_NAME, decode_manifest, encode_manifest
from .schema import FileInfo, Mesh
from .stepfile import StepFile
from .store import step_files

if TYPE_CHECKING:
    from pathlib import Path

    from .schema import Manifest

_MOST_BYTES = 64 << 20
_MOST_TEXT = 500  # characters of a reason
_PHASES = tuple(Phase)


def state_begin(directory: Path, manifest: Manifest) -> None:
    """Write what a recording is about, before its first step.

    Raises:
        OSError: It cannot be written.
    """
    partial = directory / f".{BEGUN_NAME}.partial"
    partial.write_bytes(encode_manifest(replace(manifest, files=())))
    partial.rename(directory / BEGUN_NAME)


def whole_files(directory: Path) -> tuple[tuple[FileInfo, ...], Phase, tuple[Mesh, ...]]:
    """Find the step files that can be read to the end.

    Returns:
        The files by step and rank, the last phase that any of them holds, and their meshes.
    """
    found: list[FileInfo] = []
    meshes: dict[Mesh, None] = {}
    latest = 0
    for name in step_files(directory):
        try:
            with StepFile(directory / name) as file:
                index = file.index
                found.append(_describe(file, name, (directory / name).stat().st_size))
                meshes.update(dict.fromkeys(index.meshes))
                phases = {record.phase for record in index.records}
        except (DumpError, OSError):
            continue
        latest = max([latest, *map(_PHASES.index, phases)])
    return tuple(found), _PHASES[latest], tuple(meshes)


def _describe(file: StepFile, name: str, size_bytes: int) -> FileInfo:
    index = file.index
    return FileInfo(
        step=index.step,
        rank=index.rank,
        path=name,
        size_bytes=size_bytes,
        calls=len(index.calls),
        records=len(index.records),
        contents=file.contents,
    )


def finish_unfinished(directory: Path, reason: str) -> Manifest | None:
    """Write a manifest that lists an unfinished recording's whole steps, and drop the rest.

    Returns:
        The manifest, or None if no step is whole or nothing says what was recorded; the directory
        is unchanged then.

    Raises:
        OSError: It cannot be written.
    """
    begun = _read_begin(directory)
    if begun is None:
        return None
    files, phase, meshes = whole_files(directory)
    if not files:
        return None
    text = " ".join(reason.split())[:_MOST_TEXT] or "unknown"
    manifest = replace(begun, files=files, phase=phase, meshes=meshes, incomplete=text)
    partial = directory / f".{MANIFEST_NAME}.partial"
    partial.write_bytes(encode_manifest(manifest))
    _drop_rest(directory, {info.path for info in files})
    partial.rename(directory / MANIFEST_NAME)
    return manifest


def _read_begin(directory: Path) -> Manifest | None:
    path = directory / BEGUN_NAME
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            return None
        return decode_manifest(path.read_bytes(), has_files=False)[0]
    except OSError:
        return None


def _drop_rest(directory: Path, kept: set[str]) -> None:
    """Remove what is left of the step that was running; the names are those of dumps only."""
    for entry in directory.glob("step_*/*"):
        if entry.relative_to(directory).as_posix() not in kept:
            entry.unlink()
    for folder in directory.glob("step_*"):
        with suppress(OSError):  # it holds a file
            folder.rmdir()
    (directory / BEGUN_NAME).unlink(missing_ok=True)


def is_promised(directory: Path) -> bool:
    """Return whether a manifest is there and all files that it lists have their sizes."""
    try:
        data = (directory / MANIFEST_NAME).read_bytes()
        manifest, _ = decode_manifest(data)
        return manifest is not None and all(
            (directory / info.path).stat().st_size == info.size_bytes for info in manifest.files
        )
    except OSError:
        return False
