"""Compare files of named arrays as if they were dumps."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpWriteError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from padiff.dumper.adapter import Array

MANIFEST = "manifest.json"


@contextmanager
def as_dumps(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """Yield dumps for paths of which some are files of arrays, or folders of such files.

    Args:
        paths: Dumps stay as they are; so does what is neither, to be refused as a dump.

    Yields:
        As many paths; the temporary ones are gone afterwards.

    Raises:
        ConfigError: A file cannot be read.
        DumpWriteError: There is no room for temporary files.
    """
    if not any(map(_holds_arrays, paths)):
        yield paths
        return
    from padiff.dumper.recording.named import write_named  # noqa: PLC0415 - few need it
    from padiff.dumpfile.scratch import scratch_folder  # noqa: PLC0415

    with scratch_folder() as folder:
        found = []
        for place, path in enumerate(paths):
            if not _holds_arrays(path):
                found.append(path)
                continue
            target = folder / str(place) / path.resolve().name
            try:
                found.append(write_named(target, [_arrays(path)]))
            except DumpWriteError as error:
                hint = "temporary files lie there; set TMPDIR to a place with more room"
                raise DumpWriteError(error.message, hint=hint) from error
        yield tuple(found)


def _arrays(path: Path) -> dict[str, Array]:
    """Read the arrays of a file or a folder by their slots, and what reprod_log saved.

    Raises:
        ConfigError: They cannot be read.
    """
    from padiff.dumper.recording.named import read_named  # noqa: PLC0415 - few need it
    from padiff.reprodfile import read_reprod  # noqa: PLC0415

    saved = read_reprod(path) if path.suffix == ".npy" else None
    return read_named(path) if saved is None else saved


def _holds_arrays(path: Path) -> bool:
    if path.is_dir() and ((path / MANIFEST).exists() or any(path.glob("step_*"))):
        return False
    from padiff.dumper.recording.named import SUFFIXES  # noqa: PLC0415 -- few need it

    files = path.rglob("*") if path.is_dir() else [path] if path.is_file() else []
    return any(file.suffix in SUFFIXES for file in files)
