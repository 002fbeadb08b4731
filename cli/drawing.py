"""Options that decide how the report for a terminal is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from .optiongroup import option_group
from .output import render_to_text

if TYPE_CHECKING:
    from rich.console import Console

    from padiff.comparer.result import Comparison

__all__ = ["Drawing", "drawing_options"]

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
        from padiff.comparer.report.brief import closing_line  # noqa: PLC0415 -- after the options
        from padiff.comparer.report.style import Canvas  # noqa: PLC0415
        from padiff.comparer.report.terminal import render  # noqa: PLC0415

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
