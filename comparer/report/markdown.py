"""The report as Markdown that fits a pull-request comment or GitHub's step summary."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .escape import printable
from .headline import verdict_line
from .numbers import count, number, plural, share
from .wording import evidence, has_steps, measured, source_of, step_of, when

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .reading import Finding, Line, Report

__all__ = ["LIMIT", "to_markdown"]

LIMIT = 60_000
"""Bytes that the text stays below: a comment may have 65 536 characters, a summary 1 MiB."""
_CELL = 200
"""Characters of a name in a table."""
_ORIGINS = 10
_OPEN = 20
"""Diverged records up to which their table is open from the start."""
_BAD = ("diverged", "incomparable", "missing")
_LINKING = re.compile(f"(&#(?:{ord('@')}|{ord('#')});)")
"""What begins a mention, or the number of an issue."""


def to_markdown(report: Report) -> str:
    """Give the text; what does not fit is counted, not listed."""
    several = has_steps(report)
    parts = [
        *_head(report),
        *_origins(report.origins or (() if not report.first else (report.first,)), several=several),
    ]
    parts += _counts(report)
    text = "\n".join(parts) + "\n"
    bad = [line for line in report.lines if line.verdict in _BAD and line.fatal]
    if bad:
        text += _table(bad, LIMIT - len(text.encode()) - 2000, several=several)
    if report.notes:
        text += _notes(report.notes, LIMIT - len(text.encode()) - 100)
    return text


def _head(report: Report) -> list[str]:
    is_bad = report.verdict == "diverged"
    head, _, rest = verdict_line(report.verdict, report.scope).partition(": ")
    return [
        f"## padiff: {_plain(head if is_bad else report.verdict)}",
        "",
        *([] if is_bad else [f"**{_plain(head)}**: {_plain(rest)}", ""]),
        f"reference {_code(report.reference)}, candidate {_code(report.candidate)}",
        "",
        *(f"- {_plain(reason)}" for reason in report.reasons[:_ORIGINS]),
        "",
    ]


def _origins(found: Sequence[Finding], *, several: bool) -> list[str]:
    lines: list[str] = []
    for place, finding in enumerate(found[:_ORIGINS], start=1):
        end = finding.line.candidate or finding.line.place
        lines += [
            (
                f"### {'Origin' if finding.line.kind == 'origin' else 'Divergence'} {place}: "
                f"{_code(finding.line.owners)} ({when(finding, has_steps=several)})"
            ),
            "",
            (
                f"- {_code(end.class_name)} {_code(end.what)}: "
                f"{_plain(measured(finding.line) or finding.line.verdict)}"
            ),
            *(f"- {_plain(evidence)}" for evidence in finding.evidence[:_ORIGINS]),
        ]
        if finding.suspects:
            names = ", ".join(_code(path or "(root)") for path in finding.suspects[:_ORIGINS])
            lines.append(f"- one of: {names}")
        source = source_of(finding)
        if source is not None:
            lines.append(f"- candidate source: {_code(f'{source.file}:{source.line}')}")
        lines.append("")
    if len(found) > _ORIGINS:
        lines += [f"{len(found) - _ORIGINS} more origins.", ""]
    return lines


def _counts(report: Report) -> list[str]:
    words = [f"{count(number_)} {name}" for name, number_ in report.counts.items() if number_]
    covered = share(report.judged, report.total)
    return [
        "### Compared",
        "",
        f"- records: {', '.join(words) or 'none'}",
        *([f"- rests on: {_plain(found)}"] if (found := evidence(report)) else []),
        f"- coverage: {count(report.judged)} of {count(report.total)} values ({covered})",
        "",
    ]


def _table(bad: Sequence[Line], room: int, *, several: bool) -> str:
    """List records while there is room; a long list opens at a click."""
    header = ["module", "record", "verdict", "kind", "max abs", "relative L2"]
    text = "### Diverged records\n\n"
    is_long = len(bad) > _OPEN
    if is_long:
        text += f"<details><summary>{plural(len(bad), 'record')}</summary>\n\n"
    text += f"| {' | '.join([*(['step'] if several else []), *header])} |\n"
    text += "|---" * (len(header) - 2 + several) + "|---:|---:|\n"
    used = len(text.encode())
    rows: list[str] = []
    for line in bad:
        row = _row(line, several=several)
        used += len(row.encode())
        if used > room:
            break
        rows.append(row)
    left = len(bad) - len(rows)
    text += "".join(rows) + (f"\n{plural(left, 'more record')} diverged.\n" if left else "") + "\n"
    return text + ("</details>\n\n" if is_long else "")


def _row(line: Line, *, several: bool) -> str:
    cells = [
        *([step_of(line).removeprefix("step ")] if several else []),
        _code(line.owners),
        _code(line.place.what),
        line.verdict,
        line.kind or "",
        number(line.metrics.get("max_abs")),
        number(line.metrics.get("relative_l2")),
    ]
    return f"| {' | '.join(cells)} |\n"


def _notes(notes: Iterable[str], room: int) -> str:
    text = "### Notes\n\n"
    for note in notes:
        line = f"- {_plain(note)}\n"
        if len((text + line).encode()) > room:
            return text + "- (more notes left out)\n"
        text += line
    return text


def _code(text: str) -> str:
    """Set a name in code, in which nothing is markup, a mention or a link."""
    return f"<code>{_references(text)}</code>"


def _plain(text: str) -> str:
    """Write text in which nothing is markup, a mention or a link.

    GitHub looks for ``@name`` and ``#1`` in what a reader sees, so that character references alone
    are not enough: a comment stands in between.
    """
    return _LINKING.sub(r"\1<!-- -->", _references(text))


def _references(text: str) -> str:
    """Write all but letters, digits, blanks and points as character references."""
    shown = printable(text, ascii_only=False)
    if len(shown) > _CELL:
        shown = f"{shown[:_CELL]}... ({len(shown)} characters)"
    return "".join(
        char
        if char.isalnum() or char in " ,()" or _is_inner_point(shown, place)
        else f"&#{ord(char)};"
        for place, char in enumerate(shown)
    )


def _is_inner_point(text: str, place: int) -> bool:
    """Tell whether a point or minus stands before a digit, where it can be no markup."""
    return text[place] in ".-" and text[place + 1 : place + 2].isdigit() and place > 0
