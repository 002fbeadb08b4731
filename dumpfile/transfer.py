"""Puts a dump into a store, and copies one out of it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ConfigError, DumpError, DumpExistsError, DumpNotFoundError, DumpWriteError
from .floor import FLOOR_NAME
from .manifestcodec import MANIFEST_NAME, decode_manifest
from .reader import open_dump
from .remote import RemoteFiles
from .scratch import scratch_folder
from .store import store_of
from .untrusted import check_plain_file
from .urls import url_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .reader import Dump


def push(
    dump: Path,
    target: Path | str,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Put a dump below a URL, the manifest last: one that is broken off leaves no dump there.

    Args:
        dump: Directory of the dump.
        target: The URL.
        overwrite: Whether a dump there may be replaced. Nothing else is ever removed.
        progress: Called with how many bytes are there, and how many it will be.

    Returns:
        Its size in bytes.

    Raises:
        ConfigError: The target is not a URL, or of a protocol that is not known.
        DumpExistsError: A dump is there already.
        DumpError: The dump cannot be read, or the store refuses.
    """
    url = url_of(target)
    if url is None:
        raise ConfigError(
            f"cannot push to {str(target)!r}: expected a URL such as s3://bucket/name",
            hint="to copy a dump on a disk, copy its directory",
        )
    opened = open_dump(dump)
    names = [*(info.path for info in opened.files), MANIFEST_NAME]
    if (dump / FLOOR_NAME).exists():
        names.insert(-1, FLOOR_NAME)
    sizes = {name: _size(dump / name) for name in names}
    _check_whole(opened, sizes)
    files = RemoteFiles(url)
    stale = _make_way(files, overwrite=overwrite)
    done, total = 0, sum(sizes.values())
    for name in names:
        progress(done, total)
        if name == MANIFEST_NAME:
            for old in stale - {*names}:
                files.remove(old)
        files.put(dump / name, name)
        found = files.identity(name)[0]
        if found != sizes[name]:
            raise DumpWriteError(
                f"cannot push to {files.shown!r}: expected {sizes[name]} bytes of {name!r} there, "
                f"found {found}"
            )
        done += sizes[name]
    progress(done, total)
    return total


def _size(path: Path) -> int:
    check_plain_file(path)
    return path.stat().st_size if path.is_file() else -1


def _check_whole(opened: Dump, sizes: dict[str, int]) -> None:
    for info in opened.files:
        if sizes[info.path] != info.size_bytes:
            raise DumpError(
                f"cannot push {str(opened.path)!r}: expected {info.size_bytes} bytes of "
                f"{info.path!r}, found {max(sizes[info.path], 0)}",
                hint="see all problems with `padiff check`",
            )
        if info.contents is None:
            raise DumpError(
                f"cannot push {str(opened.path)!r}: {info.path!r} has no table of contents, by "
                "which it could be read from there",
                hint="record again: an earlier padiff wrote it",
            )


def _make_way(files: RemoteFiles, *, overwrite: bool) -> set[str]:
    """Take the manifest of a dump that is replaced away; return the names of its other files."""
    try:
        old, _ = decode_manifest(store_of(files.url).manifest())
    except DumpNotFoundError:
        return set()
    if not overwrite:
        raise DumpExistsError(
            f"cannot push to {files.shown!r}: a dump is there already",
            hint="--overwrite replaces it",
        )
    files.remove(MANIFEST_NAME)
    return {FLOOR_NAME, *(info.path for info in (old.files if old else ()))}


@contextmanager
def on_disk(place: Path) -> Iterator[Path]:
    """Yield the directory of a dump: of one in a store a copy, for as long as the block runs.

    Raises:
        DumpError: It cannot be read.
    """
    url = url_of(place)
    if url is None:
        yield place
        return
    with scratch_folder() as folder:
        target = folder / Path(url).name
        files, dump = RemoteFiles(url), open_dump(place)
        for info in dump.files:
            files.download(info.path, target / info.path)
        for name, data in (
            (FLOOR_NAME, store_of(url).extra(FLOOR_NAME, 1 << 30)),
            (MANIFEST_NAME, store_of(url).manifest()),
        ):
            if data is not None:
                (target / name).write_bytes(data)
        yield target
