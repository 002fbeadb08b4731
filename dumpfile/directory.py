"""What lies in a directory that may be a dump: its manifest, its files, or neither."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .errors import DumpError, DumpFormatError, DumpNotFoundError
from .manifestcodec import MANIFEST_NAME, file_path
from .stepfile import StepFile
from .untrusted import check_plain_file

if TYPE_CHECKING:
    from pathlib import Path

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
