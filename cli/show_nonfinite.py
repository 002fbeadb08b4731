"""Show where nan and inf come from within one dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.locating.nonfinite import find_nonfinite
from padiff.comparer.report.numbers import count

from .show_text import shape_text

if TYPE_CHECKING:
    from rich.text import Text

    from padiff.comparer.locating.nonfinite import Nonfinite
    from padiff.comparer.report.style import Canvas
    from padiff.dumpfile import JSON, Index

    from .show_text import Choice

__all__ = ["draw_nonfinite", "nonfinite_to_json"]


def draw_nonfinite(canvas: Canvas, index: Index, choice: Choice) -> None:
    """List every record with nan or inf in execution order, the source of each flow marked."""
    found = _chosen(index, choice)
    canvas.heading(f"STEP {index.step} RANK {index.rank}", "records with nan or inf")
    if not found:
        canvas.line("  none: all recorded values are finite")
        return
    first = next((one for one in found if one.is_source), None)
    if first is not None:
        address = _address(index, first)
        canvas.line(f"  first made at {canvas.safe(address)}: {canvas.safe(first.remark)}")
    canvas.table(
        ["record", "shape", "nan", "+inf", "-inf", ""],
        [_row(canvas, index, one) for one in found],
        wrapping=("record", ""),
    )


def nonfinite_to_json(index: Index, choice: Choice) -> JSON:
    """Give the same for programs."""
    return [
        {
            "record": one.record,
            "address": str(index.address(index.records[one.record])),
            "is_source": one.is_source,
            "remark": one.remark,
        }
        for one in _chosen(index, choice)
    ]


def _chosen(index: Index, choice: Choice) -> list[Nonfinite]:
    wanted = choice.wanted(index)
    return [one for one in find_nonfinite(index) if index.records[one.record].module in wanted]


def _address(index: Index, one: Nonfinite) -> str:
    """Name a record without step and rank, which the heading has."""
    record = index.records[one.record]
    call = "" if record.call is None else f"#{index.calls[record.call].index}"
    return f"{index.modules[record.module].path or '(root)'}{call} {record.role}{record.slot}"


def _row(canvas: Canvas, index: Index, one: Nonfinite) -> list[str | Text]:
    record = index.records[one.record]
    statistics = index.values[record.value or 0].statistics
    mark = f"<--- {one.remark}" if one.is_source else one.remark
    return [
        canvas.safe(_address(index, one)),
        shape_text(record.shape),
        count(statistics.nan),
        count(statistics.posinf),
        count(statistics.neginf),
        canvas.safe(mark),
    ]
