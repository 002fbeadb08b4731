"""Values that no pair of calls covers on either side, paired where their elements are the same.

One author has one rotary module for all layers and another one for each, one calls a module where
another calls a function and leaves its result to be met by the next module: no call corresponds,
the values do. Such a pair says only that nothing was lost; where values diverged there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import CALL_ROLES, DumpError, RecordInfo, Role
from padiff.pairing.result import PairedBy, RecordPair
from padiff.pairing.rule import IDENTITY, Rule

from .layout import layouts_between
from .repeated import find_repetition, may_repeat
from .sampled import Elements, distance, elements_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from padiff.pairing.view import View

__all__ = ["pair_strays"]

_SAME = 1e-3
"""Relative distance up to which two values that nothing else connects are one."""
_MAX_TRIED = 6
"""So many values of the other side are looked at for each, those of nearest extremes."""
_BACKWARD = frozenset({Role.GRAD_INPUT, Role.GRAD_OUTPUT})


@dataclass(frozen=True, slots=True)
class _Stray:
    """A value without a pair, and the first record that shows it."""

    record: RecordInfo
    low: float
    high: float


def pair_strays(reference: View, candidate: View, pairs: Sequence[RecordPair]) -> list[RecordPair]:
    """Pair what is left of the values of calls by their elements, forward and backward apart.

    Args:
        reference: One side.
        candidate: The other.
        pairs: What is paired already.
    """
    judged = (
        {reference.records[record].value for pair in pairs for record in pair.reference},
        {candidate.records[pair.candidate].value for pair in pairs},
    )
    found = []
    for is_backward in (False, True):
        mine = _strays(reference, judged[0], is_backward=is_backward)
        theirs = _strays(candidate, judged[1], is_backward=is_backward)
        others = _Extremes(theirs)
        taken: set[int] = set()
        for stray in mine if theirs else ():
            for place in others.near(stray):
                rule = None if place in taken else _rule(reference, stray, candidate, theirs[place])
                if rule is not None:
                    taken.add(place)
                    found.append(_pair(stray, theirs[place], rule))
                    break
    return found


def _strays(view: View, judged: Container[int | None], *, is_backward: bool) -> list[_Stray]:
    """List the distinct floating values without a pair by their minimum; constants tell nothing."""
    left = [value for value in range(len(view.values)) if value not in judged]
    open_ = {one for one in left if view.telling[one] and "float" in view.values[one].dtype}
    found: dict[int, _Stray] = {}
    for record in view.records if open_ else ():
        value = record.value
        if value is None or value not in open_ or record.role not in CALL_ROLES:
            continue
        is_root = record.call is None or view.calls[record.call].parent is None
        if is_root or (record.role in _BACKWARD) is not is_backward:
            continue
        statistics = view.values[value].statistics
        low, high = statistics.minimum, statistics.maximum
        if low is None or high is None:
            continue
        is_better = value in found and found[value].record.role is Role.INPUT
        is_output = record.role in {Role.OUTPUT, Role.GRAD_OUTPUT}
        if value not in found or (is_better and is_output):
            found[value] = _Stray(record, low, high)
    return sorted(found.values(), key=lambda stray: (stray.low, stray.record.id))


class _Extremes:
    """The extremes of the strays of one side, each in ascending order."""

    def __init__(self, strays: Sequence[_Stray]) -> None:
        self._numbers = np.array([(stray.low, stray.high) for stray in strays]).reshape(-1, 2)
        self._orders = [self._numbers[:, axis].argsort(kind="stable") for axis in (0, 1)]
        self._sorted = [self._numbers[order, axis] for axis, order in enumerate(self._orders)]

    def near(self, stray: _Stray) -> list[int]:
        """Give the few that have about the same extremes, best first."""
        slack = _SAME * (abs(stray.low) + abs(stray.high))
        own = stray.low, stray.high
        spans = [
            (
                int(np.searchsorted(ascending, number - slack)),
                int(np.searchsorted(ascending, number + slack, side="right")),
            )
            for ascending, number in zip(self._sorted, own, strict=True)
        ]
        axis = min((0, 1), key=lambda one: spans[one][1] - spans[one][0])
        places = np.sort(self._orders[axis][slice(*spans[axis])])
        with np.errstate(invalid="ignore"):  # infinite less infinite is near to nothing
            gaps = np.abs(self._numbers[places] - own)
            is_near = (gaps <= slack).all(axis=1)
        places, away = places[is_near], gaps[is_near].sum(axis=1)
        return [int(place) for place in places[away.argsort(kind="stable")[:_MAX_TRIED]]]


def _rule(reference: View, one: _Stray, candidate: View, two: _Stray) -> Rule | None:
    shapes = one.record.shape, two.record.shape
    is_repeat = prod(shapes[0]) != prod(shapes[1])
    if is_repeat and not may_repeat(*shapes):
        return None
    try:
        mine = elements_of(reference.side, one.record)
        theirs = elements_of(candidate.side, two.record)
    except DumpError:
        return None
    if mine is None or theirs is None:
        return None
    return next(
        (rule for rule in _rules(mine, theirs) if distance(rule, mine, theirs) <= _SAME), None
    )


def _rules(one: Elements, two: Elements) -> Iterator[Rule]:
    if prod(one.shape) != prod(two.shape):
        if one.positions is None and two.positions is None:
            found = find_repetition(*(each.values.reshape(each.shape) for each in (one, two)))
            if found is not None:
                yield found.values
    elif [size for size in one.shape if size != 1] == [size for size in two.shape if size != 1]:
        yield IDENTITY if one.shape == two.shape else Rule.parse("reshape")
    else:
        yield from layouts_between(one.shape, two.shape)


def _pair(one: _Stray, two: _Stray, rule: Rule) -> RecordPair:
    return RecordPair(
        reference=(one.record.id,),
        candidate=two.record.id,
        paired_by=PairedBy.VALUE,
        rule=rule,
        note="the same elements; no call corresponds",
    )
