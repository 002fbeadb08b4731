"""What ``padiff dump`` notes for the case of a crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumper.runs.runsettings import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper import Counts

    from .watcher import Blackbox


class NotedProgress(Progress):
    """Notes each stage, and hands it on to what draws it."""

    def __init__(self, notes: Blackbox, drawn: Progress | None) -> None:
        """Keep both."""
        self._notes = notes
        self._drawn = drawn

    def stage(self, name: str, counts: Callable[[], Counts] | None = None) -> None:
        """Take note that a stage begins."""
        self._notes.stage(name)
        if self._drawn is not None:
            self._drawn.stage(name, counts)
