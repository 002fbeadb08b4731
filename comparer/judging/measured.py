"""Read the arrays of pairs and measure them one by one, each distinct pair once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from padiff.comparer.judgedpairs import pressure
from padiff.comparer.result import Tolerance

from .blocks import RELEASE_BYTES, Room
from .largepairs import LargePair, LargePairs
from .metrics import measure
from .tolerance import EXACT
from .unmeasured import arrays_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from padiff.comparer.result import Metrics
    from padiff.dumpfile import RecordInfo, ValueInfo
    from padiff.dumpfile.extent import Extent
    from padiff.pairing import Rule, Side

    from .blocks import Array


BYTES_AT_MOST = 16
"""Bytes of the widest element, complex128."""
LARGE_FROM = 1 << 14
"""Elements of a pair that another process may measure."""


@runtime_checkable
class _InFile(Protocol):
    """A side whose elements lie in a file: an opened one."""

    def extent(self, value: ValueInfo) -> Extent | None:
        """Return where a value's elements lie; None where they have to be made first."""


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


def _plain_values(request: Request, sides: tuple[Side, Side]) -> tuple[ValueInfo, ValueInfo] | None:
    """Return both values of a pair that needs no layout; None for all others."""
    if len(request.references) != 1 or request.rule.steps or request.candidate_rule.steps:
        return None
    known, found = request.references[0], request.record
    if known.shape != found.shape or known.value is None or found.value is None:
        return None
    return sides[0].index.values[known.value], sides[1].index.values[found.value]


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
        pairs = self._large(requests) if jobs > 1 else ()
        with LargePairs(pairs, jobs=jobs, scheduler=scheduler) as large:
            here = [place for place in range(len(requests)) if place not in large.others]
            self._here(requests, here, done)
            done.update(large.results())
        self._here(requests, sorted(large.others - done.keys()), done)
        return [done[place] for place in range(len(requests))]

    def _here(
        self, requests: Sequence[Request], places: Iterable[int], done: dict[int, Metrics]
    ) -> None:
        """Measure some of the pairs in this process."""
        for place in places:
            request = requests[place]
            self._account(2 * math.prod(request.record.shape) * BYTES_AT_MOST)
            done[place] = self._measure(request.tolerance, *self._read(request))

    def _large(self, requests: Sequence[Request]) -> list[LargePair]:
        """List the large pairs whose elements can be mapped as they are."""
        reference, candidate = self._reference, self._candidate
        found: list[LargePair] = []
        if not (isinstance(reference, _InFile) and isinstance(candidate, _InFile)):
            return found
        for place, request in enumerate(requests):
            values = _plain_values(request, (self._reference, self._candidate))
            if values is None or values[0].size < LARGE_FROM:
                continue
            extents = reference.extent(values[0]), candidate.extent(values[1])
            if extents[0] is not None and extents[1] is not None:
                pair = LargePair(
                    place=place,
                    reference=extents[0],
                    candidate=extents[1],
                    shape=request.record.shape,
                    tolerance=request.tolerance,
                    mean=self._mean,
                )
                found.append(pair)
        return found

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
