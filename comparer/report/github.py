"""The report as workflow commands, which GitHub shows beside the lines of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .escape import printable
from .headline import match_words
from .wording import headline, source_of

if TYPE_CHECKING:
    from .reading import Finding, Report

__all__ = ["to_github"]

_MOST = 10
"""Annotations of one kind that GitHub shows for a step."""
_LIMIT = 2000


def to_github(report: Report) -> str:
    """Give one command on each line; a notice where all agrees."""
    if report.verdict == "match":
        counted = f"{report.judged} of {report.total} values judged"
        text = f"padiff: {match_words(report.scope)}, {counted}"
        return f"::notice title=padiff::{_data(text)}\n"
    found = list(report.origins)
    if not found and report.first is not None:
        found = [report.first]
    lines = [_annotation(finding) for finding in found[:_MOST]]
    if not lines:
        lines = [f"::error title=padiff::{_data(reason)}" for reason in report.reasons[:_MOST]]
    return "\n".join(lines or [f"::error title=padiff::{_data(report.verdict)}"]) + "\n"


def _annotation(finding: Finding) -> str:
    source = source_of(finding)
    properties = ["title=" + _property(f"padiff: {finding.line.owners} diverged")]
    if source is not None:
        properties = [f"file={_property(source.file)}", f"line={source.line}", *properties]
    return f"::error {','.join(properties)}::{_data(headline(finding))}"


def _data(text: str) -> str:
    """Escape a message as the runner unescapes it."""
    shown = printable(text, ascii_only=False)[:_LIMIT]
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property, which also ends at a comma or colon."""
    return _data(text[:_LIMIT]).replace(":", "%3A").replace(",", "%2C")
