"""One measured figure, and how figures are printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with its unit, and the budget that it should keep."""

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    """Budget: the largest value that is fine."""
    at_least: float | None = None
    """Budget: the smallest value that is fine."""
    detail: str = ""
    """What it was measured on, the numbers behind a ratio."""

    @property
    def budget(self) -> str:
        """Say the budget and whether it is kept; empty without one."""
        if self.at_most is not None:
            return f"<= {self.at_most:g} {_word(self.value <= self.at_most)}"
        if self.at_least is not None:
            return f">= {self.at_least:g} {_word(self.value >= self.at_least)}"
        return ""


def print_figures(title: str, figures: Iterable[Figure]) -> None:
    """Print a title and one line for each figure, as soon as they are known."""
    print(f"\n{title}")
    for figure in figures:
        number = f"{figure.value:.4g} {figure.unit}".strip()
        line = f"  {figure.name:<44} {number:>14}  {figure.budget:<14} {figure.detail}"
        print(line.rstrip(), flush=True)


def _word(is_kept: bool) -> str:
    return "kept" if is_kept else "MISSED"
