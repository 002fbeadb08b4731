"""Which values between modules are other functions of the leaves, though the results are the same.

A scale that one form applies ahead of a border and another one behind it moves no result, and the
values at the border are no copies of each other for all that. That is another form on the way, and
no rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.dumpfile import DumpFormatError, Phase, ProgramError

from .executed import Runs, Sink

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.pairing import RecordPair
    from padiff.program import Leaf

    from .side import Side

_BYTES = 128 << 20
"""Elements of both sides, in float64, that are kept at a time."""


def other_borders(
    sides: tuple[Side, Side],
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    pairs: Iterable[RecordPair],
    numbers: tuple[Sequence[int], Sequence[int]],
) -> frozenset[tuple[int, int]]:
    """Return the values, and their gradients, that are other functions of the same leaves.

    Returns:
        Rows of the stored values of both sides.
    """
    found: set[tuple[int, int]] = set()
    sinks = [sink for pair in pairs for sink in _sinks(sides, pair, numbers)]
    for batch in _batches(sides, sinks):
        try:
            runs = Runs(sides, given, batch)
            other = [sink for sink in batch if not runs.agree(sink)]
        except (ProgramError, DumpFormatError):
            continue  # nobody knows
        for sink in other:
            found.update(_rows(sides, sink))
    return frozenset(found)


def _sinks(
    sides: tuple[Side, Side], pair: RecordPair, numbers: tuple[Sequence[int], Sequence[int]]
) -> Iterator[Sink]:
    """Yield what a pair of records of forward values asks for, unless it is one expression."""
    known, found = sides
    record = found.file.index.records[pair.candidate]
    values = [known.recorded.borders.get(one) for one in pair.reference]
    own = found.recorded.borders.get(pair.candidate)
    parts = [one for one in values if one in known.lowered.terms]
    is_known = own in found.lowered.terms and len(parts) == len(values) > 0
    if record.phase is not Phase.FORWARD or not is_known or pair.candidate_rule.steps:
        return
    assert own is not None
    first, *others = (one for one in parts if one is not None)
    sink = Sink(first, own, pair.rule, tuple(others))
    terms = known.lowered.terms[first], found.lowered.terms[own]
    if not (sink.is_plain and numbers[0][terms[0]] == numbers[1][terms[1]]):
        yield sink


def _batches(sides: tuple[Side, Side], sinks: Sequence[Sink]) -> Iterator[list[Sink]]:
    """Yield results that are kept at a time."""
    batch, size = list[Sink](), 0
    for sink in sinks:
        own = 16 * sides[1].lowered.specs[sides[1].lowered.terms[sink.candidate]].count
        if batch and size + own > _BYTES:
            yield batch
            batch, size = [], 0
        batch.append(sink)
        size += own
    if batch:
        yield batch


def _rows(sides: tuple[Side, Side], sink: Sink) -> Iterator[tuple[int, int]]:
    """Yield the rows of a value of both sides, and those of its gradient."""
    known, found = sides[0].recorded, sides[1].recorded
    for value in (sink.reference, *sink.others):
        pairs = (
            (known.row(value), found.row(sink.candidate)),
            (known.gradient_row(value), found.gradient_row(sink.candidate)),
        )
        yield from ((one, two) for one, two in pairs if one is not None and two is not None)
