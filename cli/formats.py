"""The options that say which reports to write, and their writing: all from one JSON result."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from padiff.dumpfile import ConfigError

from .joblog import defused
from .output import emit, emit_as_it_is, emit_json, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.comparer.report.json_report import ReportParts
    from padiff.comparer.report.reading import Report

__all__ = ["Format", "Wanted", "file_options"]

_Command = TypeVar("_Command", bound="Callable[..., int]")
_FILES = {
    "html": "one self-contained page to explore the result in a browser.",
    "junit": "JUnit XML: a case for each module call.",
    "sarif": "SARIF 2.1.0: the origins at their source lines.",
    "markdown": "Markdown for a comment or GitHub's step summary.",
    "csv": "a table with a row for each record.",
}
_OF_RECORDS = frozenset({"junit", "markdown", "csv"})
"""Documents that look at each record; the page and JSON do, too, each for itself."""
_OF_ORIGINS = frozenset({"sarif", "github"})
"""Documents that do not."""


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
            ConfigError: A place is no file in an existing folder, two reports share one, or
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
    def has_page(self) -> bool:
        """Tell whether a page is wanted, for which more is looked up."""
        return "html" in self.files

    def write(
        self,
        make: Callable[[], ReportParts],
        text: Callable[[], str] | None,
        *,
        quiet: bool = False,
    ) -> None:
        """Write all files, then stdout.

        Args:
            make: Makes JSON of the result, which all but the text is written from, anew for each
                reader; long lists may be iterators, and are left alone where nobody needs them.
            text: Draws the report for a terminal; None where there is none.
            quiet: Whether stdout gets only what was asked for by name.
        """
        report = self._read(make)
        for name, path in self.files.items():
            if name == "json":
                write_json(path, make())
            else:
                write_text(path, _page(make()) if name == "html" else _render(name, report))
        if self.format is Format.JSON:
            emit_json(make())
        elif self.format is Format.MARKDOWN:
            emit(_render("markdown", report))
        elif text is not None and not quiet:
            emit_as_it_is(self._guarded(defused(text())))
        if self.github and report is not None:
            from padiff.comparer.report.github import to_github  # noqa: PLC0415 -- as asked for

            emit_as_it_is(to_github(report))

    def _read(self, make: Callable[[], ReportParts]) -> Report | None:
        """Give the report that is read from JSON, if a document other than the page needs it."""
        documents = {*self.files, str(self.format), *(["github"] if self.github else [])}
        if not documents & (_OF_RECORDS | _OF_ORIGINS):
            return None
        from padiff.comparer.report.reading import read_report  # noqa: PLC0415 -- few need it

        parts = make()
        if not documents & _OF_RECORDS:
            parts = {
                name: [] if isinstance(part, Iterator) else part for name, part in parts.items()
            }
        return read_report(parts)

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
        if path.is_dir() or not path.parent.is_dir():
            raise ConfigError(
                f"cannot write --{name} to {str(path)!r}: expected a file name in an existing "
                "folder"
            )
    if len({path.absolute() for path in files.values()}) < len(files):
        raise ConfigError("two reports would be written to the same file")


def _page(parts: ReportParts) -> str:
    from padiff.comparer.report.html import to_html  # noqa: PLC0415 -- needs jinja2

    return to_html(parts)


def _render(name: str, report: Report | None) -> str:
    """Make one document; only its own module is loaded."""
    if report is None:
        raise TypeError("no report was read")
    return _RENDERERS[name](report)


def _junit(report: Report) -> str:
    from padiff.comparer.report.junit import to_junit  # noqa: PLC0415 -- only if asked for

    return to_junit(report)


def _sarif(report: Report) -> str:
    from padiff.comparer.report.sarif import to_sarif  # noqa: PLC0415 -- only if asked for

    return json.dumps(to_sarif(report), allow_nan=False, ensure_ascii=True, indent=1) + "\n"


def _markdown(report: Report) -> str:
    from padiff.comparer.report.markdown import to_markdown  # noqa: PLC0415 -- only if asked for

    return to_markdown(report)


def _csv(report: Report) -> str:
    from padiff.comparer.report.csv_report import to_csv  # noqa: PLC0415 -- only if asked for

    return to_csv(report)


_RENDERERS: Mapping[str, Callable[[Report], str]] = {
    "junit": _junit,
    "sarif": _sarif,
    "markdown": _markdown,
    "csv": _csv,
}
