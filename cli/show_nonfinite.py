"""Find where nan and inf come from within one dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.report.numbers import count
from padiff.dumpfile import Role

from .show_text import shape_text

if TYPE_CHECKING:
    from rich.text import Text

    from padiff.comparer.report.style import Canvas
    from padiff.dumpfile import Index, RecordInfo

    from .show_text import Choice

__all__ = ["draw_nonfinite"]

_ENTERS = {Role.OUTPUT: Role.INPUT, Role.GRAD_INPUT: Role.GRAD_OUTPUT}
"""What goes into what comes out of a call."""


def draw_nonfinite(canvas: Canvas, index: Index, choice: Choice) -> None:
    """List every record with nan or inf in execution order, the source of each flow marked."""
    found = [
        record
        for record in sorted(index.records, key=lambda record: record.order)
        if _is_nonfinite(index, record) and choice.wants(index.modules[record.module])
    ]
    canvas.heading(f"STEP {index.step} RANK {index.rank}", "records with nan or inf")
    if not found:
        canvas.line("  none: all recorded values are finite")
        return
    tainted = {(record.call, record.role) for record in found}
    canvas.table(
        ["record", "shape", "nan", "+inf", "-inf", ""],
        [_row(canvas, index, record, tainted) for record in found],
        wrapping=("record",),
    )


def _is_nonfinite(index: Index, record: RecordInfo) -> bool:
    """Tell whether a record holds a nan or an inf."""
    return record.value is not None and index.values[record.value].statistics.nonfinite > 0


def _row(
    canvas: Canvas, index: Index, record: RecordInfo, tainted: set[tuple[int | None, Role]]
) -> list[str | Text]:
    """Give one record, and whether it was made from finite values."""
    statistics = index.values[record.value or 0].statistics
    enters = _ENTERS.get(record.role)
    is_source = enters is not None and (record.call, enters) not in tainted
    address = str(index.address(record)).partition(" ")[2].partition(" ")[2]
    return [
        canvas.safe(address),
        shape_text(record.shape),
        count(statistics.nan),
        count(statistics.posinf),
        count(statistics.neginf),
        "<--- from finite inputs" if is_source else "",
    ]
