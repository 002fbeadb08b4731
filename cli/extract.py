"""``padiff extract``: one layer of both dumps, to run it alone."""

from __future__ import annotations

from pathlib import Path

import click

from padiff.comparer.report.escape import printable

from .command import both_sides, command, map_option, which_rank, which_step
from .output import emit


@command(
    examples="""
    padiff extract padiff_dump/torch padiff_dump/paddle --module encoder.norm -o norm
    python norm/candidate.py --against reference
    """
)
@both_sides
@click.option(
    "--module", required=True, metavar="PATH", help="Module path on the reference; '' is the root."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Write here; the folder is made.",
)
@click.option(
    "--call", type=click.IntRange(min=0), default=0, show_default=True, help="Which call."
)
@which_step
@which_rank
@map_option
def extract(  # noqa: PLR0913 -- one parameter per option
    reference: Path,
    candidate: Path,
    *,
    module: str,
    output: Path,
    call: int,
    step: int,
    rank: int,
    map_path: Path | None,
) -> int:
    """Take one module out of REFERENCE and CANDIDATE, to reproduce just that layer.

    For each side FOLDER gets the recorded inputs, weights, outputs and gradients (.npz), their
    description (.json), and a script (.py) that runs the layer on them and compares; weights are
    those before the step. `candidate.py --against reference` feeds it the reference's inputs and
    expects the reference's outputs. A layer of the framework is made by class and attributes; for
    a class of your own the script has a stub.
    """
    from padiff.comparer.extracting.extract import extract as extract_module  # noqa: PLC0415 -- when needed
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415
    from padiff.pairing import read_map  # noqa: PLC0415

    with unpacked(reference) as known, unpacked(candidate) as other:
        found = extract_module(
            known,
            other,
            "" if module == "(root)" else module,
            output,
            call=call,
            place=(step, rank),
            map_file=None if map_path is None else read_map(map_path),
        )
    lines = []
    for side in found:
        lines.append(
            f"{side.side}: {printable(side.module) or '(root)'} {printable(side.class_path)}, "
            f"{side.arrays} arrays; run: python {printable(str(output / side.side))}.py"
        )
        lines += [f"  not in the dump: {printable(name)}" for name in side.left_out]
    if len(found) == 1:
        lines.append("candidate: nothing is paired with it")
    else:
        script = printable(str(output / "candidate"))
        lines.append(f"to repair it: python {script}.py --against reference")
    emit("\n".join(lines) + "\n")
    return 0
