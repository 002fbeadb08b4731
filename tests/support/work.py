"""Work that is counted, so that a test of how it grows does not depend on the machine."""

from __future__ import annotations

import cProfile
import tracemalloc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["calls_made", "most_held"]


def calls_made(function: Callable[[], object]) -> int:
    """Count the calls, of Python's functions and of C's, that a function makes."""
    profile = cProfile.Profile()
    profile.runcall(function)
    return sum(entry.callcount for entry in profile.getstats())


def most_held(function: Callable[[], object]) -> int:
    """Return the most bytes that a function holds at once, numpy's arrays included."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
