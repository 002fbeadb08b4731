"""How results look in Python: a report as text, a glance in a shell, HTML in a notebook."""

from __future__ import annotations

import html
import io
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from padiff.cli.output import NO_WIDTH
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import Console

    from padiff.comparer.report.style import Canvas

_GLANCE = 20
"""Most lines of a repr."""
_GREY, _RED, _GREEN, _YELLOW = (127, 127, 127), (207, 60, 73), (46, 150, 79), (170, 130, 0)
_COLOURS = (_GREY, _RED, _GREEN, _YELLOW, _GREY, _GREY, _GREY, _GREY)
"""Of the standard palette; readable on white and on black."""
_FONT = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"
_STYLE = (  # a page that a notebook became may name no font, and break words at any letter
    f"margin:0;overflow-x:auto;line-height:1.3;font-size:13px;{_FONT};"
    "word-break:normal;overflow-wrap:break-word;white-space:"
)
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
{report}
</html>
"""


class Presented:
    """A result that draws itself."""

    __slots__ = ()

    @abstractmethod
    def _draw(self, canvas: Canvas) -> None:
        """Draw the whole report."""

    @abstractmethod
    def _glance(self, canvas: Canvas) -> None:
        """Draw what matters most, in some 20 lines."""

    def report(self, *, max_rows: int = 40, verbose: bool = False, width: int | None = None) -> str:
        """Return the report that the command of the same name prints, as plain text.

        Args:
            max_rows: Rows of each table, 0 for all.
            verbose: Fold nothing, list everything.
            width: Columns at which lines wrap; by default they do not.
        """
        console = _console(width)
        self._draw(_canvas(console, max_rows=max_rows, verbose=verbose))
        return text_of(console)

    def to_html(self, path: Path | str) -> Path:
        """Write the report as a page of its own, in colour.

        Raises:
            ConfigError: The place cannot be written.
        """
        from padiff.cli.output import write_text  # noqa: PLC0415 - as asked for

        whole = _console(None)
        self._draw(_canvas(whole))
        title = html.escape(f"padiff: {self._lines()[0].strip()}")
        page = _PAGE.format(title=title, report=_html_of(whole, white_space="pre"))
        write_text(Path(path), page)
        return Path(path)

    def __repr__(self) -> str:
        """Return a glance of at most 20 lines."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        console = _console(None)
        self._glance(_canvas(console))
        lines = text_of(console).splitlines()
        return lines if len(lines) <= _GLANCE else [*lines[: _GLANCE - 1], "  ..."]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the glance, and the report to unfold."""
        glance, whole = _console(None), _console(None)
        self._glance(_canvas(glance))
        self._draw(_canvas(whole))
        report = _html_of(whole, white_space="pre")
        shown = _html_of(glance, white_space="pre-wrap")
        return f"{shown}<details><summary>report</summary>{report}</details>"


def _console(width: int | None) -> Console:
    from rich.console import Console  # noqa: PLC0415 - only where something is drawn

    return Console(
        file=io.StringIO(),
        record=True,
        width=NO_WIDTH if width is None else width,
        color_system=None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        force_jupyter=False,  # there, rich would display what it draws
    )


def _canvas(console: Console, *, max_rows: int = 40, verbose: bool = False) -> Canvas:
    from padiff.comparer.report.style import Canvas  # noqa: PLC0415 - only where it is drawn

    return Canvas(console=console, max_rows=max_rows, verbose=verbose)


def text_of(console: Console) -> str:
    """Return what was drawn, without blanks at the ends of lines."""
    drawn: Any = console.file
    return "".join(line.rstrip() + "\n" for line in drawn.getvalue().splitlines())


def _html_of(console: Console, *, white_space: str) -> str:
    """Return what was drawn with its colours; rich escapes it.

    Args:
        console: Where it was drawn.
        white_space: Of CSS: whether long lines wrap.
    """
    from rich.terminal_theme import TerminalTheme  # noqa: PLC0415 - only in notebooks

    theme = TerminalTheme((255, 255, 255), (0, 0, 0), list(_COLOURS))
    code = console.export_html(theme=theme, code_format="{code}", inline_styles=True)
    lines = (line.rstrip() for line in code.splitlines())
    return f'<pre style="{_STYLE}{white_space}">{chr(10).join(lines)}</pre>'


def data_frame(rows: Iterable[Mapping[str, object]], columns: Iterable[str]) -> Any:  # noqa: ANN401
    """Return a pandas table.

    Raises:
        ConfigError: pandas is not installed.
    """
    try:
        import pandas  # noqa: ICN001, PLC0415 - an optional dependency
    except ImportError as error:
        raise ConfigError(
            "a table needs pandas, which is not installed",
            hint="pip install 'padiff-align[pandas]'",
        ) from error
    return pandas.DataFrame([dict(row) for row in rows], columns=list(columns))
