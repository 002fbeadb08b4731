"""The report as workflow commands, which GitHub shows beside the lines of a change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.result import Verdict

from .equal_ranks import fold_origins, fold_reasons
from .escape import printable
from .wording import headline, line_of, match_words, owners

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison
    from padiff.dumpfile import SourceLine


_MOST = 10
"""Annotations of one kind that GitHub shows for a step."""
_LIMIT = 2000


def to_github(comparison: Comparison) -> str:
    """Return one command on each line; a notice where all agrees."""
    if comparison.verdict is Verdict.MATCH:
        coverage = comparison.coverage
        counted = f"{coverage.judged} of {coverage.total} values judged"
        text = f"padiff: {match_words(comparison.scope)}, {counted}"
        return f"::notice title=padiff::{_data(text)}\n"
    lines = [
        _error(
            line_of(comparison, told.first),
            f"padiff: {owners(told.first.pair)} diverged",
            headline(told.first, told.ranks, has_steps=len(comparison.steps) > 1),
        )
        for told in fold_origins(comparison)[:_MOST]
    ]
    if not lines:
        said = fold_reasons(comparison.reasons)[:_MOST] or [comparison.verdict]
        lines = [_error(line_of(comparison), "padiff", reason) for reason in said]
    return "\n".join(lines) + "\n"


def _error(source: SourceLine, title: str, text: str) -> str:
    at = f"file={_property(source.file)},line={max(1, source.line)}"
    return f"::error {at},title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    """Escape a message as the runner unescapes it."""
    shown = printable(text, ascii_only=False)[:_LIMIT]
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a property, which also ends at a comma or colon."""
    return _data(text[:_LIMIT]).replace(":", "%3A").replace(",", "%2C")
