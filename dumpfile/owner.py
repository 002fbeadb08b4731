"""Which process owns what is being written: the one that began it, and none forked from it."""

from __future__ import annotations

import os

__all__ = ["Owner"]


class Owner:
    """The process in which an object was made.

    A forked process has a copy of every object. What a copy would flush, rename or remove when it
    is ended belongs to the process that made the original, and so do the threads that it waits for.
    """

    __slots__ = ("_process",)

    def __init__(self) -> None:
        """Take the process that runs."""
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        """Return whether the owner is the process that asks."""
        return self._process == os.getpid()
