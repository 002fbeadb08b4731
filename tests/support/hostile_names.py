"""Names that mean something to what shows them, and a comparison in which all is called so."""

from __future__ import annotations

import json
from dataclasses import replace

from padiff.comparer.report.json_report import read_report, to_json
from padiff.comparer.result import Comparison, Kind, Verdict
from padiff.dumpfile import SourceLine
from tests.support.comparisons import comparison, divergence, endpoint, metrics, pair, tree

__all__ = ["NASTY", "named", "read"]

NASTY = (
    "<script>alert(1)</script>",
    "a\x1b[31mred\x1b[0m",
    "]]><x/>&amp;",
    "a\n::error::owned\r\n::set-output name=x::y",
    "=cmd|' /C calc'!A0",
    "+1",
    "@SUM(A1)",
    "x" * 10_000,
    "lone\ud800surrogate\ufffe\x00",
    "\u202egnp.exe",
    "](javascript:alert(1)) | `code` @everyone https://example.org",
    "fixes #12, thanks to @org/team",
    "a;=1+1",
    "\uff1dcmd",
    "[see](https://example.org)",
)


def named(name: str) -> Comparison:
    """Give a diverged comparison in which everything is called ``name``."""
    place = SourceLine(file=name, line=3)
    ends = [
        replace(endpoint(name, name, slot=name), call_site=place, module_source=place)
        for _ in range(2)
    ]
    bad = pair(ends[0], ends[1], Verdict.DIVERGED, kind=Kind.ORIGIN, measured=metrics())
    alone = pair(endpoint(name, slot=".other"), None, Verdict.MISSING, reason=name)
    rows = tuple(
        replace(row, reference=name, candidate=name, reference_class=name, origin=True)
        for row in tree([""], {"": Verdict.DIVERGED})
    )
    return comparison([bad, alone], rows, [divergence(bad, name)], reasons=(name,), notes=(name,))


def read(result: Comparison) -> Comparison:
    """Take a result through JSON text."""
    return read_report(json.loads(json.dumps(to_json(result), allow_nan=False)))
