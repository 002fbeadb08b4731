"""``padiff export``: a recorded program for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.dumpfile import ConfigError

from .command import command, which_rank, which_step
from .output import check_place, emit, write_bytes

if TYPE_CHECKING:
    from padiff.program.exporting import Exported


_MOST_NAMED = 8


@command(
    examples="""
    padiff export padiff_dump/torch -o program.onnx
    """
)
@click.argument("dump", type=click.Path(path_type=Path))
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Write the model here: FILE.onnx.",
)
@which_step
@which_rank
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float64"]),
    default="float32",
    show_default=True,
    help="Dtype of all floating-point values.",
)
@click.option(
    "--weights/--no-weights",
    default=True,
    help="Put elements of weights and other leaves into the file, or make inputs of them.",
)
def export(dump: Path, *, output: Path, step: int, rank: int, dtype: str, weights: bool) -> int:
    """Write the program of DUMP as an ONNX model.

    To look at it (Netron) or to run it elsewhere. Each operator is written in padiff's primitives,
    these by the standard operators of ONNX; what ONNX has no operator for is a node of the domain
    `padiff` (a primitive) or `padiff.opaque` (an operator of the framework without a rule). Needs
    onnx (`pip install 'padiff-align[onnx]'`).
    """
    from padiff.dumpfile import open_dump  # noqa: PLC0415 -- after the options
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415
    from padiff.program import read_program  # noqa: PLC0415
    from padiff.program.exporting import export_onnx  # noqa: PLC0415

    from .show_program import no_program  # noqa: PLC0415

    check_place(output)
    with unpacked(dump) as place:
        opened = open_dump(place)
        with opened.open(step, rank) as file:
            recorded = read_program(file)
            if recorded is None:
                why = no_program(opened.manifest)
                raise ConfigError(
                    f"cannot export {str(dump)!r}: {why}",
                    hint="record again without `--program none`",
                )
            found = export_onnx(recorded, dtype=dtype, with_weights=weights)
    write_bytes(output, found.data)
    emit(_said(found, output))
    return 0


def _said(found: Exported, output: Path) -> str:
    """Return what was written, and what in it no other tool can run."""
    from padiff.comparer.report.escape import printable  # noqa: PLC0415 -- after the options
    from padiff.comparer.report.numbers import plural  # noqa: PLC0415

    counts = f"{plural(found.nodes, 'node')}, {plural(len(found.inputs), 'input')}"
    lines = [f"{printable(str(output))}: {counts}, {plural(len(found.outputs), 'output')}"]
    foreign = sorted(found.foreign.items(), key=lambda item: (-item[1], item[0]))
    if foreign:
        named = ", ".join(f"{printable(name)} {count}" for name, count in foreign[:_MOST_NAMED])
        more = f", {len(foreign) - _MOST_NAMED} more" if len(foreign) > _MOST_NAMED else ""
        lines.append(f"nodes that only padiff knows: {named}{more}")
    return "\n".join(lines) + "\n"
