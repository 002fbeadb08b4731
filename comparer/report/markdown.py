"""The report as Markdown that fits a pull-request comment or GitHub's step summary."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from padiff.comparer.result import Kind, Verdict

from .equal_ranks import fold_origins, fold_pairs, fold_reasons
from .escape import printable
from .fault_words import evidence_of
from .numbers import count, number, plural, share
from .wording import (
    BAD,
    describe_dump,
    evidence,
    has_steps,
    measured,
    owners,
    source_of,
    step_of,
    verdict_line,
    what,
    when,
    word_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.comparer.result import Comparison, Divergence, JudgedPair

    from .equal_ranks import Repeated


LIMIT = 60_000
"""Bytes that the text stays below: a comment may have 65 536 characters, a summary 1 MiB."""
_CELL = 200
"""Characters of a name in a table."""
_ORIGINS = 10
_OPEN = 20
"""Diverged records up to which their table is open from the start."""
_LINKING = re.compile(f"(&#(?:{ord('@')}|{ord('#')});)")
"""What begins a mention, or the number of an issue."""
_SPAN = re.compile(r"(?!\s|.*://)[\w .,:;()\[\]'\"=%/+*~^!?{}#-]+(?<!\s)")
"""Names that stand between backticks as they are."""
_HARMLESS = re.compile(
    r"""
    [^\W_]                                # letters and digits
    | [ ,()'"%=;]
    | (?<! www) (?<! WWW) \.
    | : (?= \s | \d | $ )                 # else a scheme, or a picture's name
    | (?<! [:/] ) / (?! / )
    | (?<= [^\W_] ) [-+]
    | (?<= [^\W_] ) _ (?= [^\W_] )
    | (?<= \S\ ) [-+*] (?= \  )           # at the start of a line it would be a list
    | (?<= [^\W_] ) \[ \d+ \] (?! [(:\[] )
    """,
    re.VERBOSE,
)
"""Characters that are no markup where they stand."""


def to_markdown(comparison: Comparison) -> str:
    """Return the text; what does not fit is counted, not listed."""
    several = has_steps(comparison)
    parts = [
        *_head(comparison),
        *_origins(fold_origins(comparison), several=several),
        *_counts(comparison),
    ]
    text = "\n".join(parts) + "\n"
    bad = [pair for pair in comparison.pairs if pair.verdict in BAD and pair.fatal]
    if bad:
        text += _table(bad, LIMIT - len(text.encode()) - 2000, several=several)
    notes = dict.fromkeys(comparison.all_notes)
    if notes:
        text += _notes(notes, LIMIT - len(text.encode()) - 100)
    return text


def _head(comparison: Comparison) -> list[str]:
    verdict = comparison.verdict
    is_bad = verdict is Verdict.DIVERGED
    head, _, rest = verdict_line(verdict, comparison.scope).partition(": ")
    sides = (describe_dump(one) for one in (comparison.reference, comparison.candidate))
    reference, candidate = map(_code, sides)
    return [
        f"## padiff: {_plain(head if is_bad else verdict)}",
        "",
        *([] if is_bad else [f"**{_plain(head)}**: {_plain(rest)}", ""]),
        f"reference {reference}, candidate {candidate}",
        "",
        *(f"- {_plain(reason)}" for reason in fold_reasons(comparison.reasons)[:_ORIGINS]),
        "",
    ]


def _origins(found: Sequence[Repeated[Divergence]], *, several: bool) -> list[str]:
    lines: list[str] = []
    for place, told in enumerate(found[:_ORIGINS], start=1):
        one = told.first
        end = one.pair.candidate or one.pair.end
        lines += [
            (
                f"### {'Origin' if one.kind is Kind.ORIGIN else 'Divergence'} {place}: "
                f"{_code(owners(one.pair))} ({when(one, told.ranks, has_steps=several)})"
            ),
            "",
            (
                f"- {_code(end.address.class_name)} {_code(what(end))}: "
                f"{_plain(measured(one.pair) or one.pair.verdict)}"
            ),
            *(f"- {_plain(line)}" for line in evidence_of(one)[:_ORIGINS]),
        ]
        if one.suspects:
            names = ", ".join(_code(path or "(root)") for path in one.suspects[:_ORIGINS])
            lines.append(f"- one of: {names}")
        source = source_of(one)
        if source is not None:
            lines.append(f"- source: {_code(str(source))}")
        lines.append("")
    if len(found) > _ORIGINS:
        lines += [f"{len(found) - _ORIGINS} more origins.", ""]
    return lines


def _counts(comparison: Comparison) -> list[str]:
    counts = ((word_of(name), number_) for name, number_ in comparison.counts.items())
    words = [f"{count(number_)} {name}" for name, number_ in counts if number_]
    found, coverage = evidence(comparison), comparison.coverage
    covered = share(coverage.judged, coverage.total)
    return [
        "### Compared",
        "",
        f"- records: {', '.join(words) or 'none'}",
        *([f"- rests on: {_plain(found)}"] if found else []),
        f"- coverage: {count(coverage.judged)} of {count(coverage.total)} values ({covered})",
        "",
    ]


def _table(bad: Sequence[JudgedPair], room: int, *, several: bool) -> str:
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
    left = len(bad)
    for told in fold_pairs(bad):
        row = _row(told, several=several)
        used += len(row.encode())
        if used > room:
            break
        rows.append(row)
        left -= len(told.ranks)
    text += "".join(rows) + (f"\n{plural(left, 'more record')} diverged.\n" if left else "") + "\n"
    return text + ("</details>\n\n" if is_long else "")


def _row(told: Repeated[JudgedPair], *, several: bool) -> str:
    pair = told.first
    metrics = pair.metrics
    cells = [
        *([step_of(pair, told.ranks).removeprefix("step ")] if several else []),
        _code(owners(pair)),
        _code(what(pair.end)),
        str(pair.verdict),
        pair.kind or "",
        number(None if metrics is None else metrics.max_abs),
        number(None if metrics is None else metrics.relative_l2),
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
    shown = _short(text)
    return f"`{shown}`" if _SPAN.fullmatch(shown) else f"<code>{_references(shown)}</code>"


def _plain(text: str) -> str:
    """Write text in which nothing is markup, a mention or a link.

    GitHub looks for ``@name`` and ``#1`` in what a reader sees, so that character references alone
    are not enough: a comment stands in between.
    """
    return _LINKING.sub(r"\1<!-- -->", _references(_short(text)))


def _short(text: str) -> str:
    shown = printable(text, ascii_only=False)
    return shown if len(shown) <= _CELL else f"{shown[:_CELL]}... ({len(shown)} characters)"


def _references(text: str) -> str:
    """Write as references what could be markup where it stands; a bar gets a backslash."""
    parts: list[str] = []
    end = 0
    for found in _HARMLESS.finditer(text):
        parts += [_reference(char) for char in text[end : found.start()]]
        parts.append(found.group())
        end = found.end()
    return "".join([*parts, *(_reference(char) for char in text[end:])])


def _reference(char: str) -> str:
    return "\\|" if char == "|" else f"&#{ord(char)};"
