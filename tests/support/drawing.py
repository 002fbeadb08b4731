"""Draw a report into a string."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

from padiff.comparer.report.terminal import render

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison


class _Encoded(io.StringIO):
    """Text in memory that says which encoding it is meant for."""

    encoding = ""


def draw(
    comparison: Comparison,
    *,
    width: int = 100,
    encoding: str = "ascii",
    max_rows: int = 40,
    verbose: bool = False,
    explain_pairing: bool = False,
) -> str:
    """Give the report as plain text, trailing blanks removed."""
    file = _Encoded()
    file.encoding = encoding
    console = Console(
        file=file, width=width, color_system=None, markup=False, highlight=False, emoji=False
    )
    render(comparison, console, max_rows=max_rows, verbose=verbose, explain_pairing=explain_pairing)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())
