"""``padiff push``: a dump into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from padiff.comparer.report.escape import printable

from .command import command
from .output import emit


@command(
    examples="""
    padiff push padiff_dump/torch s3://bucket/dumps/torch
    padiff compare s3://bucket/dumps/torch padiff_dump/paddle
    """
)
@click.argument("dump", type=click.Path(path_type=Path))
@click.argument("url")
@click.option("--overwrite", is_flag=True, help="Replace a dump that is there.")
def push(dump: Path, url: str, *, overwrite: bool) -> int:
    """Put DUMP below URL, from where every command reads it.

    URL is `s3://`, `gs://`, `abfs://`, `hdfs://` or `ssh://`. The manifest comes last: a push that
    is broken off leaves no dump, and can be repeated. Needs fsspec (`pip install
    'padiff-align[remote]'`) and the package of the protocol.
    """
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415 -- after the options
    from padiff.dumpfile.transfer import push as push_dump  # noqa: PLC0415
    from padiff.dumpfile.urls import shown_url  # noqa: PLC0415

    with unpacked(dump) as place, _bar() as progress:
        size = push_dump(place, url, overwrite=overwrite, progress=progress)
    emit(f"pushed: {printable(shown_url(url))}, {size:,} bytes\n")
    return 0


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """Draw how far it is, on a terminal."""
    from rich.console import Console  # noqa: PLC0415 -- after the options
    from rich.progress import BarColumn, DownloadColumn, Progress  # noqa: PLC0415

    console = Console(stderr=True)
    with Progress(
        BarColumn(),
        DownloadColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("")
        yield lambda done, total: bar.update(task, completed=done, total=total)
