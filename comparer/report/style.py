"""How verdicts look. Colour only repeats what the words say already."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from padiff.comparer.result import Verdict

from .escape import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

DIM = "dim"
HERE = "bold red"

_HEAD = re.compile(r" *(?:\S+(?: \S+)* {2,})?")
"""The indentation of a line, and its label."""

_STYLES = {
    Verdict.MATCH: "green",
    Verdict.DIVERGED: "bold red",
    Verdict.INCOMPARABLE: "bold red",
    Verdict.MISSING: "yellow",
    Verdict.SKIPPED: DIM,
}
_WORDS = {
    Verdict.MATCH: "match",
    Verdict.DIVERGED: "DIVERGED",
    Verdict.INCOMPARABLE: "INCOMPARABLE",
    Verdict.MISSING: "MISSING",
    Verdict.SKIPPED: "skipped",
}


def verdict_style(verdict: Verdict, *, inherited: bool = False) -> str:
    """Return the colour of a verdict."""
    return DIM if inherited else _STYLES[verdict]


def verdict_word(verdict: Verdict, *, inherited: bool = False) -> str:
    """Return the word of a verdict; capitals only for what is nobody else's consequence."""
    word = _WORDS[verdict]
    return word.lower() if inherited else word


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """The console that a report is drawn on, and the user's choices about it."""

    console: Console
    max_rows: int = 40
    """Rows of each table, 0 for all."""
    verbose: bool = False

    @property
    def plain(self) -> bool:
        """Whether only ASCII can be shown."""
        return not self.console.encoding.startswith("utf")

    @property
    def width(self) -> int:
        """Columns."""
        return self.console.width

    def safe(self, text: str) -> str:
        """Escape text that came out of a dump."""
        return printable(text, ascii_only=self.plain)

    def broken(self, name: str, *, margin: int = 4) -> str:
        """Break a name of two sides between them where it is too long for a line."""
        return name if len(name) + margin <= self.width else name.replace(" = ", "\n= ", 1)

    def line(self, text: str | Text = "", style: str = "") -> None:
        """Print one line, wrapped between words where it is too long."""
        self.console.print(Text(text, style=style) if isinstance(text, str) else text)

    def lines(self, lines: Sequence[str]) -> None:
        """Print lines, indented, at most ``max_rows``, and say how many were left."""
        limit = self.max_rows or len(lines)
        for line in lines[:limit]:
            self.line(f"  {line}")
        self.left(len(lines) - limit)

    def left(self, count: int) -> None:
        """Report how many rows were left, if any were."""
        if count > 0:
            self.line(f"  ... {count} more (--max-rows 0: all)", style=DIM)

    def heading(self, text: str, remark: str = "") -> None:
        """Begin a section."""
        self.line()
        line = Text(text, style="bold")
        if remark:
            line.append(f"  {remark}", style=DIM)
        self.line(line)

    def facts(self, rows: Sequence[tuple[str, str | Text]]) -> None:
        """Print labelled values, indented, the label only where it changes."""
        table = Table.grid(padding=(0, 2), pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for label, value in rows:
            table.add_row(
                "", Text(label, style=DIM), Text(value) if isinstance(value, str) else value
            )
        self.console.print(table)

    def hanging(self, line: str) -> None:
        """Print a line whose rest, where it is broken, stands below what follows its label.

        A label ends with two spaces; a line without one is indented as it begins.
        """
        head = _HEAD.match(line)
        label = head.group() if head else ""
        table = Table.grid(padding=0, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row(Text(label), Text(line[len(label) :]))
        self.console.print(table)

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[str | Text]],
        *,
        wrapping: tuple[str, ...] = (),
    ) -> None:
        """Print a table without lines, at most ``max_rows`` rows, and say how many were left.

        Args:
            header: Titles of the columns.
            rows: A cell for each column.
            wrapping: The columns that may wrap in a narrow terminal; numbers should not.
        """
        limit = self.max_rows or len(rows)
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=DIM)
        table.add_column("")
        for title in header:
            table.add_column(Text(title), overflow="fold", no_wrap=title not in wrapping)
        for row in rows[:limit]:
            table.add_row("", *(Text(cell) if isinstance(cell, str) else cell for cell in row))
        self.console.print(table)
        self.left(len(rows) - limit)


_DEEPEST = 12
"""Levels that are drawn as branches; below, the depth is given as a number."""


def branches(trunk: tuple[bool, ...], *, plain: bool) -> str:
    """Return what stands before a name in a tree.

    Args:
        trunk: For each ancestor below the root, and for the node itself, whether siblings follow
            below it; empty for the root.
        plain: Whether to use ASCII only.

    >>> branches((True, False), plain=True)
    '|  `- '
    """
    if not trunk:
        return ""
    through, none, middle, last = ("|  ", "   ", "|- ", "`- ")
    if not plain:
        through, none, middle, last = ("│  ", "   ", "├─ ", "└─ ")
    *above, follows = trunk
    end = middle if follows else last
    if len(above) > _DEEPEST:
        return f"[depth {len(trunk)}] {end}"
    return "".join(through if more else none for more in above) + end
