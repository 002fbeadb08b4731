"""``padiff pack``: a dump as one compressed file."""

from __future__ import annotations

from pathlib import Path

import click

from padiff.comparer.report.escape import printable

from .output import emit

__all__ = ["pack"]


@click.command()
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

    target = dump.resolve().with_name(dump.resolve().name + PACKED_SUFFIX)
    target = target if output is None else output
    before = sum(file.stat().st_size for file in dump.rglob("*") if file.is_file())
    size = pack_dump(dump, target, overwrite=overwrite)
    emit(f"packed: {printable(str(target))}, {size:,} bytes ({before:,} before)\n")
    return 0
