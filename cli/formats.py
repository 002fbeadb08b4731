"""The options that say which reports to write, and their writing."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from padiff.dumpfile import ConfigError

from .joblog import defused, from_here
from .output import check_place, emit, emit_as_it_is, emit_whole_json, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.comparer.report.json_report import ReportParts
    from padiff.comparer.result import Comparison

__all__ = ["Format", "Wanted", "file_options"]

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
        """Tell whether a page is wanted, for which more is looked up."""
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
                write_text(path, _RENDERERS[name](comparison))
        if self.format is Format.JSON:
            emit_whole_json(_parts(comparison))
        elif self.format is Format.MARKDOWN:
            emit(_markdown(comparison))
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


def _html(comparison: Comparison) -> str:
    from padiff.comparer.report.html import to_html  # noqa: PLC0415 -- needs jinja2

    return to_html(comparison)


def _overview(comparison: Comparison) -> str:
    from padiff.comparer.report.overview_page import to_overview  # noqa: PLC0415 -- needs jinja2

    return to_overview(comparison)


def _junit(comparison: Comparison) -> str:
    from padiff.comparer.report.junit import to_junit  # noqa: PLC0415 -- only if asked for

    return to_junit(comparison)


def _sarif(comparison: Comparison) -> str:
    from padiff.comparer.report.sarif import to_sarif  # noqa: PLC0415 -- only if asked for

    return json.dumps(to_sarif(comparison), allow_nan=False, ensure_ascii=True, indent=1) + "\n"


def _markdown(comparison: Comparison) -> str:
    from padiff.comparer.report.markdown import to_markdown  # noqa: PLC0415 -- only if asked for

    return to_markdown(comparison)


def _csv(comparison: Comparison) -> str:
    from padiff.comparer.report.csv_report import to_csv  # noqa: PLC0415 -- only if asked for

    return to_csv(comparison)


_RENDERERS: Mapping[str, Callable[[Comparison], str]] = {
    "html": _html,
    "overview": _overview,
    "junit": _junit,
    "sarif": _sarif,
    "markdown": _markdown,
    "csv": _csv,
}
