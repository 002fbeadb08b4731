"""``padiff show``: what does a dump hold?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.dumpfile import ConfigError

from .command import command
from .output import emit_json

if TYPE_CHECKING:
    from padiff.dumpfile import Dump, FileInfo


@command(
    examples="""
    padiff show padiff_dump/torch
    padiff show padiff_dump/torch --program --include 'encoder.0.*'
    padiff show padiff_dump/torch --dot | dot -Tsvg > program.svg
    """
)
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--step", type=click.IntRange(min=0), help="Only this step.")
@click.option("--rank", type=click.IntRange(min=0), help="Only this rank.")
@click.option("--records", is_flag=True, help="List every record with its statistics.")
@click.option("--attrs", is_flag=True, help="List the attributes and source of every module.")
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Only these modules and what is inside: a glob of module paths or type:CLASS, with @self "
    "or @sublayers; may repeat.",
)
@click.option("--nonfinite", is_flag=True, help="Say where nan and inf come from.")
@click.option(
    "--flow",
    is_flag=True,
    help="Say which call fed which input, and where code between modules changed a value.",
)
@click.option("--program", is_flag=True, help="List the operators of each module call.")
@click.option(
    "--holes", is_flag=True, help="List floating-point values that came from nowhere, and why."
)
@click.option("--dot", is_flag=True, help="Print the program as a graph for Graphviz.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a tree.")
@click.option(
    "--max-rows", type=click.IntRange(min=0), default=0, help="Rows or operators per step; 0: all."
)
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
    program: bool,
    holes: bool,
    dot: bool,
    as_json: bool,
    max_rows: int,
) -> int:
    """Print the module tree of DUMP: calls, shapes, dtypes and statistics of what came out."""
    from padiff.dumpfile import open_dump  # noqa: PLC0415 -- after the options
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415

    from .show_steps import Sections, print_dot, print_text, to_json  # noqa: PLC0415
    from .show_text import Choice  # noqa: PLC0415

    sections = Sections(nonfinite=nonfinite, flow=flow, program=program, holes=holes)
    if dot and (as_json or nonfinite or flow or holes):
        raise ConfigError("--dot prints the graph alone: no --json, --nonfinite, --flow or --holes")
    opened = open_dump(click.get_current_context().with_resource(unpacked(dump)))
    files = _chosen(opened, step=step, rank=rank)
    choice = Choice(include=include, records=records, attributes=attrs)
    if dot:
        print_dot(opened, files, choice)
    elif as_json:
        emit_json(to_json(opened, files, choice, sections))
    else:
        print_text(opened, files, choice, sections, max_rows=max_rows)
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
