"""Runs the garbage collector less often while a step is recorded."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from padiff.dumper.watch import SharedPatches

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["collector_slowed"]

_FACTOR = 10
"""How much rarer: a recorded operator makes some 30 objects that the collector walks, a plain one
hardly any, so that it comes no less often than in a step of the same operators that is plain."""


class _Slowed:
    """The thresholds of the process, raised until it is removed."""

    def __init__(self) -> None:
        self._before = gc.get_threshold()
        self._raised = (self._before[0] * _FACTOR, *self._before[1:])
        gc.set_threshold(*self._raised)

    def remove(self) -> None:
        """Put the thresholds back, unless the program has set others meanwhile."""
        if gc.get_threshold() == self._raised:
            gc.set_threshold(*self._before)


def _slowed() -> Iterator[_Slowed]:
    yield _Slowed()


collector_slowed = SharedPatches(_slowed).installed
"""Let what is recorded live without being walked again and again: nothing of it is a cycle, and
all of it dies when the step ends."""
