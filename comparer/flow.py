"""What went through a call: who fed it, how much error it added, whether it only moved data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.dumpfile import Role

from .result import Verdict
from .sharing import relative_error

if TYPE_CHECKING:
    from padiff.dumpfile import Index, RecordInfo, Statistics

    from .calltree import CallTree

__all__ = ["amplification", "feeders", "growth", "nonfinite_producers", "only_moves"]

DRIFT = 10.0
"""Up to this growth of the relative error within one call, it is passed on rather than made."""
_CLOSE = 1e-6


def amplification(tree: CallTree, call: int, entry: Role, leaving: Role) -> float | None:
    """Give the relative error of what left a call over that of what went in.

    Returns:
        inf if what went in is equal, None if one of the two was not measured or nothing differs.
    """
    before = [relative_error(p) for _, p in tree.of_call(call, entry) if _is_judged(p.verdict)]
    after = [relative_error(p) for _, p in tree.of_call(call, leaving) if _is_judged(p.verdict)]
    if not before or not after or not max(after):
        return None
    if not max(before):
        return math.inf
    ratio = max(after) / max(before)
    return None if math.isnan(ratio) else ratio


def growth(tree: CallTree, call: int, entry: Role, leaving: Role) -> tuple[str, ...]:
    """Say how the error grew within an origin, where what went in was not equal.

    A step (a fault) multiplies it; a drift (rounding that adds up) has grown before.
    """
    ratio = amplification(tree, call, entry, leaving)
    if ratio is None or math.isinf(ratio):
        return ()
    if ratio > DRIFT:
        return (f"the relative error grows {ratio:.3g} times here: a step",)
    drift = "it drifted up to the tolerance, which may be too tight"
    return (f"the relative error grows only {ratio:.3g} times here: {drift}",)


def feeders(tree: CallTree, call: int) -> tuple[str, ...]:
    """Say which calls gave the inputs of a reference call, and which inputs glue code made."""
    index = tree.reference
    start = index.calls[call].start
    made: dict[int, RecordInfo] = {}
    for record in index.records:
        if record.role is Role.OUTPUT and record.value is not None and record.order < start:
            made[record.value] = record
    root = {
        record.value
        for record in index.records
        if record.role is Role.INPUT
        and record.call is not None
        and index.calls[record.call].parent is None
    }
    lines = []
    for record in index.records:
        if record.call != call or record.role is not Role.INPUT or record.value is None:
            continue
        source = made.get(record.value)
        if source is not None:
            lines.append(f"input{record.slot} is {index.address(source)}")
        elif record.value not in root:
            lines.append(f"input{record.slot} was made between modules")
    return tuple(lines)


def nonfinite_producers(tree: CallTree, call: int) -> tuple[str, ...]:
    """Say on which sides a call makes nan or inf out of finite inputs."""
    lines = []
    for side in ("reference", "candidate"):
        ends = {
            role: [
                end.statistics.nonfinite
                for _, pair in tree.of_call(call, role)
                if (end := getattr(pair, side)) is not None and end.statistics is not None
            ]
            for role in (Role.INPUT, Role.OUTPUT)
        }
        if sum(ends[Role.OUTPUT]) and not sum(ends[Role.INPUT]):
            count = sum(ends[Role.OUTPUT])
            lines.append(f"makes nan or inf out of finite inputs on the {side} ({count} elements)")
    return tuple(lines)


def only_moves(tree: CallTree, call: int) -> bool:
    """Tell whether a call gives back the elements that it was given, on both sides, reordered.

    Known from the statistics: the same number of elements, extremes, zeros and norm.
    """
    sides = zip((tree.reference, tree.candidate), (0, 1), strict=True)
    return all(
        _moves(
            index,
            [records[number] for records in _records(tree, call, Role.INPUT)],
            [records[number] for records in _records(tree, call, Role.OUTPUT)],
        )
        for index, number in sides
    )


def _records(tree: CallTree, call: int, role: Role) -> list[tuple[int | None, int | None]]:
    places = (place for place, _ in tree.of_call(call, role))
    both = (tree.records[place] for place in places)
    return [(known[0] if known else None, found) for known, found in both]


def _moves(index: Index, given: list[int | None], back: list[int | None]) -> bool:
    known = [_statistics(index, record) for record in given]
    found = [_statistics(index, record) for record in back]
    return bool(found) and all(any(_same(one, other) for other in known) for one in found)


def _statistics(index: Index, record: int | None) -> tuple[int, Statistics] | None:
    if record is None:
        return None
    number = index.records[record].value
    return None if number is None else (index.values[number].size, index.values[number].statistics)


def _same(one: tuple[int, Statistics] | None, other: tuple[int, Statistics] | None) -> bool:
    if one is None or other is None or one[0] != other[0]:
        return False
    first, second = one[1], other[1]
    exact = (first.minimum, first.maximum, first.zeros, first.nonfinite)
    if exact != (second.minimum, second.maximum, second.zeros, second.nonfinite):
        return False
    sizes = first.l2 or 0.0, second.l2 or 0.0
    return abs(sizes[0] - sizes[1]) <= _CLOSE * max(sizes)


def _is_judged(verdict: Verdict) -> bool:
    return verdict in {Verdict.MATCH, Verdict.DIVERGED}
