"""Tests several operators at the same time, each in a process with workers of its own."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

from .search import Searched, search

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from padiff.ops.table import Row

    from .running import Pair


def search_all(
    rows: Sequence[Row],
    started: Callable[[ExitStack], Pair],
    *,
    examples: int,
    seed: int,
    jobs: int,
) -> list[Searched]:
    """Test operators; what is found does not depend on the number of processes.

    Args:
        rows: Of the operators.
        started: Starts both frameworks, to be ended with the stack.
        examples: How many cases to draw of each.
        seed: Another number draws others.
        jobs: How many processes.
    """
    # Forked, since a row holds functions of the user's file.
    context = multiprocessing.get_context("fork")
    arguments = rows, started, examples, seed
    with ProcessPoolExecutor(jobs, context, _start, arguments) as pool:
        return list(pool.map(_search, range(len(rows))))


_running: _Process


class _Process:
    """What one process tests operators with."""

    def __init__(
        self,
        rows: Sequence[Row],
        started: Callable[[ExitStack], Pair],
        examples: int,
        seed: int,
    ) -> None:
        self._rows, self._examples, self._seed = rows, examples, seed
        # The workers end with this process, which closes what they read.
        self._pair = started(ExitStack())

    def search(self, place: int) -> Searched:
        return search(self._rows[place], self._pair, examples=self._examples, seed=self._seed)


def _start(
    rows: Sequence[Row], started: Callable[[ExitStack], Pair], examples: int, seed: int
) -> None:
    global _running  # noqa: PLW0603 -- what an initialiser of a pool leaves for its tasks
    _running = _Process(rows, started, examples, seed)


def _search(place: int) -> Searched:
    return _running.search(place)
