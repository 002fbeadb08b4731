"""What a recording is doing right now, told to whoever may have to say it after a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Running:
    """Hears what is being recorded; this one forgets it, the command line's outlives a crash.

    Its methods run at every call of a module: they must be quick and never fail.
    """

    def place(self, directory: Path) -> None:
        """Hear where the dump is to be."""

    def call(self, path: str, index: int) -> None:
        """Hear that a call of a module runs now: one that begins, or one that goes on."""

    def between_calls(self) -> None:
        """Hear that no call runs now."""
