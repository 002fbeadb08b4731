"""Options that decide how the report for a terminal is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from .optiongroup import option_group
from .output import render_to_text

if TYPE_CHECKING:
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

    def text(self, comparison: Comparison) -> str:
        """Draw a comparison for what stdout is."""
        from padiff.comparer.report.terminal import render  # noqa: PLC0415 -- after the options

        return render_to_text(
            lambda console: render(
                comparison,
                console,
                max_rows=self.max_rows,
                verbose=self.verbose,
                explain_pairing=self.explain_pairing,
            )
        )


drawing_options = option_group("drawing", Drawing, _OPTIONS)
"""Adds the options to a command, which gets a ``Drawing``."""
