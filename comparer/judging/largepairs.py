"""Measure large pairs side by side, in processes of their own or on other workers.

Threads would gain little: each of some twenty calls of numpy in a block takes 5 to 40 us and then
waits for the interpreter, which another thread holds, and waking up takes 40 us again. On two
cores, two threads measured 0.9 to 1.2 times as much as one, and two processes 1.9 times.

What a process does not give back, for whatever reason, is measured by whoever asked for it: errors
come up there.
"""

from __future__ import annotations

import os
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from padiff.comparer.executors import beside_this_task, check_version, own_version
from padiff.dumpfile.extent import MappedFiles

from .blocks import RELEASE_BYTES, Room
from .metrics import measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Self

    from padiff.comparer.result import Metrics, Tolerance
    from padiff.dumpfile.extent import Extent

WORTH_BYTES = 4 << 30
"""Of less in all, one process is done in two seconds, and starting another takes 0.2 s."""
PAIR_BYTES = 1 << 20
"""What is measured in the 0.4 ms that the calls for one pair take, whatever its size."""
HEAD_START_BYTES = 1 << 30
"""What this process measures until another one has started; a scheduler's workers run already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargePair:
    """A pair whose elements can be mapped as they are."""

    place: int
    """Its number among the requests."""
    reference: Extent
    candidate: Extent
    shape: tuple[int, ...]
    tolerance: Tolerance
    mean: bool
    """Whether the reference's mean magnitude is wanted."""

    @property
    def nbytes(self) -> int:
        """Return how many bytes both sides have."""
        return self.reference.nbytes + self.candidate.nbytes

    @property
    def cost_bytes(self) -> int:
        """Return how many bytes are measured in the time that it takes."""
        return self.nbytes + PAIR_BYTES


def measure_share(share: Sequence[LargePair], version: str) -> list[tuple[int, Metrics]]:
    """Measure pairs, and return their places and metrics.

    Args:
        share: The pairs.
        version: Of padiff, where the share was made.

    Raises:
        CompareError: This is another version of padiff.
        DumpFormatError: A file was replaced.
        OSError: One cannot be read.
    """
    check_version(version, "the process that shared this out")
    files, room = MappedFiles(), Room()
    found, read_bytes = [], 0
    for pair in share:
        metrics = measure(
            files.array(pair.reference).reshape(pair.shape),
            files.array(pair.candidate).reshape(pair.shape),
            pair.tolerance,
            mean=pair.mean,
            release=files.release_pages,
            room=room,
        )
        found.append((pair.place, metrics))
        read_bytes += pair.nbytes
        if read_bytes > RELEASE_BYTES:
            read_bytes = 0
            files.release_pages()
    return found


class LargePairs:
    """Pairs that are measured by other processes while this one does its own share."""

    def __init__(
        self, pairs: Sequence[LargePair], *, jobs: int, scheduler: str | None = None
    ) -> None:
        """Start the processes, if that is worth it.

        Args:
            pairs: All large pairs.
            jobs: How many processes are to measure, this one included; at least 1.
            scheduler: Whose workers are to measure, this process being one of them; None starts
                processes of this machine.
        """
        self._exits = ExitStack()
        self._running: list[Future[list[tuple[int, Metrics]]]] = []
        is_worth = jobs > 1 and sum(pair.cost_bytes for pair in pairs) >= WORTH_BYTES
        head_start = HEAD_START_BYTES if scheduler is None else 0
        shares = _shares(pairs, jobs if is_worth else 1, head_start)[1:]
        shares = [share for share in shares if share]
        self.others = frozenset(pair.place for share in shares for pair in share)
        """Places of those that other processes measure."""
        if shares:
            if scheduler is not None:
                shares = [[_anywhere(pair) for pair in share] for share in shares]
            pool = self._exits.enter_context(beside_this_task(scheduler, len(shares)))
            with suppress(BrokenExecutor):
                self._running.extend(
                    pool.submit(measure_share, share, own_version()) for share in shares
                )

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what is still running."""
        self._exits.close()

    def results(self) -> Iterator[tuple[int, Metrics]]:
        """Wait for the processes, and give the places and metrics of what they measured."""
        for future in self._running:
            with suppress(CancelledError):
                if future.exception() is None:
                    yield from future.result()


def _anywhere(pair: LargePair) -> LargePair:
    """Return a pair as another machine finds it, which numbers files and disks otherwise."""
    sides = replace(pair.reference, file=None), replace(pair.candidate, file=None)
    return replace(pair, reference=sides[0], candidate=sides[1])


def _shares(pairs: Sequence[LargePair], count: int, head_start: int) -> list[list[LargePair]]:
    """Split pairs into shares that take about as long, the first one for this process."""
    shares: list[list[LargePair]] = [[] for _ in range(count)]
    loads = [0] + [head_start] * (count - 1)
    for pair in sorted(pairs, key=lambda pair: (-pair.cost_bytes, pair.place)):
        least = loads.index(min(loads))
        shares[least].append(pair)
        loads[least] += pair.cost_bytes
    return shares


MOST_JOBS = 4
"""More than that wait for memory, not for each other."""


def default_jobs() -> int:
    """Return the processor's cores, at most ``MOST_JOBS``."""
    return min(MOST_JOBS, os.cpu_count() or 1)
