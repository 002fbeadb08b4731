"""Values that no pair of calls covers on either side, paired where their elements are the same.

One author has one rotary module for all layers and another one for each, one calls a module where
another calls a function and leaves its result to be met by the next module: no call corresponds,
the values do. Such a pair says only that nothing was lost; where values diverged there is none.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import CALL_ROLES, DumpError, RecordInfo, Role
from padiff.pairing.result import PairedBy, RecordPair
from padiff.pairing.rule import IDENTITY, Rule

from .layout import distance, layouts_between
from .repeated import find_repetition, may_repeat
from .sampled import Elements, elements_of
from .sketch import is_telling

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
        lows = [stray.low for stray in theirs]
        taken: set[int] = set()
        for stray in mine if theirs else ():
            for place in _near(stray, theirs, lows):
                rule = None if place in taken else _rule(reference, stray, candidate, theirs[place])
                if rule is not None:
                    taken.add(place)
                    found.append(_pair(stray, theirs[place], rule))
                    break
    return found


def _strays(view: View, judged: Container[int | None], *, is_backward: bool) -> list[_Stray]:
    """List the distinct floating values without a pair by their minimum; constants tell nothing."""
    found: dict[int, _Stray] = {}
    for record in view.records:
        if record.role not in CALL_ROLES or (record.role in _BACKWARD) is not is_backward:
            continue
        value = record.value
        is_root = record.call is None or view.calls[record.call].parent is None
        if value is None or is_root or value in judged:
            continue
        info = view.values[value]
        low, high = info.statistics.minimum, info.statistics.maximum
        if low is None or high is None or not is_telling(info.statistics):
            continue
        is_better = value in found and found[value].record.role is Role.INPUT
        is_output = record.role in {Role.OUTPUT, Role.GRAD_OUTPUT}
        if "float" in info.dtype and (value not in found or (is_better and is_output)):
            found[value] = _Stray(record, low, high)
    return sorted(found.values(), key=lambda stray: (stray.low, stray.record.id))


def _near(stray: _Stray, others: Sequence[_Stray], lows: Sequence[float]) -> Iterator[int]:
    """Give the few strays of the other side that have about the same extremes, best first."""
    slack = _SAME * (abs(stray.low) + abs(stray.high))
    start = bisect_left(lows, stray.low - slack)
    close: list[tuple[float, int]] = []
    for place in range(start, len(others)):
        if lows[place] > stray.low + slack:
            break
        gap = abs(others[place].high - stray.high)
        if gap <= slack:
            close.append((gap + abs(lows[place] - stray.low), place))
    for _, place in sorted(close)[:_MAX_TRIED]:
        yield place


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
