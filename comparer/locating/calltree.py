"""The judged pairs of one step, hung on the reference's tree of calls."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from padiff.comparer.facts.attributes import attribute_differences
from padiff.comparer.judgedpairs import remarkable
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Phase, Role

from .dataflow import Flow
from .readers import Readers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from padiff.comparer.facts.attributes import AttributeDifference
    from padiff.comparer.judging.judge import Judgement
    from padiff.dumpfile import RecordInfo
    from padiff.pairing import Pairing, Side

    from .fed import Fed


_FORWARD = (Role.INPUT, Role.OUTPUT)


_BAD = frozenset({Verdict.DIVERGED, Verdict.INCOMPARABLE})


def is_bad(pair: JudgedPair) -> bool:
    """Return whether a pair shows a divergence."""
    return pair.fatal or pair.verdict in _BAD


def relative_error(pair: JudgedPair) -> float:
    """Return how far a pair is off, relative to its size; inf where it is absent or nan."""
    if pair.equal_digest:
        return 0.0
    if pair.metrics is None or pair.metrics.relative_l2 is None:
        return math.inf if is_bad(pair) else 0.0
    return math.inf if pair.metrics.nonfinite_mismatched else pair.metrics.relative_l2


@dataclass(frozen=True, slots=True)
class _Places:
    """Places of pairs by what they hang on."""

    of_call: dict[tuple[int, Role], list[int]] = field(default_factory=lambda: defaultdict(list))
    of_module: dict[tuple[int, Role], list[int]] = field(default_factory=lambda: defaultdict(list))
    updates: list[int] = field(default_factory=list)


def is_told(pair: JudgedPair) -> bool:
    """Return whether anything is known of how a record and its counterpart compare."""
    return pair.covered or None not in (pair.reference, pair.candidate)


class CallTree:
    """Judged pairs by reference call and role, and by reference module for what has no call.

    What only the candidate has hangs on the partner of its call or module, or on that of the
    nearest container that has one.
    """

    def __init__(
        self,
        judgement: Judgement,
        pairing: Pairing,
        sides: tuple[Side, Side],
        *,
        fed: Fed,
    ) -> None:
        """Sort the pairs of a judgement."""
        self.frameworks = sides[0].framework, sides[1].framework
        """For the vocabulary of attributes."""
        self.is_one_framework = self.frameworks[0] == self.frameworks[1]
        self.fed_phases = fed.phases
        """Phases in which each call of the candidate is judged by itself."""
        self.reference, self.candidate = reference, candidate = sides[0].index, sides[1].index
        self.readers = Readers(sides[0]), Readers(sides[1])
        """What reads the values of each side."""
        self.pairs = judgement.pairs
        self.records = judgement.records
        self.partner_module = {pair.reference: pair.candidate for pair in pairing.modules}
        self.partner_call = {pair.reference: pair.candidate for pair in pairing.calls}
        self._call_around = _partners_around(
            {pair.candidate: pair.reference for pair in pairing.calls},
            [call.parent for call in candidate.calls],
        )
        alone = fed.calls_unfed(candidate)
        has_food = {pair.reference for pair in pairing.calls if pair.candidate not in alone}
        self.unfed = {call.id for call in reference.calls} - has_food
        """Reference calls whose partner ran unfed, or that have none; of use in a fed run."""
        self._module_around = _partners_around(
            {pair.candidate: pair.reference for pair in pairing.modules},
            [module.parent for module in candidate.modules],
        )
        self.calls_of: dict[int, list[int]] = defaultdict(list)
        self.children: dict[int | None, list[int]] = defaultdict(list)
        for call in reference.calls:
            self.calls_of[call.module].append(call.id)
            self.children[call.parent].append(call.id)
        self._bad = {place for place, pair in remarkable(self.pairs) if is_bad(pair)}
        self._bad_values = {value for place in self._bad for value in self.values(place)}

        self._add_spoiled()

    @cached_property
    def _places(self) -> _Places:
        """Return the places of all pairs, sorted once that is asked for: where anything is bad."""
        found = _Places()
        for place, pair in enumerate(self.pairs):
            self._hang(found, place, pair)
        return found

    @property
    def updates(self) -> list[int]:
        """Return the places of the pairs of the phase ``update``, which hang on nothing."""
        return self._places.updates

    @cached_property
    def reference_flow(self) -> Flow:
        """Return which call of the reference fed which."""
        return Flow(self.reference)

    @cached_property
    def candidate_flow(self) -> Flow:
        """Return which call of the candidate fed which."""
        return Flow(self.candidate)

    def of_call(self, call: int, *roles: Role) -> Iterator[tuple[int, JudgedPair]]:
        """Yield (place, pair) of a reference call, role by role."""
        for role in roles:
            for place in self._places.of_call.get((call, role), ()):
                yield place, self.pairs[place]

    def of_module(self, module: int, *roles: Role) -> Iterator[tuple[int, JudgedPair]]:
        """Yield (place, pair) of what belongs to a reference module and to no call."""
        for role in roles:
            for place in self._places.of_module.get((module, role), ()):
                yield place, self.pairs[place]

    def modules_with(self, *roles: Role) -> list[int]:
        """Return the modules that own pairs of these roles, ascending."""
        return sorted({module for module, role in self._places.of_module if role in roles})

    @property
    def has_bad(self) -> bool:
        """Return whether any pair diverged."""
        return bool(self._bad)

    def bad(self, call: int, *roles: Role) -> list[int]:
        """Return the places of a call's diverged pairs, earliest first."""
        if not self._bad:
            return []
        found = [place for place, _ in self.of_call(call, *roles) if place in self._bad]
        return sorted(found, key=self.order)

    def bad_inside(self, call: int, *roles: Role) -> list[int]:
        """Return the places of the diverged pairs of all calls inside a call, earliest first."""
        places, waiting = [], list(self.children.get(call, ()))
        while waiting:
            current = waiting.pop()
            places += self.bad(current, *roles)
            waiting += self.children.get(current, ())
        return sorted(places, key=self.order)

    def tainted(self, call: int, role: Role) -> list[int]:
        """Return the places of what diverged at a call, or holds a value that diverged elsewhere.

        A call that only the reference has is judged by its values: they may be paired at the
        address of another call.
        """
        if not self._bad:
            return []
        return [
            place
            for place, pair in self.of_call(call, role)
            if place in self._bad
            or (pair.candidate is None and not self._bad_values.isdisjoint(self.values(place)))
        ]

    def diverged_uses(self, call: int) -> list[tuple[int, int]]:
        """Return the outputs of a paired module's call that are judged, and diverged, as inputs.

        A container that holds other things than its partner has outputs that are not judged at
        its own address but as what the next call was given.

        Returns:
            The place of each output without counterpart, and of the pair that judged its value.
        """
        has_partner = self.reference.calls[call].module in self.partner_module
        if not (self._bad and has_partner):
            return []
        return [
            (place, judged)
            for place, pair in self.of_call(call, Role.OUTPUT)
            if pair.covered
            for judged in {self._judged_bad.get(value) for value in self.values(place)}
            if judged is not None
        ]

    @cached_property
    def _judged_bad(self) -> dict[int, int]:
        """Return by value of the reference where it first diverged as a call's input."""
        found: dict[int, int] = {}
        for place in sorted(self._bad, key=self.order, reverse=True):
            known, other = self.pairs[place].reference, self.pairs[place].candidate
            if known is None or other is None or known.address.role is not Role.INPUT:
                continue
            found.update(dict.fromkeys(self.values(place), place))
        return found

    def counterpart(self, call: int) -> int | None:
        """Return the candidate's call that does a reference call's job, as far as is known.

        Its partner; without one, the call of as many before of the partner of its module.
        """
        found = self.partner_call.get(call)
        module = self.partner_module.get(self.reference.calls[call].module)
        if found is not None or module is None:
            return found
        return self._numbered.get((module, self.reference.calls[call].index))

    def counterpart_module(self, call: int) -> int | None:
        """Return the candidate's module that does a reference call's job: not always the same."""
        found = self.counterpart(call)
        if found is not None:
            return self.candidate.calls[found].module
        return self.partner_module.get(self.reference.calls[call].module)

    @cached_property
    def _numbered(self) -> dict[tuple[int, int], int]:
        """Return the candidate's calls that are no partners, by module and number."""
        paired = set(self.partner_call.values())
        calls = self.candidate.calls
        return {(one.module, one.index): one.id for one in calls if one.id not in paired}

    def candidate_records(self, call: int, role: Role) -> list[int]:
        """Return the ids of the records of a candidate's call."""
        return self._candidate_records.get((call, role), [])

    @cached_property
    def _candidate_records(self) -> dict[tuple[int, Role], list[int]]:
        found: dict[tuple[int, Role], list[int]] = defaultdict(list)
        for record in self.candidate.records:
            if record.call is not None:
                found[record.call, record.role].append(record.id)
        return found

    def judged_elsewhere(self, place: int) -> int | None:
        """Return the first pair that diverged with a value of a record without counterpart."""
        found = (self._bad_by_value.get(value) for value in self.values(place))
        return next((judged for judged in found if judged is not None), None)

    @cached_property
    def _bad_by_value(self) -> dict[int, int]:
        """Return by value of the reference the first place at which it diverged."""
        found: dict[int, int] = {}
        for place in sorted(self._bad, key=self.order, reverse=True):
            if None not in (self.pairs[place].reference, self.pairs[place].candidate):
                found.update(dict.fromkeys(self.values(place), place))
        return found

    def ends(self, place: int) -> tuple[RecordInfo | None, RecordInfo | None]:
        """Return the records of a pair: the reference's (first of several), the candidate's."""
        known, found = self.records[place]
        return (
            self.reference.records[known[0]] if known else None,
            None if found is None else self.candidate.records[found],
        )

    def differing_settings(self, module: int, partner: int) -> tuple[AttributeDifference, ...]:
        """Return the settings in which a reference module and its partner differ."""
        return attribute_differences(
            self.reference.modules[module],
            self.candidate.modules[partner],
            frameworks=self.frameworks,
        )

    def order(self, place: int) -> int:
        """Return the execution order of a pair on the reference, or the candidate's if alone."""
        return self.pairs[place].end.order

    def ancestors(self, call: int) -> Iterator[int]:
        """Yield the calls around a call, innermost first."""
        parent = self.reference.calls[call].parent
        while parent is not None:
            yield parent
            parent = self.reference.calls[parent].parent

    def path(self, call: int) -> str:
        """Return the module path of a reference call."""
        return self.reference.modules[self.reference.calls[call].module].path

    def values(self, place: int) -> list[int]:
        """Return the reference's values of a pair."""
        values = (self.reference.records[record].value for record in self.records[place][0])
        return [value for value in values if value is not None]

    def _add_spoiled(self) -> None:
        """Count values that nothing judges as bad, if made by calls in which something diverged.

        A container that holds more than its partner has outputs without counterpart where they
        are not nearly equal: what a fault inside made of them must not be taken for sound.
        """
        if not self._bad_values:
            return
        judged = {
            value
            for place, pair in enumerate(self.pairs)
            if pair.verdict is Verdict.MATCH
            for value in self.values(place)
        }
        alone = [
            (place, pair.reference.call)
            for place, pair in enumerate(self.pairs)
            if pair.candidate is None and pair.reference is not None
            if pair.reference.address.role is Role.OUTPUT and pair.reference.call is not None
        ]
        for call in range(len(self.reference.calls)):
            # Inputs of other sizes have no counterpart, where the outputs are of other sizes too.
            out = [self.pairs[place].verdict for place in self.bad(call, Role.OUTPUT)]
            if Verdict.INCOMPARABLE in out:
                for place, pair in self.of_call(call, Role.INPUT):
                    if pair.candidate is None:
                        self._bad_values |= set(self.values(place)) - judged
        for place, call in sorted(alone, key=lambda one: self.order(one[0])):
            if self.bad_inside(call, *_FORWARD) or self.tainted(call, Role.INPUT):
                self._bad_values |= set(self.values(place)) - judged

    def _hang(self, found: _Places, place: int, pair: JudgedPair) -> None:
        if pair.end.address.phase is Phase.UPDATE:
            found.updates.append(place)
            return
        if pair.reference is not None:
            call, module = pair.reference.call, pair.reference.module
            role = pair.reference.address.role
        elif pair.candidate is not None:
            known_call = pair.candidate.call
            call = None if known_call is None else self._call_around[known_call]
            module = self._module_around[pair.candidate.module] or 0
            role = pair.candidate.address.role
            if call is None and pair.candidate.call is not None:
                return
        else:
            return
        if call is not None:
            found.of_call[call, role].append(place)
        else:
            found.of_module[module, role].append(place)


def _partners_around(
    partners: Mapping[int, int], parents: Iterable[int | None]
) -> list[int | None]:
    """Return for each node its partner, or that of the nearest node around it that has one."""
    found: list[int | None] = []
    for node, parent in enumerate(parents):
        found.append(partners.get(node, None if parent is None else found[parent]))
    return found


def earliest(orders: Iterable[int | None]) -> int | None:
    """Return the smallest of the known orders, None if none is known."""
    return min((order for order in orders if order is not None), default=None)
