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
from .judging.absent import arrays_of
from .judging.spread import Spread, describe
from .proving import Answer, list_program
from .result import Comparison, JudgedPair, Kind, StepComparison, Tolerance, Verdict
from .sharding.sides import Sides

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from padiff.dumpfile import JSON, Floor, StepReader

    from .proving import Listing

__all__ = ["Attributes", "Detail", "Details", "FloorPoint", "Programs", "look_closer"]

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


def look_closer(
    reference: Path, candidate: Path, comparison: Comparison, *, limit: int = RECORDS
) -> Details:
    """Read what diverged once more and describe where the error is.

    Args:
        reference: The dump that was compared.
        candidate: The other one.
        comparison: What was found.
        limit: Records to look at.

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
    wanted = {(step, place) for _, step, place in chosen[:limit]}
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
    """Give the larger floor of each pair of which one is known."""
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
    """Give the attributes of all modules that have some, under one vocabulary."""
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
    described = describe(expected, found, pair.tolerance or Tolerance(atol=0.0, rtol=0.0))
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
    limits = pair.tolerance or Tolerance(atol=0.0, rtol=0.0)
    described = describe(matched.reference, matched.candidate, limits)
    mismatches = tuple(
        replace(one, index=_unraveled(int(matched.places[one.index[0]]), record.shape))
        for one in described.mismatches
    )
    spread = replace(described, heat=(), heat_shape=(0, 0), profiles=(), mismatches=mismatches)
    return Detail(step=position, pair=place, stride=1, spread=spread, sampled=True)


def _unraveled(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(axis) for axis in np.unravel_index(place, shape))


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
