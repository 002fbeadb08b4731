"""Work that is counted, so that a test of how it grows does not depend on the machine."""

from __future__ import annotations

import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["calls_made", "most_held"]


def calls_made(function: Callable[[], object]) -> int:
    """Count the calls, of Python's functions and of C's, that a function makes."""
    count = 0

    def counted(_frame: Any, event: str, _argument: Any) -> None:  # noqa: ANN401 - Python's own
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def most_held(function: Callable[[], object]) -> int:
    """Return the most bytes that a function holds at once, numpy's arrays included."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
