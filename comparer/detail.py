"""Look closer at what diverged: how the error is spread, on both sides' elements.

Only for reports that show it: the dumps are read again, a bounded number of records, and of each
a bounded number of elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumpfile import Index, StepFile, open_dump
from padiff.pairing import Rule

from .result import Comparison, JudgedPair, Kind, StepComparison, Tolerance, Verdict
from .spread import Histogram, Mismatch, Profile, describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from padiff.dumpfile import JSON

__all__ = ["Attributes", "Detail", "Details", "look_closer"]

RECORDS = 200
"""Diverged records that are looked at, origins first."""
ELEMENTS = 1 << 22
"""Elements of one record that are looked at; of larger ones every so many-th along one axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One diverged record, looked at closely."""

    step: int
    """Position among the compared steps."""
    pair: int
    """Position among the step's pairs."""
    stride: int
    """Every so many-th index of the longest axis was looked at."""
    histogram: Histogram | None
    """None where no element is finite."""
    heat: tuple[tuple[float, ...], ...]
    """Largest absolute differences of the tensor folded to two axes; inf where only one side is
    finite."""
    heat_shape: tuple[int, int]
    """What it was folded to, before it was made smaller."""
    profiles: tuple[Profile, ...]
    mismatches: tuple[Mismatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """How the two modules of a tree row are configured."""

    step: int
    """Position among the compared steps."""
    row: int
    reference: Mapping[str, JSON]
    candidate: Mapping[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What a page shows besides the verdicts."""

    records: tuple[Detail, ...]
    attributes: tuple[Attributes, ...]
    left_out: int
    """Diverged records that were not looked at."""


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
    known, found = open_dump(reference), open_dump(candidate)
    chosen = sorted(
        (
            (pair.kind is not Kind.ORIGIN, step, place)
            for step, compared in enumerate(comparison.steps)
            for place, pair in enumerate(compared.pairs)
            if pair.verdict is Verdict.DIVERGED and pair.metrics is not None and not pair.is_partial
        )
    )
    wanted = {(step, place) for _, step, place in chosen[:limit]}
    records: list[Detail] = []
    attributes: list[Attributes] = []
    for position, step in enumerate(comparison.steps):
        with known.open(step.step, step.rank) as one, found.open(step.step, step.rank) as two:
            attributes += _attributes(position, step, one.index, two.index)
            records += [
                _detail(position, place, step, one, two)
                for place in range(len(step.pairs))
                if (position, place) in wanted and step.records
            ]
    return Details(
        records=tuple(records), attributes=tuple(attributes), left_out=len(chosen) - len(records)
    )


def _attributes(
    position: int, step: StepComparison, reference: Index, candidate: Index
) -> Iterator[Attributes]:
    """Give the attributes of all modules that have some."""
    sides = [
        {module.path: module.attributes for module in index.modules}
        for index in (reference, candidate)
    ]
    for row in step.tree:
        mine = {} if row.reference is None else sides[0].get(row.reference, {})
        theirs = {} if row.candidate is None else sides[1].get(row.candidate, {})
        if mine or theirs:
            yield Attributes(step=position, row=row.id, reference=mine, candidate=theirs)


def _detail(
    position: int, place: int, step: StepComparison, reference: StepFile, candidate: StepFile
) -> Detail:
    pair = step.pairs[place]
    expected, found, stride = _arrays(pair, step.records[place], reference, candidate)
    described = describe(expected, found, pair.tolerance or Tolerance(atol=0.0, rtol=0.0))
    reference.release_pages()
    candidate.release_pages()
    return Detail(
        step=position,
        pair=place,
        stride=stride,
        histogram=described.histogram,
        heat=described.heat,
        heat_shape=described.heat_shape,
        profiles=described.profiles,
        mismatches=described.mismatches,
    )


def _arrays(
    pair: JudgedPair,
    records: tuple[tuple[int, ...], int | None],
    reference: StepFile,
    candidate: StepFile,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], int]:
    """Read both sides in the candidate's shape, thinned out where they are large."""
    record = candidate.index.records[records[1] or 0]
    parts = [reference.array(reference.index.records[known]) for known in records[0]]
    rule = Rule.parse(pair.layout or "identity")
    expected, found = rule.apply(parts, record.shape), candidate.array(record)
    size = math.prod(record.shape)
    if size <= ELEMENTS:
        return expected, found, 1
    axis = int(np.argmax(record.shape))
    stride = min(-(-size // ELEMENTS), record.shape[axis])
    take = tuple(
        slice(None, None, stride) if each == axis else slice(None)
        for each in range(len(record.shape))
    )
    return expected[take], found[take], stride
