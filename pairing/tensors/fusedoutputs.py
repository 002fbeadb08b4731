"""Outputs that no pair of calls covers, but that pairs of weights do.

One author calls one layer where another calls several with parts of its weight, or has an attention
that computes its projections without calling them: no call corresponds, what they make does.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, RecordInfo, Role
from padiff.pairing.result import PairedBy, RecordPair
from padiff.pairing.rule import Rule
from padiff.pairing.steps import Step, Verb

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from padiff.pairing.result import Matching
    from padiff.pairing.view import View

_MATRIX = 2
_ROLES = (Role.OUTPUT, Role.GRAD_OUTPUT)


def pair_joined(
    reference: View, candidate: View, calls: Matching, weights: Iterable[RecordPair]
) -> list[RecordPair]:
    """Pair outputs whose modules' weights are joined or cut along the output features."""
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
