"""Read the arrays of pairs and measure them, each distinct pair once."""

from __future__ import annotations

import math
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .absent import arrays_of
from .blocks import Room
from .metrics import measure
from .smallpairs import BATCH, is_small, measure_small

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from padiff.comparer.result import Metrics, Tolerance
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Rule, Side

    from .blocks import Array

__all__ = ["Measurements", "Request"]

RELEASE_BYTES = 64 * 1024 * 1024
BYTES_AT_MOST = 16
"""Bytes of the widest element, complex128."""
THREADED_FROM = 1 << 18
"""Elements of a pair that is worth a thread."""
AHEAD = 2
"""Pairs for each thread that are read before their turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One pair to be measured."""

    references: tuple[RecordInfo, ...]
    record: RecordInfo
    rule: Rule
    """From the reference's layout to the candidate's."""
    candidate_rule: Rule
    """What is done to the candidate before."""
    tolerance: Tolerance

    @property
    def key(self) -> object:
        """Give what two requests have in common that give the same numbers."""
        record, tolerance = self.record, self.tolerance
        numbers = tolerance.atol, tolerance.rtol
        if len(self.references) == 1 and not (self.rule.steps or self.candidate_rule.steps):
            known = self.references[0]
            return known.value, record.value, known.shape, record.shape, numbers
        sources = tuple([(reference.value, reference.shape) for reference in self.references])
        return sources, record.value, record.shape, self.rule, self.candidate_rule, numbers


class _Batches:
    """Small pairs that wait to be measured together, those of one size with each other."""

    def __init__(self, done: dict[int, Metrics], *, mean: bool) -> None:
        """Begin with none.

        Args:
            done: Gets the results, by place.
            mean: Whether the reference's mean magnitude is wanted.
        """
        self._done = done
        self._mean = mean
        self._room = Room()
        self._waiting: dict[int, list[tuple[int, tuple[Array, Array], Tolerance]]] = {}

    def add(self, place: int, arrays: tuple[Array, Array], tolerance: Tolerance) -> None:
        """Take a pair; measure those of its size if they are enough."""
        size = arrays[0].size
        waiting = self._waiting.setdefault(size, [])
        waiting.append((place, arrays, tolerance))
        if len(waiting) * size >= BATCH:
            self._measure(self._waiting.pop(size))

    def flush(self) -> None:
        """Measure all that wait."""
        for waiting in self._waiting.values():
            self._measure(waiting)
        self._waiting = {}

    def _measure(self, waiting: Sequence[tuple[int, tuple[Array, Array], Tolerance]]) -> None:
        places, arrays, tolerances = zip(*waiting, strict=True)
        found = measure_small(arrays, tolerances, mean=self._mean, room=self._room)
        for place, pair, tolerance, metrics in zip(places, arrays, tolerances, found, strict=True):
            reference, candidate = pair
            self._done[place] = metrics or measure(reference, candidate, tolerance, mean=self._mean)


class Measurements:
    """Measures the pairs of one step."""

    def __init__(
        self, reference: Side, candidate: Side, *, mean: bool, release: Callable[[], None]
    ) -> None:
        """Remember where the arrays are.

        Args:
            reference: The side held to be right.
            candidate: The side to judge.
            mean: Whether the reference's mean magnitude is wanted.
            release: Gives memory back that reading has filled; called every 64 MiB.
        """
        self._reference = reference
        self._candidate = candidate
        self._mean = mean
        self._release = release
        self._read_bytes = 0
        self._rooms = threading.local()

    def of(self, requests: Sequence[Request], *, jobs: int) -> list[Metrics]:
        """Measure pairs; the results do not depend on the number of threads.

        Args:
            requests: The pairs.
            jobs: How many threads, at least 1.

        Raises:
            DumpFormatError: Elements cannot be read.
        """
        keys = [request.key for request in requests]
        distinct = dict(zip(keys, requests, strict=True))
        found = dict(zip(distinct, self._all(distinct.values(), jobs), strict=True))
        return [found[key] for key in keys]

    def _all(self, requests: Collection[Request], jobs: int) -> list[Metrics]:
        """Measure small pairs in batches, the others one by one or in threads."""
        # Reading stays in this thread: HDF5 is not to be used by two at once. What it gives is
        # mapped, so that the pages themselves are read where they are measured.
        done: dict[int, Metrics] = {}
        batches = _Batches(done, mean=self._mean)
        waiting: deque[tuple[int, Future[Metrics]]] = deque()
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            for place, request in enumerate(requests):
                arrays = self._read(request)
                if is_small(*arrays):
                    batches.add(place, arrays, request.tolerance)
                elif jobs == 1 or arrays[0].size < THREADED_FROM:
                    done[place] = self._measure(request.tolerance, *arrays)
                else:
                    started = pool.submit(self._measure, request.tolerance, *arrays)
                    waiting.append((place, started))
                if len(waiting) > AHEAD * jobs:
                    self._wait(done, *waiting.popleft())
            batches.flush()
            for place, started in waiting:
                self._wait(done, place, started)
        return [done[place] for place in range(len(requests))]

    @staticmethod
    def _wait(done: dict[int, Metrics], place: int, started: Future[Metrics]) -> None:
        done[place] = started.result()

    def _read(self, request: Request) -> tuple[Array, Array]:
        self._account(2 * math.prod(request.record.shape) * BYTES_AT_MOST)
        arrays = arrays_of(request.references, self._reference)
        found = self._candidate.array(request.record)
        if request.candidate_rule.steps:
            found = request.candidate_rule.apply([found])
        return request.rule.apply(arrays, found.shape), found

    def _measure(self, tolerance: Tolerance, expected: Array, found: Array) -> Metrics:
        room: Room | None = getattr(self._rooms, "room", None)
        if room is None:
            room = self._rooms.room = Room()
        return measure(
            expected, found, tolerance, mean=self._mean, release=self._release, room=room
        )

    def _account(self, size_bytes: int) -> None:
        """Let go of mapped memory now and then, so that large dumps do not fill it."""
        self._read_bytes += size_bytes
        if self._read_bytes > RELEASE_BYTES:
            self._read_bytes = 0
            self._release()
