"""Skip masks that are other values on the two sides where nothing that comes of them differs.

One library adds -inf to the scores of an attention, another one -10000, a third adds that to the
position bias before it hands it on, a fourth hands on booleans: the tensors differ, and all that
take them give the same. That is no divergence between two models whose trees differ; where both
have the same structure, it stays one. Other tensors are not skipped: a norm hides the scale of what
it is given, and a wrong scale is a fault all the same.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import remarkable
from padiff.comparer.result import JudgedPair, Verdict
from padiff.dumpfile import Phase, Role, is_floating

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from padiff.comparer.judging.judge import Judgement
    from padiff.dumpfile import Index, ValueInfo

__all__ = ["mask_notes", "skip_masks"]

REASON = "masks or positions of another form on each side, and nothing that comes of them differs"
BAD = frozenset({Verdict.DIVERGED, Verdict.INCOMPARABLE})
MASKED = -1e3
"""What is added to a score to mask it is at most that: -10000, the least float, -inf."""
_ROLES = frozenset({Role.INPUT, Role.OUTPUT})
Values = tuple[int | None, int | None]
"""What both sides have: ids of values."""


def skip_masks(
    judgement: Judgement, reference: Index, candidate: Index, *, same_structure: bool
) -> Judgement:
    """Skip diverged masks, if a call that takes or makes them gives the same.

    Of nothing but zeros one that takes them must. What the model itself takes or gives is skipped
    only where it is booleans on one side and numbers to add on the other.

    Args:
        judgement: All verdicts.
        reference: The reference's index.
        candidate: The candidate's.
        same_structure: Whether both sides have the same calls, so that all is to be equal.
    """
    groups: dict[Values, list[int]] = defaultdict(list)
    for place, pair in remarkable(judgement.pairs):
        known, found = judgement.records[place]
        if pair.verdict not in BAD or len(known) != 1 or found is None:
            continue
        values = reference.records[known[0]].value, candidate.records[found].value
        sides = ((reference, values[0]), (candidate, values[1]))
        is_other_kind = _is_flags_against_numbers(pair, sides)
        is_open = not same_structure and _is_inside(pair, reference)
        if is_other_kind or (is_open and any(_is_mask(*side) for side in sides)):
            groups[values].append(place)
    if not groups:
        return judgement
    masks = {place for group in groups.values() for place in group}
    agree = _calls_that_agree(judgement, masks)
    takers: dict[int | None, set[int | None]] = defaultdict(set)
    for record in reference.records:
        if record.role in _ROLES:
            takers[record.value].add(record.call)
    pairs = list(judgement.pairs)
    for values, group in groups.items():
        taking = _taking(pairs, group)
        is_idle = _is_idle(reference, values[0]) or _is_idle(candidate, values[1])
        # Zeros may be a state that is not carried on: what makes it agrees all the same.
        if agree.isdisjoint(taking if is_idle and taking else takers[values[0]]):
            continue
        for place in group:
            skipped = replace(pairs[place], verdict=Verdict.SKIPPED, fatal=False, reason=REASON)
            pairs[place] = skipped
    return replace(judgement, pairs=tuple(pairs))


def _taking(pairs: Sequence[JudgedPair], places: Iterable[int]) -> set[int | None]:
    """Give the reference's calls that take what some pairs judge."""
    ends = [end for place in places if (end := pairs[place].reference) is not None]
    return {end.call for end in ends if end.address.role is Role.INPUT}


def mask_notes(pairs: Sequence[JudgedPair]) -> tuple[str, ...]:
    """Say of a step how many masks were skipped, if any."""
    told = remarkable(pairs)
    found = [pair.reference for _, pair in told if pair.reason == REASON and pair.reference]
    if not found:
        return ()
    first = min(found, key=lambda end: end.order)
    many = f"{len(found)} records hold" if len(found) > 1 else "1 record holds"
    return (f"{many} {REASON}: first at {first.address}",)


def _is_inside(pair: JudgedPair, reference: Index) -> bool:
    end = pair.reference
    return (
        end is not None
        and end.call is not None
        and end.address.role in _ROLES
        and end.address.phase is Phase.FORWARD
        and reference.calls[end.call].parent is not None
    )


def _is_flags_against_numbers(
    pair: JudgedPair, sides: tuple[tuple[Index, int | None], tuple[Index, int | None]]
) -> bool:
    """Return whether it is an input of booleans on one side, of numbers that mask on the other."""
    ends = pair.reference, pair.candidate
    if any(end is None or end.address.role is not Role.INPUT for end in ends):
        return False
    values = [index.values[value] for index, value in sides if value is not None]
    flags = [value for value in values if value.dtype == "bool"]
    return len(flags) == 1 and any(map(_is_masking, values))


def _is_mask(index: Index, value: int | None) -> bool:
    """Tell whether it holds what is no activation: no floats, what masks, or nothing but zeros."""
    if value is None:
        return False
    found = index.values[value]
    if not is_floating(found.dtype):
        return True
    return _is_masking(found) or _is_idle(index, value)


def _is_masking(value: ValueInfo) -> bool:
    """Return whether it holds numbers that mask the scores that they are added to."""
    least = value.statistics.minimum
    is_low = bool(value.statistics.neginf) or (least is not None and least <= MASKED)
    return is_low and is_floating(value.dtype)


def _is_idle(index: Index, value: int | None) -> bool:
    """Tell whether it holds nothing but zeros."""
    if value is None:
        return False
    statistics = index.values[value].statistics
    return statistics.minimum == statistics.maximum == 0


def _calls_that_agree(judgement: Judgement, masks: Iterable[int]) -> set[int | None]:
    """Give the reference's calls of whose outputs something was judged, and all agrees.

    Args:
        judgement: All verdicts.
        masks: Places of the pairs that are asked about: some calls hand on a mask.
    """
    skipped = set(masks)
    good: set[int | None] = set()
    bad: set[int | None] = set()
    for place, pair in enumerate(judgement.pairs):
        end = pair.reference
        if end is None or end.address.role is not Role.OUTPUT or place in skipped:
            continue
        if pair.verdict is Verdict.MATCH:
            good.add(end.call)
        elif pair.verdict in BAD or pair.fatal:
            bad.add(end.call)
    return good - bad
