"""Sentences about one record that several formats share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .numbers import number

if TYPE_CHECKING:
    from .reading import Finding, Line, Report, SourcePlace

__all__ = ["evidence", "headline", "measured", "source_of"]


def measured(line: Line) -> str:
    """Say what was measured and allowed, or why nothing was; not escaped."""
    if not line.metrics:
        return line.reason
    parts = [f"max abs {number(line.metrics.get('max_abs'))}"]
    if line.tolerance:
        atol, rtol = line.tolerance.get("atol"), line.tolerance.get("rtol")
        parts.append(f"allowed {number(atol)} + {number(rtol)} * |ref|")
    mismatched, size = line.metrics.get("mismatched"), line.metrics.get("size")
    of = "" if line.sampled_of is None else f", a sample of {number(line.sampled_of)},"
    parts.append(f"{number(mismatched)} of {number(size)} elements{of} mismatched")
    return ", ".join(parts)


def evidence(report: Report) -> str:
    """Say what the verdicts rest on; empty where all elements were compared or bit-equal."""
    judged = [line for line in report.lines if line.verdict in ("match", "diverged")]
    counts = Counter(line.rests_on for line in judged)
    if not counts["sample"] and not counts["statistics"]:
        return ""
    words = {
        "digest": "digests",
        "elements": "all elements",
        "sample": "a sample of the elements with statistics of all",
        "statistics": "statistics only, which prove no match",
    }
    return ", ".join(f"{counts[kind]} on {text}" for kind, text in words.items() if counts[kind])


def headline(finding: Finding) -> str:
    """Name an origin and what tells most; not escaped."""
    line = finding.line
    text = f"{line.owners} {line.place.what} ({finding.phase}): {measured(line) or line.verdict}"
    return text + "".join(f"; {evidence}" for evidence in finding.evidence[:3])


def source_of(finding: Finding) -> SourcePlace | None:
    """Give where to look in the candidate's source: the call's line, else the class."""
    return finding.sources["candidate call"] or finding.sources["candidate module"]
