"""``padiff check``: is a dump whole and valid?"""

from __future__ import annotations

from pathlib import Path

import click

from padiff.comparer.report.escape import printable
from padiff.dumpfile import validate
from padiff.dumpfile.packed import unpacked

from .output import emit

__all__ = ["check"]


@click.command()
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Read every element and recompute all digests.")
def check(dump: Path, deep: bool) -> int:
    """Verify that DUMP is complete and follows the format.

    Lists every problem found. Exit code 0 if there is none, 2 otherwise.
    """
    with unpacked(dump) as place:
        problems = validate(place, deep=deep)
    if not problems:
        how = "all elements read" if deep else "structure only, --deep reads all elements"
        emit(f"ok: {printable(str(dump))} is a valid dump ({how})\n")
        return 0
    lines = [
        f"{printable(problem.loc)}: {printable(problem.kind)}: {printable(problem.message)}"
        for problem in problems
    ]
    count = f"{len(problems)} problem" + ("s" if len(problems) > 1 else "")
    emit("\n".join([*lines, f"{count} in {printable(str(dump))}"]) + "\n")
    return 2
