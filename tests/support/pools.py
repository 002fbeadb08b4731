"""Pools whose processes are forked from one that has imported the comparer, not started anew."""

from __future__ import annotations

from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import TYPE_CHECKING, Any

from padiff.comparer import processes

if TYPE_CHECKING:
    import pytest

__all__ = ["fork_pools"]


class _Context(ForkServerContext):
    """Starts processes, and knows those that it started, as that of the comparer does."""

    def __init__(self) -> None:
        super().__init__()
        self.set_forkserver_preload(["padiff.comparer.comparison", "padiff.comparer.processes"])
        self.started: list[ForkServerProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> ForkServerProcess:  # type: ignore[override]  # noqa: ANN401, N802
        """Make a process as ``multiprocessing.Process`` does."""
        self.started.append(ForkServerProcess(*args, **kwargs))
        return self.started[-1]


def fork_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the pools of this process fork theirs, where how they are started is not tested."""
    monkeypatch.setattr(processes, "_Context", _Context)
