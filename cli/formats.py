"""Which reports to write and how to draw them: the options, the writing, and the exit code."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from padiff.dumpfile import ConfigError

from .command import option_group
from .joblog import defused, from_here
from .output import (
    check_place,
    emit,
    emit_as_it_is,
    emit_whole_json,
    render_to_text,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import Console

    from padiff.comparer.report.json_report import ReportParts
    from padiff.comparer.result import Comparison

_Command = TypeVar("_Command", bound="Callable[..., int]")
_FILES = {
    "html": "a page to explore the result in a browser.",
    "overview": "a page that maps all steps by module.",
    "junit": "JUnit XML: a case for each module call.",
    "sarif": "SARIF 2.1.0: the origins at their source lines.",
    "markdown": "Markdown for a comment or GitHub's step summary.",
    "csv": "a table with a row for each record.",
}


class Format(StrEnum):
    """What stdout gets."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which reports to write."""

    files: Mapping[str, Path] = field(default_factory=dict)
    """Where to, by the name of the option."""
    github: bool = False
    format: Format = Format.TEXT

    @classmethod
    def from_options(
        cls, options: Mapping[str, Path | None], *, github: bool, stdout: Format
    ) -> Wanted:
        """Take what the command line said, and refuse what cannot be written.

        Raises:
            ConfigError: A place cannot be a file, two reports share one, or
                annotations would be mixed with a document.
        """
        found = {name: path for name, path in options.items() if path is not None}
        if str(found.get("json")) == "-":
            del found["json"]
            stdout = Format.JSON
        _check_places(found)
        if github and stdout is not Format.TEXT:
            raise ConfigError(f"--github prints commands to stdout, which is to hold {stdout}")
        return cls(files=found, github=github, format=stdout)

    @property
    def folder(self) -> Path | None:
        """Return the folder of the first report, or that for temporary files, for what waits."""
        plain = (path.absolute() for path in self.files.values())
        beside = [path.parent for path in plain if path.is_file() or not path.exists()]
        places = (*beside, Path(tempfile.gettempdir()))
        return next((one for one in places if one.is_dir() and os.access(one, os.W_OK)), None)

    @property
    def has_page(self) -> bool:
        """Return whether a page is wanted, for which more is looked up."""
        return "html" in self.files

    def write(
        self, comparison: Comparison, text: Callable[[], str] | None, *, quiet: bool = False
    ) -> None:
        """Write all files, then stdout.

        Args:
            comparison: What was found.
            text: Draws the report for a terminal; None where there is none.
            quiet: Whether stdout gets only what was asked for by name.
        """
        for name, path in self.files.items():
            if name == "json":
                write_json(path, _parts(comparison))
            else:
                write_text(path, _rendered(name, comparison))
        if self.format is Format.JSON:
            emit_whole_json(_parts(comparison))
        elif self.format is Format.MARKDOWN:
            emit(_rendered("markdown", comparison))
        elif text is not None and not quiet:
            emit_as_it_is(self._guarded(defused(from_here(text()))))
        if self.github:
            from padiff.comparer.report.github import to_github  # noqa: PLC0415 -- as asked for

            emit_as_it_is(to_github(comparison))

    def _guarded(self, text: str) -> str:
        """Keep GitHub from taking a name in the report for a command."""
        if not self.github:
            return text
        token = secrets.token_hex(16)
        return f"::stop-commands::{token}\n{text}::{token}::\n"


def file_options(command: _Command) -> _Command:
    """Add an option for each kind of report file."""
    for name, text in reversed(_FILES.items()):
        command = click.option(
            f"--{name}",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help=f"Write {text}",
        )(command)
    return click.option(
        "--github", is_flag=True, help="Print annotations for GitHub Actions after the report."
    )(command)


def _check_places(files: Mapping[str, Path]) -> None:
    """Refuse places before the long work, not after it."""
    for name, path in files.items():
        check_place(path, option=f"--{name}")
    if len({path.absolute() for path in files.values()}) < len(files):
        raise ConfigError("two reports would be written to the same file")


def _parts(comparison: Comparison) -> ReportParts:
    from padiff.comparer.report.json_report import report_parts  # noqa: PLC0415 -- as asked for

    return report_parts(comparison)


_RENDERERS = {
    "html": "html.to_html",
    "overview": "overview_page.to_overview",
    "junit": "junit.to_junit",
    "sarif": "sarif.to_sarif",
    "markdown": "markdown.to_markdown",
    "csv": "csv_report.to_csv",
}
"""Module and function of each format, loaded where it is asked for; some need jinja2."""


def _rendered(name: str, comparison: Comparison) -> str:
    module, _, function = _RENDERERS[name].partition(".")
    found = getattr(import_module(f"padiff.comparer.report.{module}"), function)(comparison)
    if isinstance(found, str):
        return found
    return json.dumps(found, allow_nan=False, ensure_ascii=True, indent=1) + "\n"


_CODES = {"match": 0, "diverged": 1}
INCONCLUSIVE = 2


def exit_code_of(verdict: str) -> int:
    """Return the exit code for the verdict on the whole of a comparison.

    >>> exit_code_of("match"), exit_code_of("diverged"), exit_code_of("inconclusive")
    (0, 1, 2)
    """
    return _CODES.get(verdict, INCONCLUSIVE)


_OPTIONS = (
    click.option(
        "--max-rows",
        type=click.IntRange(min=0),
        default=40,
        show_default=True,
        help="Rows of each table of the report; 0: all.",
    ),
    click.option("--verbose", "-v", is_flag=True, help="Fold nothing, list all that diverged."),
    click.option("--explain-pairing", is_flag=True, help="Say how every partner was found."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How to draw a comparison."""

    max_rows: int
    verbose: bool
    explain_pairing: bool

    def text(self, comparison: Comparison, *, further: str = "") -> str:
        """Draw a comparison for what stdout is; the last line says what the first lines say.

        Args:
            comparison: What was found.
            further: What to look at next, drawn before the last line.
        """
        from padiff.comparer.report.style import Canvas  # noqa: PLC0415 -- after the options
        from padiff.comparer.report.terminal import closing_line, render  # noqa: PLC0415

        def draw(console: Console) -> None:
            render(
                comparison,
                console,
                max_rows=self.max_rows,
                verbose=self.verbose,
                explain_pairing=self.explain_pairing,
            )

        def close(console: Console) -> None:
            canvas = Canvas(console=console)
            canvas.line(closing_line(canvas, comparison))

        return f"{render_to_text(draw)}{further}\n{render_to_text(close)}"


drawing_options = option_group("drawing", Drawing, {"How the report is drawn": _OPTIONS})
"""Adds the options to a command, which gets a ``Drawing``."""
