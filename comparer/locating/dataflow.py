"""Recover from the digests which call fed which, and where code between modules made a value.

A record's value is known by its digest. A call's input that equals what an earlier call gave came
from there; one that equals nothing recorded was made by the code of the module around, between
the calls inside it (an addition, a softmax, a mask): *glue*.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.dumpfile import Index, RecordInfo

NEVER = 1 << 62
"""Execution order of what did not happen: a call that never returned."""
NEAR = 16
"""Calls before a tensor among whose outputs its elements are looked for, in another order."""


class Source(StrEnum):
    """Where a tensor came from."""

    CALL = "call"
    """It is what an earlier call gave, bit by bit; its shape may be another."""
    PASSED = "passed"
    """It is what a call around was given."""
    STATE = "state"
    """It is a weight or a buffer."""
    MOVED = "moved"
    """Glue only moved elements: a transpose, a flip. Known by equal statistics."""
    GLUE = "glue"
    """The code of the module around made it."""
    GIVEN = "given"
    """It came from outside the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """Where one input of a call, or one output of a call with calls inside, came from."""

    record: int
    """Id of the record."""
    made: Source
    source: int | None = None
    """Id of the record that it equals, or whose elements were moved."""
    around: int | None = None
    """Id of the call whose code ran; None outside any call."""
    after: int | None = None
    """Id of the last call that this code had made before; None if it had made none."""
    before: int | None = None
    """Id of the call that it made next; None if it returned."""


def _order(record: RecordInfo) -> int:
    return record.order


def _last(outputs: Sequence[RecordInfo], until: int) -> RecordInfo | None:
    """Return the last of some outputs that came earlier; those of one call came at once."""
    count = bisect_left(outputs, until, key=_order)
    return outputs[count - 1] if count else None


class Flow:
    """The data flow of one step of one side, read from its index alone."""

    def __init__(self, index: Index) -> None:
        """Sort the forward records by call and by value."""
        self.index = index
        self.inside: dict[int | None, list[int]] = defaultdict(list)
        """Calls by the call around, in execution order."""
        self._of_call: dict[tuple[int, Role], list[RecordInfo]] = defaultdict(list)
        self._outputs: dict[int, list[RecordInfo]] = defaultdict(list)
        """By value, in execution order."""
        self._made_in: dict[tuple[int, int | None], list[RecordInfo]] = defaultdict(list)
        """The same by the call whose code received them, too."""
        self._given: dict[tuple[int, int], RecordInfo] = {}
        """The first input of a call that holds a value."""
        self._states: dict[int, RecordInfo] = {}
        for call in index.calls:
            self.inside[call.parent].append(call.id)
        for record in index.records:
            self._sort(record)
        for outputs in (*self._outputs.values(), *self._made_in.values()):
            outputs.sort(key=_order)

    def _sort(self, record: RecordInfo) -> None:
        if record.call is not None and record.role in {Role.INPUT, Role.OUTPUT}:
            self._of_call[record.call, record.role].append(record)
            if record.value is not None and record.role is Role.OUTPUT:
                self._outputs[record.value].append(record)
                self._made_in[record.value, self._parent(record.call)].append(record)
            elif record.value is not None:
                self._given.setdefault((record.call, record.value), record)
        elif record.role in {Role.WEIGHT, Role.BUFFER} and record.value is not None:
            self._states.setdefault(record.value, record)

    def records(self, call: int, role: Role) -> list[RecordInfo]:
        """Return the inputs or outputs of a call, in the order of recording."""
        return self._of_call.get((call, role), [])

    def feeds(self) -> Iterator[Feed]:
        """Yield what fed every input, and every output of a call with calls inside, in order."""
        found = []
        for call in self.index.calls:
            found += [self.feed(record) for record in self.records(call.id, Role.INPUT)]
            if call.id in self.inside:
                found += [self.feed(record) for record in self.records(call.id, Role.OUTPUT)]
        yield from sorted(found, key=lambda feed: self.index.records[feed.record].order)

    def feed(self, record: RecordInfo) -> Feed:
        """Return where an input of a call came from, or an output of a call with calls inside."""
        assert record.call is not None
        call = self.index.calls[record.call]
        is_input = record.role is Role.INPUT
        around = call.parent if is_input else call.id
        if around is None:
            return Feed(record=record.id, made=Source.GIVEN)
        known = self._equal(record, around)
        if known is not None:
            made, source = known
            return Feed(record=record.id, made=made, source=source.id, around=around)
        until = call.start if is_input else self._end(record.call)
        earlier = self._before(around, until, most=NEAR)
        moved = self._reordered_from(record, around, earlier)
        return Feed(
            record=record.id,
            made=Source.GLUE if moved is None else Source.MOVED,
            source=None if moved is None else moved.id,
            around=around,
            after=earlier[-1] if earlier else None,
            before=call.id if is_input else None,
        )

    def ingredients(self, around: int, until: int) -> list[RecordInfo]:
        """Return what the code of a call had at hand: its inputs, and what its calls gave so far.

        Args:
            around: The call whose code it is.
            until: Execution order before which.
        """
        return [
            *self.records(around, Role.INPUT),
            *(
                record
                for call in self._before(around, until)
                for record in self.records(call, Role.OUTPUT)
            ),
        ]

    def _before(self, around: int, until: int, *, most: int = NEVER) -> list[int]:
        """Return the last calls in the code of a call that had returned; they run in turn."""
        calls = self.inside.get(around, [])
        count = bisect_left(calls, until, key=self._end)
        return calls[max(count - most, 0) : count]

    def _equal(self, record: RecordInfo, around: int) -> tuple[Source, RecordInfo] | None:
        """Find the record with the same value that came last."""
        value = record.value
        if value is None:
            return None
        # a wrapper's output is its child's: the nearest in the same code says most
        near = self._made_in.get((value, around), ())
        made = _last(near, record.order) or _last(self._outputs.get(value, ()), record.order)
        if made is not None:
            return Source.CALL, made
        outer: int | None = around
        while outer is not None:
            given = self._given.get((outer, value))
            if given is not None:
                return Source.PASSED, given
            outer = self.index.calls[outer].parent
        state = self._states.get(value)
        return None if state is None else (Source.STATE, state)

    def _reordered_from(
        self, record: RecordInfo, around: int, earlier: list[int]
    ) -> RecordInfo | None:
        given = [
            *self.records(around, Role.INPUT),
            *(one for call in earlier for one in self.records(call, Role.OUTPUT)),
        ]
        return next((one for one in reversed(given) if is_reordered(self.index, one, record)), None)

    def _end(self, call: int | None) -> int:
        """Return when a call returned; long after all else if it never did."""
        end = None if call is None else self.index.calls[call].end
        return NEVER if end is None else end

    def _parent(self, call: int | None) -> int | None:
        return None if call is None else self.index.calls[call].parent


_CLOSE = 1e-6
"""Relative difference of two sums of the same elements, added in another order."""
_FEW = 2
"""Elements from which statistics say anything."""


def is_reordered(index: Index, source: RecordInfo, target: RecordInfo) -> bool:
    """Return whether two records hold the same elements, as far as statistics tell.

    The same number of elements, extremes, zeros, sum and norm. Constant tensors say too little:
    those count only where they are equal bit by bit.
    """
    if source.value is None or target.value is None:
        return False
    one, other = index.values[source.value], index.values[target.value]
    if one.digest == other.digest:
        return True
    known, found = one.statistics, other.statistics
    if one.size < _FEW or known.minimum is None or known.minimum == known.maximum:
        return False
    exact = [
        (value.dtype, value.size, counts.minimum, counts.maximum, counts.zeros, counts.nonfinite)
        for value, counts in ((one, known), (other, found))
    ]
    if exact[0] != exact[1]:
        return False
    norm = max(known.l2 or 0.0, found.l2 or 0.0)
    largest = math.sqrt(one.size) * norm  # bounds the sum (Cauchy-Schwarz)
    total = abs((known.mean or 0.0) - (found.mean or 0.0)) * (one.size - known.nonfinite)
    is_near = abs((known.l2 or 0.0) - (found.l2 or 0.0)) <= _CLOSE * norm
    return is_near and total <= _CLOSE * largest
