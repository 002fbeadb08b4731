"""Compare files of named arrays as if they were dumps."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from padiff.dumpfile import DumpWriteError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["as_dumps"]

MANIFEST = "manifest.json"


@contextmanager
def as_dumps(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """Give dumps for paths of which some are files of arrays, or folders of such files.

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
    from padiff.dumper.recording.named import read_named, write_named  # noqa: PLC0415 - few need it
    from padiff.dumpfile.scratch import scratch_folder  # noqa: PLC0415

    with scratch_folder() as folder:
        found = []
        for place, path in enumerate(paths):
            if not _holds_arrays(path):
                found.append(path)
                continue
            target = folder / str(place) / path.resolve().name
            try:
                found.append(write_named(target, [read_named(path)]))
            except DumpWriteError as error:
                hint = "temporary files lie there; set TMPDIR to a place with more room"
                raise DumpWriteError(error.message, hint=hint) from error
        yield tuple(found)


def _holds_arrays(path: Path) -> bool:
    if path.is_dir() and ((path / MANIFEST).exists() or any(path.glob("step_*"))):
        return False
    from padiff.dumper.recording.named import SUFFIXES  # noqa: PLC0415 -- few need it

    files = path.rglob("*") if path.is_dir() else [path] if path.is_file() else []
    return any(file.suffix in SUFFIXES for file in files)
