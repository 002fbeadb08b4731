"""``padiff check``: is a dump whole and valid?"""

from __future__ import annotations

import re
from pathlib import Path

import click

from padiff.comparer.report.escape import printable
from padiff.dumpfile import ConfigError, DumpNotFoundError

from .command import command
from .output import emit

MOST_LINES = 1000
_HIDDEN = re.compile(r"\.(.+)\.(partial|old)-[0-9a-f]{8}")


@command(
    examples="""
    padiff check padiff_dump/torch --deep
    padiff check padiff_dump/torch --recover
    """
)
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Read every element and recompute all digests.")
@click.option(
    "--recover",
    is_flag=True,
    help="First make a dump of what a recording of that name left that was killed: the dump "
    "itself if it was whole, else DUMP.incomplete with its whole steps.",
)
def check(dump: Path, deep: bool, recover: bool) -> int:
    """Verify that DUMP is complete and follows the format.

    Lists every problem found. Exit code 0 if there is none, 2 otherwise.
    """
    from padiff.dumpfile import validate  # noqa: PLC0415 -- after the options
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415
    from padiff.dumpfile.urls import url_of  # noqa: PLC0415

    if recover and url_of(dump) is not None:
        raise ConfigError(
            f"cannot recover {url_of(dump)!r}: expected a directory",
            hint="a push that was broken off is repeated by `padiff push`",
        )
    if recover:
        dump = _recovered(dump)
    shown = printable(url_of(dump) or str(dump))  # a path has one slash where a URL has two
    with unpacked(dump) as place:
        problems = validate(place, deep=deep)
    if not problems:
        how = "all elements read" if deep else "structure only, --deep reads all elements"
        emit(f"ok: {shown} is a valid dump ({how})\n")
        return 0
    lines = [
        f"{printable(problem.loc)}: {printable(problem.kind)}: {printable(problem.message)}"
        for problem in problems[:MOST_LINES]
    ]
    if len(problems) > MOST_LINES:
        lines.append(f"... and {len(problems) - MOST_LINES} more")
    count = f"{len(problems)} problem" + ("s" if len(problems) > 1 else "")
    emit("\n".join([*lines, f"{count} in {shown}"]) + "\n")
    return 2


def _recovered(dump: Path) -> Path:
    """Save what a dead writer left, and give the path of what there is then."""
    from padiff.dumpfile.place import Place  # noqa: PLC0415 -- few need it

    hidden = _HIDDEN.fullmatch(dump.name)
    named = dump if hidden is None else dump.with_name(hidden[1])
    kept = Place(named, overwrite=False).recover()
    if kept is None and not named.exists():
        raise DumpNotFoundError(
            f"cannot recover {str(named)!r}: expected what a recording left that was killed, "
            "found no whole step"
        )
    return named if kept is None else kept
