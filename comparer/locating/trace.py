"""Follow an error back to where it began, below the tolerance that first noticed it.

A tolerance is absolute where values are small, so that an error can begin at one call, pass as
small there, and be noticed further on, where values are larger. The relative error tells: it is
followed along the data flow as long as what went in was about as wrong as what came out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from padiff.comparer.result import Verdict
from padiff.dumpfile import CALL_ROLES, Phase, Role
from padiff.program import UNIT_ROUNDOFF

from .backward import Faults
from .between import CONTAINERS
from .calltree import is_bad, relative_error
from .dataflow import Made

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from padiff.dumpfile import RecordInfo

    from .calltree import CallTree

__all__ = ["Beginning", "Trace", "trace_back"]

STEP = 4.0
"""What came out must be this many times as wrong as what went in for a fault to lie between."""
FLOAT32_ROUNDOFF = UNIT_ROUNDOFF["float32"]
SUMS = 16.0
"""Roundings of float32 that a sound call may gather in its sums, in relative L2."""
SAFETY = 2.0
"""An error within this many times the rounding of a sound call is no fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where an error began."""

    call: int
    """Reference call id."""
    error: float
    """Relative L2 error of what it made."""
    before: float
    """Largest of what it was made of."""
    suspects: tuple[int, ...] = ()
    """Calls that could each have made it, if there are several."""

    def __str__(self) -> str:
        """Give one line of evidence."""
        return (
            f"within the tolerance, and yet the error begins here: relative {self.error:.2g} out "
            f"of {self.before:.2g}; it passes the tolerance only further on"
        )


def trace_back(tree: CallTree, faults: Faults, phase: Phase) -> Faults:
    """Move origins to where their error began, where that is further up and plain to see.

    Args:
        tree: Judged pairs on the reference's calls.
        faults: The origins of one phase, by verdicts alone.
        phase: ``forward`` or ``backward``.
    """
    if not faults.origins:
        return faults
    trace = Trace(tree, faults.origins)
    is_forward = phase is Phase.FORWARD
    roles = (Role.INPUT, Role.OUTPUT) if is_forward else (Role.GRAD_OUTPUT, Role.GRAD_INPUT)
    follow = trace.forward if is_forward else trace.backward
    origins: set[int] = set()
    begun: dict[int, Beginning] = {}
    suspects = dict(faults.suspects)
    for origin in sorted(faults.origins):
        own = [*tree.bad(origin, *roles), *tree.bad_inside(origin, *roles)]
        if not is_forward:
            module = tree.reference.calls[origin].module
            gradients = tree.of_module(module, Role.WEIGHT_GRAD)
            own += [place for place, pair in gradients if is_bad(pair)]
        found = follow(origin, own)
        if found is None:
            origins.add(origin)
            continue
        if found.call in faults.origins:
            continue  # explained by that one
        origins.add(found.call)
        begun[found.call] = found
        if found.suspects:
            suspects[found.call] = tuple(sorted({tree.path(call) for call in found.suspects}))
    return Faults(origins=frozenset(origins), suspects=suspects, begun=begun)


def _sound_error(dtype: str) -> float:
    """Give the relative error, in L2, up to which what one call made shows no fault."""
    sums = 0.0 if dtype == "float64" else SUMS * FLOAT32_ROUNDOFF
    return SAFETY * (UNIT_ROUNDOFF.get(dtype, 0.0) + sums)


@dataclass(frozen=True, slots=True)
class _Behind:
    """What a tensor was made of."""

    maker: int | None
    """The call whose code made it or handed it on."""
    worst: RecordInfo | None
    """Of what that had, the most wrong."""
    error: float
    """Of the tensor itself."""
    is_step: bool = field(kw_only=True)
    """Whether that is so much larger that the fault lies between."""


class Trace:
    """Relative errors by value of the reference, and the walk along them."""

    def __init__(self, tree: CallTree, origins: Container[int]) -> None:
        """Collect the errors.

        Args:
            tree: Judged pairs on the reference's calls.
            origins: What diverged there explains what it led to below the tolerance.
        """
        self._origins = origins
        self._tree = tree
        self._flow = tree.reference_flow
        self._errors: dict[int, float] = {}
        self._noticed: set[int] = set()
        self._by_value: dict[int, float] = defaultdict(float)
        self._gradients: dict[tuple[int, Role], list[RecordInfo]] = defaultdict(list)
        self._consumers: dict[int, list[int]] = defaultdict(list)
        self._behind: dict[int, _Behind] = {}
        """By record: the ways back of many origins run together."""
        for pair, (known, _) in zip(tree.pairs, tree.records, strict=True):
            if pair.verdict in {Verdict.MATCH, Verdict.DIVERGED} and len(known) == 1:
                value, error = tree.reference.records[known[0]].value, relative_error(pair)
                self._errors[known[0]] = error
                if is_bad(pair):
                    self._noticed.add(known[0])
                if value is not None:
                    self._by_value[value] = max(self._by_value[value], error)
        for record in tree.reference.records:
            if record.call is not None and record.role in {Role.GRAD_INPUT, Role.GRAD_OUTPUT}:
                self._gradients[record.call, record.role].append(record)
                if record.role is Role.GRAD_INPUT and record.value is not None:
                    self._consumers[record.value].append(record.call)

    def forward(self, call: int, places: Iterable[int]) -> Beginning | None:
        """Find where the error of a forward origin began; None if at the origin itself.

        Args:
            call: The origin.
            places: Its pairs that diverged, or those inside it.
        """
        start = self._first(places)
        current, seen = start, set[int]()
        least = self._error(start) / STEP
        while current is not None and current.id not in seen:
            seen.add(current.id)
            behind = self._behind.get(current.id) or self._look_behind(current)
            if behind.maker is None or behind.error < least:
                return None
            if behind.is_step:
                return self._found(call, behind.maker, current, behind.worst)
            current = behind.worst
        return None

    def backward(self, call: int, places: Iterable[int]) -> Beginning | None:
        """Find where the error of a backward origin began; None if at the origin itself.

        Args:
            call: The origin.
            places: Its pairs that diverged, those inside it, and its weight gradients.
        """
        start = max((relative_error(self._tree.pairs[place]) for place in places), default=0.0)
        worst = self._worst(self._gradients.get((call, Role.GRAD_OUTPUT), ()))
        current, seen = worst, set[int]()
        while current is not None and current.id not in seen:
            seen.add(current.id)
            if self._error(current) * STEP < start:
                return None
            makers = self._makers(current)
            given = [
                record
                for maker in makers
                for record in self._gradients.get((maker, Role.GRAD_OUTPUT), ())
            ]
            worst = self._worst(given)
            if not makers or not given:
                return None
            if self._error(worst) * STEP < self._error(current):
                accused = self._accused(makers, current)
                if accused is None:
                    return None
                found = self._found(call, accused, current, worst)
                if found is None or makers == [accused]:
                    return found
                return replace(found, suspects=tuple(makers))
            current = worst
        return None

    def _look_behind(self, record: RecordInfo) -> _Behind:
        """Find what a tensor was made of, for all origins."""
        maker, given = self._made_of(record)
        worst, error = self._worst(given), self._error(record)
        found = _Behind(maker, worst, error, is_step=self._error(worst) * STEP < error)
        self._behind[record.id] = found
        return found

    def _made_of(self, record: RecordInfo) -> tuple[int | None, list[RecordInfo]]:
        """Give the call whose code made or handed on a tensor, and what it had; or nothing."""
        assert record.call is not None
        if record.role is Role.OUTPUT and record.call not in self._flow.inside:
            return record.call, self._flow.records(record.call, Role.INPUT)
        feed = self._flow.feed(record)
        if feed.made in {Made.CALL, Made.PASSED} and feed.source is not None:
            return feed.around, [self._tree.reference.records[feed.source]]
        if feed.made in {Made.GLUE, Made.MOVED}:
            assert feed.around is not None
            given = self._flow.ingredients(feed.around, record.order)
            return feed.around, [one for one in given if one.id != record.id]
        return None, []

    def _makers(self, record: RecordInfo) -> list[int]:
        """Give the innermost calls that a gradient came out of."""
        calls = set(self._consumers.get(-1 if record.value is None else record.value, ()))
        around = {parent for call in calls for parent in self._tree.ancestors(call)}
        return sorted(calls - around)

    def _accused(self, makers: list[int], record: RecordInfo) -> int | None:
        """Give the call whose fault a total gradient is: the one that it came out of, or around.

        A single call, unless the code around it may have used the tensor too and the call's own
        weight gradients are no worse than what came in.
        """
        tree = self._tree
        chains = [[one, *tree.ancestors(one)] for one in makers]
        common = (one for one in chains[0] if all(one in chain for chain in chains))
        if len(makers) > 1:
            return next(common, None)
        module = tree.reference.calls[makers[0]].module
        own = [relative_error(pair) for _, pair in tree.of_module(module, Role.WEIGHT_GRAD)]
        if max(own, default=0.0) * STEP >= self._error(record):
            return makers[0]
        users = set(self._consumers.get(-1 if record.value is None else record.value, ()))
        outer = (one for one in tree.ancestors(makers[0]) if not self._is_container(one))
        around = next(outer, None)
        is_given = around is not None and around in users
        return around if is_given or not self._is_made_by_a_call(makers[0], record) else makers[0]

    def _is_container(self, call: int) -> bool:
        module = self._tree.reference.calls[call].module
        return self._tree.reference.modules[module].class_name in CONTAINERS

    def _is_made_by_a_call(self, call: int, record: RecordInfo) -> bool:
        """Tell whether the input of a gradient is just what another call gave."""
        slots = {
            one.slot
            for one in self._gradients.get((call, Role.GRAD_INPUT), ())
            if one.value == record.value
        }
        given = [one for one in self._flow.records(call, Role.INPUT) if one.slot in slots]
        return bool(given) and all(self._flow.feed(one).made is Made.CALL for one in given)

    def _found(
        self, origin: int, maker: int, record: RecordInfo, given: RecordInfo | None
    ) -> Beginning | None:
        value = 0 if record.value is None else record.value
        dtype = self._tree.reference.values[value].dtype
        sound = _sound_error(dtype)
        error = self._error(record)
        known = next(
            (one for one in (maker, *self._tree.ancestors(maker)) if self._is_judged(one)), None
        )
        is_noticed = record.id in self._noticed and known not in self._origins
        if known is None or known == origin or error <= sound:
            return None
        if is_noticed or math.isinf(error):
            return None  # what diverged itself was looked at already
        return Beginning(call=known, error=error, before=self._error(given))

    def _is_judged(self, call: int) -> bool:
        """Tell whether a call was compared: one that only the reference has cannot be accused."""
        pairs = self._tree.of_call(call, *CALL_ROLES)
        return any(pair.metrics is not None or pair.equal_digest for _, pair in pairs)

    def _first(self, places: Iterable[int]) -> RecordInfo | None:
        """Give the earliest of some pairs that has a call and a value."""
        for place in sorted(places, key=self._tree.order):
            known = self._tree.records[place][0]
            record = self._tree.reference.records[known[0]] if known else None
            if record is not None and record.call is not None and record.value is not None:
                return record
        return None

    def _worst(self, records: Iterable[RecordInfo]) -> RecordInfo | None:
        return max(records, key=self._error, default=None)

    def _error(self, record: RecordInfo | None) -> float:
        """Give a record's relative error, that of its value where it was judged elsewhere."""
        if record is None or record.value is None:
            return 0.0
        by_value = self._by_value.get(record.value, 0.0)
        return self._errors.get(record.id, by_value)
