"""Sentences about one record that several formats share."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from .numbers import count, number

if TYPE_CHECKING:
    from .reading import Finding, Line, Report, SourcePlace

__all__ = ["evidence", "has_steps", "headline", "measured", "source_of", "step_of", "when"]


def measured(line: Line) -> str:
    """Say what was measured and allowed, or why nothing was; not escaped."""
    if not line.metrics:
        return line.reason
    parts = [f"max abs {number(line.metrics.get('max_abs'))}"]
    if line.tolerance:
        atol, rtol = line.tolerance.get("atol"), line.tolerance.get("rtol")
        parts.append(f"allowed {number(atol)} + {number(rtol)} * |ref|")
    mismatched, size = line.metrics.get("mismatched"), line.metrics.get("size")
    of = "" if line.sampled_of is None else f", a sample of {count(line.sampled_of)},"
    parts.append(f"{_counted(mismatched)} of {_counted(size)} elements{of} mismatched")
    return ", ".join(parts)


def when(finding: Finding, *, has_steps: bool) -> str:
    """Say in which phase, and in which step and rank where there are several."""
    if not has_steps:
        return finding.phase
    return f"{finding.phase}, {step_of(finding.line)}"


def step_of(line: Line) -> str:
    """Name step and rank, the rank where it is not the first.

    Args:
        line: One judged record.
    """
    rank = f" rank {line.place.rank}" if line.place.rank else ""
    return f"step {line.place.step}{rank}"


def has_steps(report: Report) -> bool:
    """Tell whether records of several steps or ranks were judged."""
    return len({(line.place.step, line.place.rank) for line in report.lines}) > 1


def _counted(value: float | None) -> str:
    """Group the digits of a count by thousands."""
    return "-" if value is None or not math.isfinite(value) else count(int(value))


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
        "execution": "both programs, executed",
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
