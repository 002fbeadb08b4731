"""The report as CSV: a row for each record."""

from __future__ import annotations

import csv
import io
import re
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from .escape import printable
from .wording import verdict_of

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison, Endpoint, JudgedPair


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
_metrics = attrgetter(*_METRICS)


def to_csv(comparison: Comparison) -> str:
    """Return the table, RFC 4180, with a header row.

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
    writer.writerows(map(_row, comparison.pairs))
    return out.getvalue()


def _row(pair: JudgedPair) -> list[str]:
    end, limits = pair.end, pair.tolerance
    at = end.address
    texts = (at.phase, str(end.order), verdict_of(pair), pair.kind, pair.rests_on, pair.paired_by)
    return [
        str(at.step),
        str(at.rank),
        *map(_safe, texts),
        *_side(pair.reference),
        *_side(pair.candidate),
        _safe(pair.layout),
        *([""] * len(_METRICS) if pair.metrics is None else map(_number, _metrics(pair.metrics))),
        *(["", ""] if limits is None else map(_number, (limits.atol, limits.rtol))),
        _safe(pair.reason),
    ]


def _side(end: Endpoint | None) -> list[str]:
    if end is None:
        return [""] * len(_PLACE)
    at = end.address
    return [
        _safe(at.module or "(root)"),
        _safe(at.class_name),
        "" if at.call is None else str(at.call),
        _safe(at.role),
        _safe(at.slot),
        _safe(end.dtype),
        "x".join(map(str, end.shape)),
    ]


@lru_cache(maxsize=1 << 12)  # names and words come again and again
def _safe(text: str | None) -> str:
    shown = _INNER_CELL.sub(r"\1'", printable(text or "", ascii_only=False))
    return f"'{shown}" if shown.lstrip(" ").startswith(_FORMULA) else shown


def _number(value: float | None) -> str:
    """Return all digits; numbers are no formulas, also negative ones."""
    return "" if value is None else repr(value)
