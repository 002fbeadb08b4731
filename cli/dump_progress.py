"""What ``padiff dump`` draws on a terminal while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from padiff.dumper.runs.runsettings import Progress

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.console import RenderableType

    from padiff.dumper import Counts


FRAMES_PER_SECOND = 8


class TerminalProgress(Progress):
    """One line on stderr: the stage, and how much was recorded so far; gone in the end."""

    def __init__(self) -> None:
        """Draw nothing yet."""
        self._stage = ""
        self._counts: Callable[[], Counts] | None = None
        self._spinner = Spinner("line")
        self._live = Live(
            console=Console(stderr=True),
            get_renderable=self._draw,
            refresh_per_second=FRAMES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def stage(self, name: str, counts: Callable[[], Counts] | None = None) -> None:
        """Draw this stage from now on."""
        self._counts = None
        self._stage = name
        self._counts = counts

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Wipe the line."""
        self._live.stop()

    def _draw(self) -> RenderableType:
        text = self._stage
        if self._counts is not None:
            counts = self._counts()
            text += f": {counts.calls} calls, {counts.records} records"
        self._spinner.update(text=Text(text))
        return self._spinner
