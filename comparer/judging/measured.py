"""Read the arrays of pairs and measure them one by one, each distinct pair once.

Large ones are measured side by side in processes of their own, or on other workers. Threads would
gain little: each of some twenty calls of numpy in a block takes 5 to 40 us and then waits for the
interpreter, which another thread holds, and waking up takes 40 us again. On two cores, two threads
measured 0.9 to 1.2 times as much as one, and two processes 1.9 times.

What a process does not give back, for whatever reason, is measured by whoever asked for it: errors
come up there.
"""

from __future__ import annotations

import math
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from padiff.comparer.executors import beside_this_task, check_version, own_version
from padiff.comparer.judgedpairs import pressure
from padiff.comparer.result import Tolerance
from padiff.dumpfile import DumpFormatError, StepFile, numpy_dtype

from .blocks import RELEASE_BYTES, Room
from .metrics import measure
from .tolerance import EXACT
from .unmeasured import arrays_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from padiff.comparer.result import Metrics
    from padiff.dumpfile import RecordInfo, ValueInfo
    from padiff.pairing import Rule, Side

    from .blocks import Array


BYTES_AT_MOST = 16
"""Bytes of the widest element, complex128."""
LARGE_FROM = 1 << 14
"""Elements of a pair that another process may measure."""
WORTH_BYTES = 4 << 30
"""Of less in all, one process is done in two seconds, and starting another takes 0.2 s."""
PAIR_BYTES = 1 << 20
"""What is measured in the 0.4 ms that the calls for one pair take, whatever its size."""
HEAD_START_BYTES = 1 << 30
"""What this process measures until another one has started; a scheduler's workers run already."""


@runtime_checkable
class _Fetching(Protocol):
    """A side whose elements may have to be fetched from a store."""

    def fetch(self, values: Iterable[ValueInfo], *, is_plan: bool = False) -> None:
        """See that the elements of values are at hand."""


def plan_reading(side: Side, records: Iterable[RecordInfo]) -> None:
    """Fetch what will be read of a side, all at once, if it lies in a store.

    Raises:
        DumpError: It cannot be had.
    """
    if isinstance(side, _Fetching):
        values = side.index.values
        wanted = {record.value for record in records if record.value is not None}
        side.fetch((values[value] for value in wanted), is_plan=True)


@dataclass(slots=True)
class Request:
    """One pair to be measured."""

    references: tuple[RecordInfo, ...]
    """Of a stack some may hold no value: they are taken as zeros."""
    record: RecordInfo
    rule: Rule
    """From the reference's layout to the candidate's."""
    candidate_rule: Rule
    """What is done to the candidate before."""
    tolerance: Tolerance = EXACT
    """Chosen when all pairs that are to be measured are known."""

    @property
    def known(self) -> tuple[RecordInfo, ...]:
        """Return the reference's records that hold a value."""
        if len(self.references) == 1 or all(one.value is not None for one in self.references):
            return self.references
        return tuple(one for one in self.references if one.value is not None)

    @property
    def key(self) -> object:
        """Return what two requests have in common that give the same numbers."""
        record, tolerance = self.record, self.tolerance
        numbers = tolerance.atol, tolerance.rtol
        if len(self.references) == 1 and not (self.rule.steps or self.candidate_rule.steps):
            known = self.references[0]
            return known.value, record.value, known.shape, record.shape, numbers
        sources = tuple([(reference.value, reference.shape) for reference in self.references])
        return sources, record.value, record.shape, self.rule, self.candidate_rule, numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The metrics of pairs that were measured one by one."""

    each: Sequence[Metrics]
    atol: Array

    def mismatched(self) -> Array:
        """Count the elements of each pair that do not agree."""
        return np.array([one.mismatched for one in self.each], np.int64)

    def metrics(self, rows: Array) -> list[Metrics]:
        """Return the metrics of some pairs."""
        return [self.each[row] for row in rows.tolist()]

    def pressures(self) -> Array:
        """Return the part of its absolute tolerance that each pair needs, -1 for equal ones."""
        limits = (Tolerance(atol=atol, rtol=0.0) for atol in self.atol.tolist())
        both = zip(self.each, limits, strict=True)
        return np.array([pressure(one, limit) if one.max_abs else -1.0 for one, limit in both])


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Pairs that another process measures."""

    places: tuple[int, ...]
    """Their numbers among all requests."""
    requests: tuple[Request, ...]
    files: tuple[Path, Path]
    """Of the reference and of the candidate."""
    digests: tuple[Mapping[int, str], Mapping[int, str]]
    """Of the values of both, by which a file is known that was put in the place of another one."""
    mean: bool
    """Whether the reference's mean magnitude is wanted."""


def measure_share(share: Share, version: str) -> list[tuple[int, Metrics]]:
    """Measure pairs, and return their places and metrics.

    Raises:
        CompareError: This is another version of padiff.
        DumpFormatError: A file was replaced, or cannot be read.
    """
    check_version(version, "the process that shared this out")
    with StepFile(share.files[0]) as reference, StepFile(share.files[1]) as candidate:
        for file, digests in zip((reference, candidate), share.digests, strict=True):
            if any(file.index.values[value].digest != one for value, one in digests.items()):
                raise DumpFormatError(f"cannot read {str(file.path)!r}: it was replaced")

        def release() -> None:
            reference.release_pages()
            candidate.release_pages()

        measurements = Measurements(reference, candidate, mean=share.mean, release=release)
        return list(zip(share.places, measurements.of(share.requests, jobs=1), strict=True))


class Measurements:
    """Measures the pairs of one step."""

    def __init__(
        self, reference: Side, candidate: Side, *, mean: bool, release: Callable[[], None]
    ) -> None:
        """Remember where the arrays are."""
        self._reference = reference
        self._candidate = candidate
        self._mean = mean
        self._release = release
        self._read_bytes = 0
        self._room = Room()

    def of(
        self, requests: Sequence[Request], *, jobs: int, scheduler: str | None = None
    ) -> list[Metrics]:
        """Measure pairs; the results do not depend on where and in how many processes.

        Args:
            requests: The pairs.
            jobs: How many processes may measure, at least 1.
            scheduler: Whose workers they are; None takes processes of this machine.

        Raises:
            DumpFormatError: Elements cannot be read.
        """
        numbers: dict[object, int] = {}
        distinct: list[Request] = []
        places = []
        for request in requests:
            place = numbers.setdefault(request.key, len(distinct))
            if place == len(distinct):
                distinct.append(request)
            places.append(place)
        numbers.clear()  # it may be as large as what is measured
        found = self._all(distinct, jobs, scheduler)
        return [found[place] for place in places]

    def _all(self, requests: Sequence[Request], jobs: int, scheduler: str | None) -> list[Metrics]:
        """Measure one by one, and many large ones side by side."""
        done: dict[int, Metrics] = {}
        plan_reading(self._reference, (one for request in requests for one in request.known))
        plan_reading(self._candidate, (request.record for request in requests))
        shares = self._shares(requests, jobs, 0 if scheduler else HEAD_START_BYTES)
        others = {place for share in shares for place in share.places}
        with ExitStack() as exits:
            running: list[Future[list[tuple[int, Metrics]]]] = []
            if shares:
                pool = exits.enter_context(beside_this_task(scheduler, len(shares)))
                with suppress(BrokenExecutor):
                    running += [pool.submit(measure_share, one, own_version()) for one in shares]
            self._here(requests, [at for at in range(len(requests)) if at not in others], done)
            for future in running:
                with suppress(CancelledError):
                    done.update([] if future.exception() else future.result())
        self._here(requests, sorted(others - done.keys()), done)
        return [done[place] for place in range(len(requests))]

    def _here(
        self, requests: Sequence[Request], places: Iterable[int], done: dict[int, Metrics]
    ) -> None:
        """Measure some of the pairs in this process."""
        for place in places:
            request = requests[place]
            self._account(2 * math.prod(request.record.shape) * BYTES_AT_MOST)
            done[place] = self._measure(request.tolerance, *self._read(request))

    def _shares(self, requests: Sequence[Request], jobs: int, head_start: int) -> list[Share]:
        """Return what other processes measure: nothing where that is not worth it.

        Args:
            requests: All that is to be measured.
            jobs: How many processes are to measure, this one included.
            head_start: Bytes that this one measures before the others have started.
        """
        sides = self._reference, self._candidate
        files = [one for one in sides if isinstance(one, StepFile) and one.is_local]
        if jobs == 1 or len(files) < len(sides):
            return []
        costs = {
            place: PAIR_BYTES + sum(map(_size_bytes, (*known, found)))
            for place, request in enumerate(requests)
            for known, found in [self._values(request)]
            if found.size >= LARGE_FROM
        }
        if sum(costs.values()) < WORTH_BYTES:
            return []
        shares = spread(costs, jobs, head_start)[1:]
        return [self._share(requests, files, places) for places in shares if places]

    def _share(
        self, requests: Sequence[Request], files: Sequence[StepFile], places: Sequence[int]
    ) -> Share:
        wanted = tuple(requests[place] for place in places)
        values = [self._values(request) for request in wanted]
        return Share(
            places=tuple(places),
            requests=wanted,
            files=(files[0].path, files[1].path),
            digests=(
                {value.id: value.digest for known, _ in values for value in known},
                {found.id: found.digest for _, found in values},
            ),
            mean=self._mean,
        )

    def _values(self, request: Request) -> tuple[list[ValueInfo], ValueInfo]:
        """Return the values of a pair: the reference's, and the candidate's."""
        known, found = self._reference.index.values, self._candidate.index.values
        return [known[one.value or 0] for one in request.known], found[request.record.value or 0]

    def _read(self, request: Request) -> tuple[Array, Array]:
        arrays = arrays_of(request.references, self._reference)
        found = self._candidate.array(request.record)
        if request.candidate_rule.steps:
            found = request.candidate_rule.apply([found])
        return request.rule.apply(arrays, found.shape), found

    def _measure(self, tolerance: Tolerance, expected: Array, found: Array) -> Metrics:
        return measure(
            expected, found, tolerance, mean=self._mean, release=self._release, room=self._room
        )

    def _account(self, size_bytes: int) -> None:
        """Let go of mapped memory now and then, so that large dumps do not fill it."""
        self._read_bytes += size_bytes
        if self._read_bytes > RELEASE_BYTES:
            self._read_bytes = 0
            self._release()


def _size_bytes(value: ValueInfo) -> int:
    return value.size * numpy_dtype(value.dtype).itemsize


def spread(costs: Mapping[int, int], count: int, head_start: int) -> list[list[int]]:
    """Split pairs into shares that take about as long, the first one for this process.

    Args:
        costs: Bytes of each pair, by its place.
        count: How many shares.
        head_start: Bytes that this process is ahead of the others.
    """
    shares: list[list[int]] = [[] for _ in range(count)]
    loads = [0] + [head_start] * (count - 1)
    for place in sorted(costs, key=lambda one: (-costs[one], one)):
        least = loads.index(min(loads))
        shares[least].append(place)
        loads[least] += costs[place]
    return shares
