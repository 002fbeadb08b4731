"""The report as CSV: a row for each record."""

from __future__ import annotations

import csv
import io
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from .escape import printable

if TYPE_CHECKING:
    from .reading import Line, Place, Report

__all__ = ["to_csv"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "|", "%", *"\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet may take for the start of a formula; the last ones are the wide forms."""
_INNER_CELL = re.compile("(;[ \"']*)(?=[-=+@|%\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet begins a cell if its language has the semicolon between cells."""
_PLACE = ("module", "class_name", "call", "role", "slot", "dtype", "shape")
_METRICS = (
    "max_abs",
    "max_rel",
    "mean_abs",
    "relative_l2",
    "cosine",
    "mismatched",
    "size",
    "needed_atol",
    "needed_rtol",
)


def to_csv(report: Report) -> str:
    """Give the table, RFC 4180, with a header row.

    No cell can start a formula: text that looks like one is preceded by an apostrophe.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(
        [
            *("step", "rank", "phase", "order", "verdict", "kind", "rests_on", "paired_by"),
            *(f"reference_{name}" for name in _PLACE),
            *(f"candidate_{name}" for name in _PLACE),
            *("layout", *_METRICS, "atol", "rtol", "reason"),
        ]
    )
    for line in report.lines:
        writer.writerow(_row(line))
    return out.getvalue()


def _row(line: Line) -> list[str]:
    place = line.place
    verdict = "covered" if line.covered else line.verdict
    texts = (place.phase, str(place.order), verdict, line.kind, line.rests_on, line.paired_by)
    return [
        str(place.step),
        str(place.rank),
        *map(_safe, texts),
        *_side(line.reference),
        *_side(line.candidate),
        _safe(line.layout),
        *(_number(line.metrics.get(name)) for name in _METRICS),
        *(_number(line.tolerance.get(name)) for name in ("atol", "rtol")),
        _safe(line.reason),
    ]


def _side(place: Place | None) -> list[str]:
    if place is None:
        return [""] * len(_PLACE)
    return [
        _safe(place.module or "(root)"),
        _safe(place.class_name),
        "" if place.call is None else str(place.call),
        _safe(place.role),
        _safe(place.slot),
        _safe(place.dtype),
        "x".join(map(str, place.shape)),
    ]


@lru_cache(maxsize=1 << 12)  # names and words come again and again
def _safe(text: str | None) -> str:
    shown = _INNER_CELL.sub(r"\1'", printable(text or "", ascii_only=False))
    return f"'{shown}" if shown.lstrip(" ").startswith(_FORMULA) else shown


def _number(value: float | None) -> str:
    """Give all digits; numbers are no formulas, also negative ones."""
    return "" if value is None else repr(value)
