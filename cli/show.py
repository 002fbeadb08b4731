"""``padiff show``: what does a dump hold?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.dumpfile import ConfigError

from .output import emit, emit_json, render_to_text

if TYPE_CHECKING:
    from rich.console import Console

    from padiff.dumpfile import Dump, FileInfo, Index

__all__ = ["show"]


@click.command()
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--step", type=click.IntRange(min=0), help="Only this step.")
@click.option("--rank", type=click.IntRange(min=0), help="Only this rank.")
@click.option("--records", is_flag=True, help="List every record with its statistics.")
@click.option("--attrs", is_flag=True, help="List the attributes and source of every module.")
@click.option(
    "--include",
    multiple=True,
    metavar="GLOB",
    help="Only modules whose path matches, or type:CLASS; may repeat.",
)
@click.option("--nonfinite", is_flag=True, help="Say where nan and inf come from.")
@click.option(
    "--flow",
    is_flag=True,
    help="Say which call fed which input, and where code between modules changed a value.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a tree.")
@click.option("--max-rows", type=click.IntRange(min=0), default=0, help="Rows per step; 0: all.")
def show(  # noqa: PLR0913 -- one parameter per option
    dump: Path,
    *,
    step: int | None,
    rank: int | None,
    records: bool,
    attrs: bool,
    include: tuple[str, ...],
    nonfinite: bool,
    flow: bool,
    as_json: bool,
    max_rows: int,
) -> int:
    """Print the module tree of DUMP: calls, shapes, dtypes and statistics of what came out."""
    from padiff.comparer.report.style import Canvas  # noqa: PLC0415 -- after the options
    from padiff.dumpfile import open_dump  # noqa: PLC0415
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415

    from .show_steps import draw, to_json  # noqa: PLC0415
    from .show_text import Choice  # noqa: PLC0415

    opened = open_dump(click.get_current_context().with_resource(unpacked(dump)))
    files = _chosen(opened, step=step, rank=rank)
    choice = Choice(include=include, records=records, attributes=attrs)
    indexes = (_index(opened, file) for file in files)
    if as_json:
        emit_json(to_json(opened.manifest, indexes, choice, nonfinite=nonfinite, flow=flow))
        return 0

    def draw_all(console: Console) -> None:
        canvas = Canvas(console=console, max_rows=max_rows)
        draw(canvas, opened.manifest, indexes, choice, nonfinite=nonfinite, flow=flow)

    emit(render_to_text(draw_all))
    return 0


def _chosen(dump: Dump, *, step: int | None, rank: int | None) -> list[FileInfo]:
    """Find the files of the wanted step and rank."""
    files = [
        file
        for file in dump.manifest.files
        if step in (None, file.step) and rank in (None, file.rank)
    ]
    if not files and dump.manifest.files:
        held = ", ".join(f"step {file.step} rank {file.rank}" for file in dump.manifest.files[:5])
        raise ConfigError(
            f"cannot show {str(dump.path)!r}: expected step {step} rank {rank}, found {held}"
        )
    return files


def _index(dump: Dump, file: FileInfo) -> Index:
    """Read one file's index."""
    with dump.open(file.step, file.rank) as opened:
        return opened.index
