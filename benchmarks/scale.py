"""How large a run of the benchmarks is."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

Size = TypeVar("Size")


class Scale(StrEnum):
    """The sizes that a part measures at."""

    FULL = "full"
    """What the budgets are stated for."""
    QUICK = "quick"
    """Smaller sizes, fewer rounds."""
    TINY = "tiny"
    """So little that only counts mean anything: tests run it, that no part breaks unseen."""

    def pick(self, *, full: Size, quick: Size, tiny: Size) -> Size:
        """Give what belongs to this scale."""
        return {Scale.FULL: full, Scale.QUICK: quick, Scale.TINY: tiny}[self]
