"""``padiff audit``: did each operator of one dump compute what its program says?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .command import command
from .output import emit, emit_json, render_to_text

if TYPE_CHECKING:
    from rich.console import Console


@command(
    examples="""
    padiff audit padiff_dump/torch
    padiff audit padiff_dump/torch --step 0 --json > audit.json
    """
)
@click.argument("dump", type=click.Path(path_type=Path))
@click.option("--step", type=click.IntRange(min=0), help="Only this step.")
@click.option("--rank", type=click.IntRange(min=0), help="Only this rank.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.option(
    "--max-rows",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    help="Rows per table; 0: all.",
)
def audit(dump: Path, *, step: int | None, rank: int | None, as_json: bool, max_rows: int) -> int:
    """Check DUMP alone, without a reference.

    Executes the recorded program in float64 from recorded elements: is each value what its
    operators make of theirs, within the rounding of its dtype, and each gradient the one that the
    gradients behind it imply? Exit code 0 if all that was audited is sound, 1 if not, 2 if nothing
    could be audited.
    """
    from padiff.comparer.auditing import audit_dump  # noqa: PLC0415 -- after the options
    from padiff.comparer.auditing.result import Soundness  # noqa: PLC0415
    from padiff.comparer.report.audit_text import draw_audit  # noqa: PLC0415
    from padiff.comparer.report.style import Canvas  # noqa: PLC0415
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415

    with unpacked(dump) as place:
        audits = audit_dump(place, step=step, rank=rank)
    if as_json:
        from padiff.comparer.report.json_report import audit_to_json  # noqa: PLC0415

        emit_json({name: audit_to_json(one) for name, one in audits.items()})
    else:

        def draw(console: Console) -> None:
            draw_audit(Canvas(console=console, max_rows=max_rows), audits)

        emit(render_to_text(draw))
    answers = {one.soundness for one in audits.values()}
    if Soundness.UNSOUND in answers:
        return 1
    return 0 if Soundness.SOUND in answers else 2
