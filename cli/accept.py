"""``padiff accept``: replace an archived baseline, and say why."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from padiff.comparer.report.escape import printable

from .command import both_sides, command
from .output import emit

if TYPE_CHECKING:
    from pathlib import Path


@command(
    examples="""
    padiff accept baseline/resnet padiff_dump/resnet --reason "eps was wrong (#12)"
    """
)
@both_sides
@click.option("--reason", required=True, metavar="TEXT", help="Why the baseline changes.")
def accept(reference: Path, candidate: Path, *, reason: str) -> int:
    """Put a copy of CANDIDATE in the place of the archived dump REFERENCE.

    REFERENCE.accepted.jsonl, beside it, gets a line with the time, the user, the reason, the
    command and what changed. The candidate is read completely first, and a damaged one is refused.
    Either may be packed; a baseline whose name ends in .padiff.zip stays so.
    """
    from padiff.comparer.baseline import accept as accept_baseline  # noqa: PLC0415 -- when needed

    command = ["padiff", *sys.argv[1:]]
    found = accept_baseline(reference, candidate, reason=reason, command=command)
    lines = [f"accepted: {printable(str(reference))} (before: {found.verdict})"]
    lines += [f"  {printable(change)}" for change in found.changes]
    lines.append(f"logged in {printable(str(found.log))}")
    emit("\n".join(lines) + "\n")
    return 0
