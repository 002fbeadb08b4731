"""Read the arrays of pairs and measure them, each distinct pair once."""

from __future__ import annotations

import math
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .absent import arrays_of
from .metrics import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Rule, Side

    from .blocks import Array
    from .result import Metrics, Tolerance

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
        known = tuple((reference.value, reference.shape) for reference in self.references)
        rules = self.rule, self.candidate_rule
        return known, self.record.value, self.record.shape, rules, self.tolerance


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

    def of(self, requests: Sequence[Request], *, jobs: int) -> list[Metrics]:
        """Measure pairs; the results do not depend on the number of threads.

        Args:
            requests: The pairs.
            jobs: How many threads, at least 1.

        Raises:
            DumpFormatError: Elements cannot be read.
        """
        distinct = {request.key: request for request in requests}
        found = dict(zip(distinct, self._all(distinct.values(), jobs), strict=True))
        return [found[request.key] for request in requests]

    def _all(self, requests: Collection[Request], jobs: int) -> list[Metrics]:
        # Reading stays in this thread: HDF5 is not to be used by two at once. What it gives is
        # mapped, so that the pages themselves are read where they are measured.
        if jobs == 1:
            return [self._measure(request.tolerance, *self._read(request)) for request in requests]
        done: list[Metrics | Future[Metrics]] = []
        waiting: deque[Future[Metrics]] = deque()
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            for request in requests:
                arrays = self._read(request)
                if arrays[0].size < THREADED_FROM:
                    done.append(self._measure(request.tolerance, *arrays))
                    continue
                started = pool.submit(self._measure, request.tolerance, *arrays)
                done.append(started)
                waiting.append(started)
                if len(waiting) > AHEAD * jobs:
                    waiting.popleft().result()
            return [one.result() if isinstance(one, Future) else one for one in done]

    def _read(self, request: Request) -> tuple[Array, Array]:
        self._account(2 * math.prod(request.record.shape) * BYTES_AT_MOST)
        arrays = arrays_of(request.references, self._reference)
        found = request.candidate_rule.apply([self._candidate.array(request.record)])
        return request.rule.apply(arrays, found.shape), found

    def _measure(self, tolerance: Tolerance, expected: Array, found: Array) -> Metrics:
        return measure(expected, found, tolerance, mean=self._mean)

    def _account(self, size_bytes: int) -> None:
        """Let go of mapped memory now and then, so that large dumps do not fill it."""
        self._read_bytes += size_bytes
        if self._read_bytes > RELEASE_BYTES:
            self._read_bytes = 0
            self._release()
