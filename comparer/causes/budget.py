"""The work that all searches for causes of one comparison share, counted, not timed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["MOST_AT_ONCE", "MOST_WORK", "USED_UP", "Budget", "Way"]

USED_UP = "not all causes were looked for: it would take more work than one comparison may"
"""What is said where somebody went without."""

MOST_WORK = 3 << 28
"""Elements that are gone through in one comparison: an exponential of each, or four sums."""
MOST_AT_ONCE = MOST_WORK // 2
"""Of these for one divergence, so that the first one leaves something for the others."""

Way = TypeVar("Way")


class Budget:
    """What is left of it; a search asks before it works, and goes without where it is refused.

    Work is counted in elements of tensors that are gone through once: the same dumps always give
    the same report. Those who ask first get it first, which are the earliest origins.
    """

    def __init__(self, most: int = MOST_WORK, most_at_once: int = MOST_AT_ONCE) -> None:
        """Take how much there is.

        Args:
            most: Elements for all divergences.
            most_at_once: Elements for one divergence.
        """
        self._left = most
        self._most_at_once = most_at_once
        self._here = most_at_once
        self.spent = 0
        """Elements that were granted."""
        self.refusals = 0
        """How often somebody went without."""

    @contextmanager
    def one_divergence(self) -> Iterator[None]:
        """Grant no more than one divergence may take, until the end of the block."""
        self._here = self._most_at_once
        yield
        self._here = self._most_at_once

    def grants(self, elements: int) -> bool:
        """Tell whether so many elements may be gone through, and take them off if so."""
        if elements > min(self._left, self._here):
            self.refusals += 1
            return False
        self._left -= elements
        self._here -= elements
        self.spent += elements
        return True

    def tries(self, ways: Iterable[Way], elements: int) -> Iterator[Way]:
        """Yield ways to explain something as long as there is work left for one more.

        Args:
            ways: What is tried.
            elements: That each of them goes through.
        """
        for way in ways:
            if not self.grants(elements):
                return
            yield way
