"""``padiff pack``: a dump as one compressed file."""

from __future__ import annotations

from pathlib import Path

import click

from padiff.comparer.report.escape import printable

from .command import command
from .output import check_place, emit


@command(
    examples="""
    padiff pack padiff_dump/torch
    padiff pack padiff_dump/torch -o baseline/torch.padiff.zip
    """
)
@click.argument("dump", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to this file. [default: DUMP.padiff.zip]",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
def pack(dump: Path, output: Path | None, *, overwrite: bool) -> int:
    """Write DUMP as one compressed file.

    Every command that reads a dump reads such a file, too.
    """
    from padiff.dumpfile.packed import PACKED_SUFFIX  # noqa: PLC0415 -- after the options
    from padiff.dumpfile.packed import pack as pack_dump  # noqa: PLC0415
    from padiff.dumpfile.transfer import on_disk  # noqa: PLC0415
    from padiff.dumpfile.urls import url_of  # noqa: PLC0415

    named = dump if dump.name else dump.resolve()  # "." has no name of its own
    beside = Path() if url_of(dump) else named.parent
    target = beside / (named.name + PACKED_SUFFIX) if output is None else output
    check_place(target)
    with on_disk(dump) as place:
        before = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        size = pack_dump(place, target, overwrite=overwrite)
    emit(f"packed: {printable(str(target))}, {size:,} bytes ({before:,} before)\n")
    return 0
