"""Excuse values inside the model that lie at other places on the two sides, and come back right.

One author cuts a picture into windows before an attention, another inside of it; one sorts tokens
by the expert that takes them, another keeps their order. What such modules are given and give are
the same values at other places. That is no divergence where what the code around makes of it
agrees; where it does not, the order may be the fault, and stays one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judgedpairs import remarkable, replaced
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Content, Phase, Role

from .calltree import CallTree, is_bad
from .movedrecords import MOST_ELEMENTS, MovedRecords
from .rows import are_nearly, row_order
from .sharing import is_soft

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.comparer.judging.blocks import Array
    from padiff.comparer.judging.judge import Judgement
    from padiff.comparer.settings import CompareSettings
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Pairing, Side

__all__ = ["excuse_moved", "moved_notes"]

MOVED = "the same values at other places"
REASON = f"{MOVED}, and what comes of them agrees"
NEARLY = f"{MOVED}, and nearly the same comes of them"
FEW = 4
"""What differs, and what is moved before it, that is looked at to tell whether it is nearly right,
each from the nearest on."""
SEEN = 2.0
"""Times the tolerance, what a call made must differ from what it was given to say anything."""
_FORWARD = (Role.INPUT, Role.OUTPUT)
_BACKWARD = (Role.GRAD_OUTPUT, Role.GRAD_INPUT)


def excuse_moved(
    judgement: Judgement,
    pairing: Pairing,
    sides: tuple[Side, Side],
    settings: CompareSettings,
    *,
    phase: Phase,
) -> Judgement:
    """Skip diverged records that hold the same values at other places, if they come back right.

    Forward, a call and those that take what it gives are followed, out of the calls around if
    need be, until the code around has made something new of it: that must agree, and nothing on
    the way may differ otherwise. Backward, a gradient is excused where the tensors of its call
    were, and no other gradient in there is off.

    Args:
        judgement: All verdicts.
        pairing: Which calls and modules are partners.
        sides: Reference and candidate.
        settings: When a difference counts.
        phase: ``forward``, or ``backward`` once the forward phase was looked at.
    """
    sought = MovedRecords(judgement, sides, settings).places(phase)
    if not sought:
        return judgement
    tree = CallTree(judgement, pairing, sides[0].index, sides[1].index)
    ways = _Ways(tree, sides, sought) if phase is Phase.FORWARD else None
    excused: dict[int, JudgedPair] = {}
    for place in sorted(sought, key=tree.order):
        pair = judgement.pairs[place]
        call = None if pair.reference is None else pair.reference.call
        if call is None:
            continue
        if ways is None:
            reason = REASON if _is_clean_back(tree, call, sought) else ""
        else:
            reason = ways.reason(call)
        if reason:
            excused[place] = replace(pair, verdict=Verdict.SKIPPED, fatal=False, reason=reason)
    return replace(judgement, pairs=replaced(judgement.pairs, excused))


def moved_notes(pairs: Sequence[JudgedPair]) -> tuple[str, ...]:
    """Say of a step how many records lie at other places, if any."""
    notes = []
    for reason in (REASON, NEARLY):
        told = remarkable(pairs)
        found = [pair.reference for _, pair in told if pair.reason == reason and pair.reference]
        if found:
            first = min(found, key=lambda end: end.order)
            many = f"{len(found)} records hold" if len(found) > 1 else "1 record holds"
            notes.append(f"{many} {reason}: first at {first.address}")
    return tuple(notes)


@dataclass(slots=True)
class _Way:
    """Calls one after the other through which moved values go, and what they gave."""

    start: int
    """Execution order: what was there then was not made on the way."""
    calls: list[int]
    made: set[int] = field(default_factory=set)
    """Values that the calls gave."""
    stops: list[int] = field(default_factory=list)
    """Places of what diverged otherwise, where the way ended at that; earliest first."""
    out: int | None = None
    """A call around that the way comes out of, and of which it is known what comes of it."""


class _Ways:
    """Follows moved values forward until something is made of them that is at its place again."""

    def __init__(self, tree: CallTree, sides: tuple[Side, Side], moved: frozenset[int]) -> None:
        self._tree = tree
        self._sides = sides
        self._moved = moved
        self._reasons: dict[int, str] = {}
        self._first: dict[int, RecordInfo] = {}
        """The first record of each value."""
        self._judged: dict[int, int] = {}
        """By value, a place at which it matches, else one at which it diverged."""
        for record in tree.reference.records:
            if record.role in _FORWARD and record.value is not None:
                known = self._first.setdefault(record.value, record)
                if record.order < known.order:
                    self._first[record.value] = record
        for place, pair in enumerate(tree.pairs):
            end = pair.reference
            if end is None or end.address.role not in _FORWARD or end.call is None:
                continue
            if pair.verdict is Verdict.MATCH or is_bad(pair):
                for value in tree.values(place):
                    if pair.verdict is Verdict.MATCH or value not in self._judged:
                        self._judged[value] = place

    def reason(self, call: int) -> str:
        """Say why what a call inside the model was given or gives at other places is right.

        Returns:
            ``REASON`` if it comes back to its place; ``NEARLY`` if what comes of it is off, but so
            little that its order is right; empty if that is open.
        """
        around = next((one for one in self._tree.ancestors(call) if self._reasons.get(one)), None)
        if around is not None:
            return self._reasons[around]
        if call not in self._reasons:
            way = _Way(start=self._tree.reference.calls[call].start, calls=[])
            answer = self._take(way, call)
            if answer is None:
                answer = self._follow(way, call)
            reason = REASON if answer else ""
            if way.out is not None:
                reason = self._reasons[way.out]
            elif not answer and self._is_nearly_right(way):
                reason = NEARLY
            self._reasons.update(dict.fromkeys(way.calls, reason))
        return self._reasons[call]

    def _is_nearly_right(self, way: _Way) -> bool:
        """Tell whether what differs first, put in the order of what is moved, is a little off."""
        moved = {
            place
            for call in way.calls
            for place in (
                *self._tree.bad(call, *_FORWARD),
                *self._tree.bad_inside(call, *_FORWARD),
            )
            if place in self._moved
        }
        for stop in way.stops[:FEW]:
            before = [place for place in moved if self._tree.order(place) < self._tree.order(stop)]
            for place in sorted(before, key=self._tree.order, reverse=True)[:FEW]:
                given, made = self._arrays(place), self._arrays(stop)
                order = None if given is None else row_order(*given)
                if order is not None and made is not None and are_nearly(*made, order):
                    return True
        return False

    def _arrays(self, place: int) -> tuple[Array, Array] | None:
        """Read both sides of a pair as they were recorded, if each is one whole tensor."""
        known, found = self._tree.records[place]
        if found is None or len(known) != 1:
            return None
        arrays = []
        for side, number in zip(self._sides, (known[0], found), strict=True):
            record = side.index.records[number]
            value = None if record.value is None else side.index.values[record.value]
            if value is None or value.content is not Content.FULL or value.size > MOST_ELEMENTS:
                return None
            arrays.append(side.array(record))
        return arrays[0], arrays[1]

    def _take(self, way: _Way, call: int) -> bool | None:
        """Go through a call.

        Returns:
            Whether what it gives is at its place again, False if anything else differs in it;
            None if the way goes on.
        """
        way.calls.append(call)
        tree = self._tree
        bad = [*tree.bad(call, *_FORWARD), *tree.bad_inside(call, *_FORWARD)]
        others = set(bad) - self._moved
        if others:
            way.stops += sorted(others, key=tree.order)
            return False
        given = self._given(call)
        way.made |= {record.value for record in given if record.value is not None}
        return self._decide(way, given)

    def _given(self, call: int) -> list[RecordInfo]:
        return self._tree.reference_flow.records(call, Role.OUTPUT)

    def _is_new(self, way: _Way, record: RecordInfo) -> bool:
        """Tell whether a value was not there before."""
        return record.value is not None and self._first[record.value].order > way.start

    def _follow(self, way: _Way, call: int) -> bool:
        """Follow what was made so far, in the code around and then out of that."""
        tree = self._tree
        around = tree.reference.calls[call].parent
        while around is not None:
            inside = tree.children[around]
            for later in inside[inside.index(call) + 1 :]:
                entering = list(self._entering(way, later))
                answer = self._decide(way, entering)
                if answer is None and any(self._is_moved(way, one) for one in entering):
                    answer = self._take(way, later)
                if answer is not None:
                    return answer
            if around in self._reasons:
                way.out = around
                return False
            answer = self._take(way, around)
            if answer is not None:
                return answer
            if not any(self._is_new(way, one) for one in self._given(around)):
                return False  # nothing came of it
            call, around = around, tree.reference.calls[around].parent
        return False

    def _entering(self, way: _Way, call: int) -> Iterator[RecordInfo]:
        """Yield what a call is given that was made on the way, and by no call beside it."""
        for record in self._tree.reference_flow.records(call, Role.INPUT):
            if record.value in way.made:
                yield record
            elif record.value is not None and self._is_new(way, record):
                first = self._first[record.value]
                if first.role is Role.INPUT or self._is_inside(way, first.call):
                    yield record

    def _is_inside(self, way: _Way, call: int | None) -> bool:
        """Tell whether a call is inside one on the way."""
        around = () if call is None else self._tree.ancestors(call)
        return any(one in way.calls for one in around)

    def _decide(self, way: _Way, records: Sequence[RecordInfo]) -> bool | None:
        """Tell whether one of some records agrees and says something, False if one diverged."""
        places = [self._judged.get(one.value) for one in records if one.value is not None]
        known = [place for place in places if place is not None and place not in self._moved]
        bad = [place for place in known if is_bad(self._tree.pairs[place])]
        if bad:
            way.stops += bad
            return False
        told = {self._says_something(way, place) for place in known}
        return True if True in told else False if False in told else None

    def _is_moved(self, way: _Way, record: RecordInfo) -> bool:
        place = self._judged.get(record.value or 0)
        return place in self._moved or (place is None and record.value in way.made)

    def _says_something(self, way: _Way, place: int) -> bool | None:
        """Tell whether a match is of more than nearly what was there before.

        Returns:
            None of what was there before itself, and of constants.
        """
        tree = self._tree
        record = tree.reference.records[tree.records[place][0][0]]
        if record.value is None or not self._is_new(way, record):
            return None
        known = tree.reference.values[record.value].statistics
        if known.minimum is None or known.minimum == known.maximum:
            return None
        around = tree.reference.calls[way.calls[-1]].parent
        earlier = [] if around is None else tree.reference_flow.records(around, Role.INPUT)
        return not any(
            self._is_nearly(tree.pairs[place], record, given)
            for given in earlier
            if given.value is not None and given.value != record.value
        )

    def _is_nearly(self, pair: JudgedPair, record: RecordInfo, given: RecordInfo) -> bool:
        """Tell whether a value differs so little from an earlier one that it says nothing."""
        if prod(record.shape) != prod(given.shape) or pair.tolerance is None:
            return False
        values = (self._sides[0].index.values[one.value or 0] for one in (record, given))
        if any(one.content is not Content.FULL for one in values):
            return True
        known, old = (self._sides[0].array(one).reshape(-1) for one in (record, given))
        allowed = pair.tolerance.atol + pair.tolerance.rtol * np.abs(known)
        return bool((np.abs(known - old) <= SEEN * allowed).all())


def _is_clean_back(tree: CallTree, call: int, sought: frozenset[int]) -> bool:
    """Tell whether tensors of a call were excused, and no other gradient in there is off.

    The total gradient of what code between modules makes may differ all the same: ``sharing``.
    """
    excused = [
        one
        for one in (call, *tree.ancestors(call))
        if any(pair.reason.startswith(MOVED) for _, pair in tree.of_call(one, *_FORWARD))
    ]
    if not excused:
        return False
    outer = excused[-1]
    bad = {*tree.bad(outer, *_BACKWARD), *tree.bad_inside(outer, *_BACKWARD)} - sought
    if not all(is_soft(tree.pairs[place]) for place in bad):
        return False
    path = tree.path(outer)
    return not any(
        is_bad(pair)
        for module in tree.modules_with(Role.WEIGHT_GRAD)
        if f"{tree.reference.modules[module].path}.".startswith(f"{path}.")
        for _, pair in tree.of_module(module, Role.WEIGHT_GRAD)
    )
