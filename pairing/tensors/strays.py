"""Values that no pair of calls covers: what several calls make together, and equal elements.

One author has one rotary module for all layers and another one for each, one calls a module where
another calls a function and leaves its result to be met by the next module: no call corresponds,
the values do. Such a pair says only that nothing was lost; where values diverged there is none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import CALL_ROLES, DumpError, Phase, RecordInfo, Role
from padiff.pairing.result import PairedBy, RecordPair
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.steps import Step, Verb

from .layout import layouts_between
from .repeated import find_repetition, may_repeat
from .sampled import Elements, distance, elements_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from padiff.pairing.result import Matching
    from padiff.pairing.view import View

_MATRIX = 2
_ROLES = (Role.OUTPUT, Role.GRAD_OUTPUT)


def pair_joined(
    reference: View, candidate: View, calls: Matching, weights: Iterable[RecordPair]
) -> list[RecordPair]:
    """Pair outputs whose modules' weights are joined or cut along the output features.

    Args:
        reference: One side.
        candidate: The other.
        calls: The paired calls; their outputs are left as they are.
        weights: The pairs of weights; the first word of their rule is the rule of the outputs.
    """
    found: list[RecordPair] = []
    for pair in weights:
        if not pair.rule.steps:
            continue
        record = candidate.records[pair.candidate]
        if record.role is not Role.WEIGHT or record.phase is not Phase.FORWARD:
            continue
        first = _fusing(pair.rule)
        if first.verb not in {Verb.CONCAT, Verb.INTERLEAVE, Verb.ROWS, Verb.GROUPS} or first.axis:
            continue
        if len(record.shape) == _MATRIX:
            found += _outputs(reference, candidate, calls, pair)
    uses = Counter(one.candidate for one in found)
    return [one for one in found if uses[one.candidate] == 1]


def _fusing(rule: Rule) -> Step:
    """Return the step that joins or cuts: the first, or the one after a turn of the weight."""
    is_turned = rule.steps[0].verb is Verb.TRANSPOSE and len(rule.steps) > 1
    return rule.steps[is_turned]


def pair_packed(
    reference: View, candidate: View, calls: Matching, weights: Iterable[RecordPair]
) -> list[RecordPair]:
    """Pair the output of an attention with that of the projection that ends one of several layers.

    torch's attention computes its projections without calling them; what comes out of it comes out
    of another author's last projection.
    """
    parts: tuple[dict[int, set[int]], dict[int, set[int]]] = ({}, {})
    if not any("attention" in view.kinds for view in (reference, candidate)):
        return []
    attentions = _attentions(reference), _attentions(candidate)
    for pair in weights:
        record = candidate.records[pair.candidate]
        if record.role is Role.WEIGHT and record.phase is Phase.FORWARD:
            for one in pair.reference:
                module = reference.records[one].module
                both = (module, record.module), (record.module, module)
                for (mine, theirs), outer, found_in in zip(both, attentions, parts, strict=True):
                    packed = outer[mine]
                    if packed is not None:
                        found_in.setdefault(packed, set()).add(theirs)
    found: list[RecordPair] = []
    for packed, layers in parts[0].items():
        ends = _ends(reference, packed, calls.ahead, candidate, layers, calls.back)
        found += [
            _same(*pair) for one, two in ends for pair in _alike(reference, one, candidate, two)
        ]
    for packed, layers in parts[1].items():
        ends = _ends(candidate, packed, calls.back, reference, layers, calls.ahead)
        found += [
            _same(*pair) for two, one in ends for pair in _alike(reference, one, candidate, two)
        ]
    return found


def _attentions(view: View) -> list[int | None]:
    """Return for each module the attention that it is or is in, None where that did not run."""
    nearest: list[int | None] = []
    for module in view.modules:
        outer = None if module.parent is None else nearest[module.parent]
        nearest.append(module.id if view.kinds[module.id] == "attention" else outer)
    return [None if one is None or not view.executed[one] else one for one in nearest]


def _ends(
    view: View,
    packed: int,
    taken: Container[int],
    other: View,
    layers: set[int],
    others_taken: Container[int],
) -> list[tuple[int, int]]:
    """Pair the calls of an attention with those of the layer that ran last of its parts."""
    ran = view.executed[packed]
    times = [other.executed[layer] for layer in layers]
    if any(call in taken for call in ran) or {len(calls) for calls in times} != {len(ran)}:
        return []
    last = max(times)
    return [] if any(call in others_taken for call in last) else list(zip(ran, last, strict=True))


def _alike(
    reference: View, one: int, candidate: View, two: int
) -> Iterator[tuple[RecordInfo, RecordInfo]]:
    for role in _ROLES:
        mine, theirs = reference.select(one, role)[:1], candidate.select(two, role)[:1]
        for known, found in zip(mine, theirs, strict=False):
            is_both = known.value is not None and found.value is not None
            if is_both and prod(known.shape) == prod(found.shape):
                yield known, found


def _same(known: RecordInfo, found: RecordInfo) -> RecordPair:
    return RecordPair(
        reference=(known.id,),
        candidate=found.id,
        paired_by=PairedBy.FLOW,
        note="the last projection of a packed attention",
    )


def _outputs(
    reference: View, candidate: View, calls: Matching, pair: RecordPair
) -> Iterator[RecordPair]:
    modules = [reference.records[record].module for record in pair.reference]
    other = candidate.records[pair.candidate].module
    ran = [reference.executed[module] for module in modules]
    if {len(times) for times in ran} != {len(candidate.executed[other])}:
        return
    for number, call in enumerate(candidate.executed[other]):
        sources = [times[number] for times in ran]
        if call in calls.back or any(source in calls.ahead for source in sources):
            continue
        yield from _inputs(reference, sources, candidate, call, pair)
        for role in _ROLES:
            mine = [reference.select(source, role) for source in sources]
            theirs = candidate.select(call, role)
            if len(theirs) == 1 and all(len(records) == 1 for records in mine):
                made = _as_fused([records[0] for records in mine], theirs[0], pair)
                yield from () if made is None else (made,)


def _inputs(
    reference: View, sources: Sequence[int], candidate: View, call: int, pair: RecordPair
) -> Iterator[RecordPair]:
    """Pair what a fused layer and the split ones are given, where that is one value."""
    given = [reference.select(source, Role.INPUT) for source in sources]
    theirs = candidate.select(call, Role.INPUT)
    if any(len(records) != 1 for records in (*given, theirs)):
        return
    mine = [records[0] for records in given]
    is_one = len({record.value for record in mine}) == 1 and mine[0].value is not None
    if is_one and theirs[0].value is not None and mine[0].shape == theirs[0].shape:
        yield RecordPair(
            reference=(mine[0].id,),
            candidate=theirs[0].id,
            paired_by=pair.paired_by,
            note="as the weights are fused",
        )


def _as_fused(
    mine: Sequence[RecordInfo], theirs: RecordInfo, pair: RecordPair
) -> RecordPair | None:
    if theirs.value is None or any(record.value is None for record in mine) or not theirs.shape:
        return None
    rule = Rule((_along(_fusing(pair.rule), len(theirs.shape) - 1),))
    if not rule.fits([record.shape for record in mine], theirs.shape):
        return None
    return RecordPair(
        reference=tuple(record.id for record in mine),
        candidate=theirs.id,
        paired_by=pair.paired_by,
        rule=rule,
        note="as the weights are fused",
    )


def _along(step: Step, axis: int) -> Step:
    """Return the step of the weights' rows for the last axis of the outputs."""
    if step.verb is Verb.CONCAT:
        return Step(Verb.CONCAT, (axis,))
    groups = 1 if step.verb is Verb.ROWS else step.numbers[0]
    if step.verb is Verb.INTERLEAVE:
        return Step(Verb.INTERLEAVE, (groups, axis))
    return Step(Verb.GROUPS, (groups, axis), step.block)


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
    """Pair what is left of the values of calls by their elements, forward and backward apart."""
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
        """Return the few that have about the same extremes, best first."""
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
