"""Look closer at what diverged: how the error is spread, on both sides' elements.

Only for reports that show it: the dumps are read again, a bounded number of records, and of each
a bounded number of elements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumpfile import DumpFormatError, StepFile, open_dump, read_floor
from padiff.pairing import RanksEntry, Rule, elements_of, match_elements

from .facts.attributes import canonical_attributes
from .judging.metrics import index_of
from .judging.tolerance import EXACT
from .judging.unmeasured import arrays_of
from .proving import Answer, list_program
from .result import Comparison, JudgedPair, Kind, StepComparison, Tolerance, Verdict
from .sharding.sides import Sides

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from padiff.dumpfile import JSON, Floor, StepReader

    from .proving import Listing

RECORDS = 200
"""Diverged records that are looked at, origins first."""
ELEMENTS = 1 << 22
"""Elements of one record that are looked at; of larger ones every so many-th along one axis."""
PROGRAMS = 1
"""Steps whose programs are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One diverged record, looked at closely."""

    step: int
    """Position among the compared steps."""
    pair: int
    """Position among the step's pairs."""
    stride: int
    """Every so many-th index of the longest axis was looked at."""
    spread: Spread
    sampled: bool = False
    """Whether only the elements of a sample were looked at; heat and profiles are empty then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorPoint:
    """How far correct runs were apart at a pair, by ``floor.json`` of either dump."""

    step: int
    """Position among the compared steps."""
    pair: int
    max_abs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """How the two modules of a tree row are configured."""

    step: int
    """Position among the compared steps."""
    row: int
    reference: Mapping[str, JSON]
    candidate: Mapping[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """What both sides ran in a step."""

    step: int
    """Position among the compared steps."""
    reference: Listing
    candidate: Listing


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What a page shows besides the verdicts."""

    records: tuple[Detail, ...]
    attributes: tuple[Attributes, ...]
    left_out: int
    """Diverged records that were not looked at."""
    floors: tuple[FloorPoint, ...] = ()
    """The measured noise floor, whether it was judged by or not."""
    programs: tuple[Programs, ...] = ()
    """Of the steps whose execution shows something; of the first where none does."""


def look_closer(reference: Path, candidate: Path, comparison: Comparison) -> Details:
    """Read what diverged once more and describe where the error is.

    Raises:
        DumpError: A dump changed or cannot be read any more.
    """
    sides = _sides(reference, candidate, comparison)
    chosen = sorted(
        (
            (pair.kind is not Kind.ORIGIN, step, place)
            for step, compared in enumerate(comparison.steps)
            for place, pair in enumerate(compared.pairs)
            if pair.verdict is Verdict.DIVERGED and pair.metrics is not None
        )
    )
    wanted = {(step, place) for _, step, place in chosen[:RECORDS]}
    records: list[Detail] = []
    attributes: list[Attributes] = []
    floors = read_floor(reference), read_floor(candidate)
    points: list[FloorPoint] = []
    programs: list[Programs] = []
    listed = _to_list(comparison)
    for position, step in enumerate(comparison.steps):
        with sides.open((step.step, step.rank)) as (one, two):
            attributes += _attributes(position, step, one, two)
            points += _floor_points(position, step, floors)
            if position in listed and isinstance(one, StepFile) and isinstance(two, StepFile):
                programs.append(_programs(position, step, one, two))
            records += [
                _detail(position, place, step, one, two)
                for place in range(len(step.pairs))
                if (position, place) in wanted and step.records
            ]
    return Details(
        records=tuple(records),
        attributes=tuple(attributes),
        left_out=len(chosen) - len(records),
        floors=tuple(points),
        programs=tuple(programs),
    )


def _sides(reference: Path, candidate: Path, comparison: Comparison) -> Sides:
    """Open both dumps as they were compared."""
    told = comparison.settings.get("layouts")
    entries = [RanksEntry.parse(str(text)) for text in (told if isinstance(told, list) else ())]
    by_rank = comparison.settings.get("ranks") is not None
    return Sides(open_dump(reference), open_dump(candidate), entries, by_rank=by_rank)


def _to_list(comparison: Comparison) -> list[int]:
    """Return the positions of the steps whose programs are shown."""
    executed = [place for place, step in enumerate(comparison.steps) if step.executed is not None]
    telling = [
        place
        for place in executed
        if (found := comparison.steps[place].executed) is not None
        and (found.answer is not Answer.SAME or found.is_hidden)
    ]
    return (telling or executed)[:PROGRAMS]


def _programs(position: int, step: StepComparison, one: StepFile, two: StepFile) -> Programs:
    """List what both sides ran; of long programs what execution points at."""
    wanted: tuple[set[int], set[int]] = (set(), set())
    function = None if step.executed is None else step.executed.function
    for found in (function, None if function is None else function.update):
        for end in () if found is None else (found, *found.edits):
            for ids, place in zip(wanted, (end.reference, end.candidate), strict=True):
                ids.update(() if place is None else place.slice)
    return Programs(
        step=position,
        reference=list_program(one, wanted[0]),
        candidate=list_program(two, wanted[1]),
    )


def _floor_points(
    position: int, step: StepComparison, floors: tuple[Floor | None, Floor | None]
) -> Iterator[FloorPoint]:
    """Yield the larger floor of each pair of which one is known."""
    place = step.step, step.rank
    rows = [None if floor is None else floor.records.get(place) for floor in floors]
    for number, (known, found) in enumerate(step.records):
        if not known or found is None:
            continue
        cells = [] if rows[0] is None else [rows[0][one] for one in known]
        cells += [] if rows[1] is None else [rows[1][found]]
        measured = [cell.max_abs for cell in cells if cell is not None]
        if measured:
            yield FloorPoint(step=position, pair=number, max_abs=max(measured))


def _attributes(
    position: int, step: StepComparison, reference: StepReader, candidate: StepReader
) -> Iterator[Attributes]:
    """Yield the attributes of all modules that have some, under one vocabulary."""
    sides = [
        {module.path: canonical_attributes(module, file.framework) for module in file.index.modules}
        for file in (reference, candidate)
    ]
    for row in step.tree:
        mine = {} if row.reference is None else sides[0].get(row.reference, {})
        theirs = {} if row.candidate is None else sides[1].get(row.candidate, {})
        if mine or theirs:
            yield Attributes(step=position, row=row.id, reference=mine, candidate=theirs)


def _detail(
    position: int, place: int, step: StepComparison, reference: StepReader, candidate: StepReader
) -> Detail:
    pair = step.pairs[place]
    if pair.sampled_of is not None:
        return _sampled(position, place, step, reference, candidate)
    expected, found, stride = _arrays(pair, step.records[place], reference, candidate)
    described = describe(expected, found, pair.tolerance or EXACT)
    reference.release_pages()
    candidate.release_pages()
    axis = int(np.argmax(found.shape)) if found.ndim else 0
    mismatches = tuple(
        replace(one, index=tuple(n * stride if at == axis else n for at, n in enumerate(one.index)))
        for one in described.mismatches
    )
    spread = replace(described, mismatches=mismatches)
    return Detail(step=position, pair=place, stride=stride, spread=spread)


def _sampled(
    position: int, place: int, step: StepComparison, reference: StepReader, candidate: StepReader
) -> Detail:
    """Describe what both samples hold: no picture of the tensor, but where elements are off."""
    pair, (known, found) = step.pairs[place], step.records[place]
    record = candidate.index.records[found or 0]
    parts = [elements_of(reference, reference.index.records[one]) for one in known]
    mine, theirs = [part for part in parts if part is not None], elements_of(candidate, record)
    rule = Rule.parse(pair.layout or "identity")
    matched = None if theirs is None else match_elements(rule, mine, theirs)
    if matched is None:
        raise DumpFormatError("a dump changed while it was compared")
    limits = pair.tolerance or EXACT
    described = describe(matched.reference, matched.candidate, limits)
    mismatches = tuple(
        replace(one, index=index_of(int(matched.places[one.index[0]]), record.shape))
        for one in described.mismatches
    )
    spread = replace(described, heat=(), heat_shape=(0, 0), profiles=(), mismatches=mismatches)
    return Detail(step=position, pair=place, stride=1, spread=spread, sampled=True)


def _arrays(
    pair: JudgedPair,
    records: tuple[tuple[int, ...], int | None],
    reference: StepReader,
    candidate: StepReader,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """Read both sides in the candidate's shape, thinned out where they are large."""
    record = candidate.index.records[records[1] or 0]
    parts = arrays_of([reference.index.records[known] for known in records[0]], reference)
    found = Rule.parse(pair.candidate_layout).apply([candidate.array(record)])
    expected = Rule.parse(pair.layout).apply(parts, found.shape)
    if found.size <= ELEMENTS:
        return expected, found, 1
    axis = int(np.argmax(found.shape))
    stride = min(-(-found.size // ELEMENTS), found.shape[axis])
    take = tuple(
        slice(None, None, stride) if each == axis else slice(None) for each in range(found.ndim)
    )
    return expected[take], found[take], stride


Array = np.ndarray[Any, np.dtype[Any]]

BINS = 40
HEAT_ROWS = 48
HEAT_COLUMNS = 96
POINTS = 128
"""Points of a profile."""
AXES = 4
"""Axes that get a profile."""
SHOWN = 16
"""Mismatching elements that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """How often values occur on both sides, in equal bins over one range."""

    low: float
    high: float
    reference: tuple[int, ...]
    candidate: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The largest error at each index of an axis, several indexes to a point where it is long."""

    axis: int
    size: int
    largest: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One element that does not agree."""

    index: tuple[int, ...]
    reference: str
    candidate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """All of it."""

    histogram: Histogram | None
    heat: tuple[tuple[float, ...], ...]
    heat_shape: tuple[int, int]
    profiles: tuple[Profile, ...]
    mismatches: tuple[Mismatch, ...]


def describe(reference: Array, candidate: Array, tolerance: Tolerance) -> Spread:
    """Describe the difference of two arrays of one shape.

    Args:
        reference: Any real or complex dtype; complex values count by magnitude.
        candidate: The same shape.
        tolerance: What decides which elements are listed.
    """
    kind = np.complex128 if np.iscomplexobj(reference) or np.iscomplexobj(candidate) else np.float64
    known, found = (np.asarray(side).astype(kind) for side in (reference, candidate))
    finite = np.isfinite(known) & np.isfinite(found)
    same = (np.isnan(known) & np.isnan(found)) | (known == found)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(found - known), np.where(same, 0.0, np.inf))
        bad = error > tolerance.atol + tolerance.rtol * np.where(finite, np.abs(known), 0.0)
    columns = error.shape[-1] if error.ndim and error.size else 1
    folded = error.reshape(-1, columns)
    return Spread(
        histogram=_histogram(known, found),
        heat=tuple(tuple(row) for row in _shrink(folded, HEAT_ROWS, HEAT_COLUMNS).tolist()),
        heat_shape=(folded.shape[0], folded.shape[1]),
        profiles=tuple(_profiles(error)),
        mismatches=tuple(_mismatches(known, found, bad)),
    )


def _histogram(reference: Array, candidate: Array) -> Histogram | None:
    sides = [np.abs(side) if np.iscomplexobj(side) else side for side in (reference, candidate)]
    sides = [side[np.isfinite(side)] for side in sides]
    if not any(side.size for side in sides):
        return None
    low = min(float(side.min()) for side in sides if side.size)
    high = max(float(side.max()) for side in sides if side.size)
    if not high > low or not np.isfinite(high - low):
        return None
    counts = [np.histogram(side, bins=BINS, range=(low, high))[0] for side in sides]
    return Histogram(
        low=low,
        high=high,
        reference=tuple(counts[0].tolist()),
        candidate=tuple(counts[1].tolist()),
    )


def _shrink(folded: Array, rows: int, columns: int) -> Array:
    """Keep the largest of each cell of a coarser grid."""
    if not folded.size:
        return folded
    for axis, most in ((0, rows), (1, columns)):
        size = folded.shape[axis]
        if size > most:
            starts = np.arange(most) * size // most
            folded = np.maximum.reduceat(folded, starts, axis=axis)
    return folded


def _profiles(error: Array) -> list[Profile]:
    if not error.size:
        return []
    found = []
    for axis in range(min(error.ndim, AXES)):
        others = tuple(other for other in range(error.ndim) if other != axis)
        largest = np.asarray(error.max(axis=others)).reshape(1, -1)
        points = tuple(_shrink(largest, 1, POINTS)[0].tolist())
        found.append(Profile(axis=axis, size=error.shape[axis], largest=points))
    return found


def _mismatches(reference: Array, candidate: Array, bad: Array) -> list[Mismatch]:
    places = np.flatnonzero(bad)[:SHOWN]
    return [
        Mismatch(
            index=index_of(int(place), bad.shape),
            reference=_text(reference.flat[place]),
            candidate=_text(candidate.flat[place]),
        )
        for place in places
    ]


def _text(value: Any) -> str:  # noqa: ANN401 -- float64 or complex128
    return f"{value:.9g}"
