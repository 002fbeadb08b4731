"""One call for a whole batch against several calls, each for a part of it.

One author runs a tower once over all frames of a video, or over both pictures of a pair, another
once for each: what the many are given and give are the parts of what the one is given and gives,
one after the other along an axis or in turns. A decoder's frames may go through a prenet at once,
the last one too, which no step of the loop looks at: of one whole some parts may be without a call.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import CALL_ROLES, Content, RecordInfo, Role
from padiff.pairing.result import PairedBy, RecordPair
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.steps import Step, Verb

from .layout import is_promised
from .sampled import EQUAL, distance, elements_of_both

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.pairing.result import Matching, ModulePair
    from padiff.pairing.view import View

Shape = tuple[int, ...]
MOST_CALLS = 64
"""More calls than that for one of the other side are not looked into."""
_ROLES = tuple(sorted(CALL_ROLES))
_MAIN = (Role.INPUT, Role.OUTPUT)


@dataclass(frozen=True, slots=True)
class _Form:
    """How the parts lie in the whole: once that is cut, along an axis of their own."""

    axis: int

    def cut(self, part: Shape, count: int) -> Shape:
        """Return the shape of the whole with an axis of its own for the parts."""
        return (*part[: self.axis], count, *part[self.axis :])

    def is_of(self, whole: Shape, part: Shape, used: int) -> bool:
        """Return whether that axis stands alone in the whole, or is joined to one beside it.

        Args:
            whole: A shape.
            part: Another.
            used: How many calls there are; where the whole has more parts, it stands alone.
        """
        count = _count(whole, part)
        if count < used:
            return False
        cut = self.cut(part, count)
        if count > used:
            return whole == cut
        joined = (
            (*cut[:first], cut[first] * cut[first + 1], *cut[first + 2 :])
            for first in (self.axis, self.axis - 1)
            if 0 <= first < len(part)
        )
        return whole == cut or whole in joined

    def picks(self, part: Shape, count: int, number: int) -> Rule:
        """Return the rule from the whole to one part."""
        turned = (self.axis, *(axis for axis in range(len(part) + 1) if axis != self.axis))
        permuted = (Step(Verb.PERMUTE, turned),) if self.axis else ()
        return Rule(
            (Step(Verb.RESHAPE, self.cut(part, count)), *permuted, Step(Verb.TAKE, (number,)))
        )

    def joins(self, part: Shape) -> Rule:
        """Return the rule from all parts to the whole."""
        order = (*range(1, self.axis + 1), 0, *range(self.axis + 1, len(part) + 1))
        permuted = (Step(Verb.PERMUTE, order),) if self.axis else ()
        return Rule((Step(Verb.STACK), *permuted, Step(Verb.RESHAPE)))


def _count(whole: Shape, part: Shape) -> int:
    """Return how many parts a whole has; 0 if its size is no multiple of theirs."""
    size = prod(part)
    return 0 if not size or prod(whole) % size else prod(whole) // size


@dataclass(frozen=True, slots=True)
class _Group:
    """A call for the whole, those for its parts in execution order, and which part each is."""

    whole: int
    parts: tuple[int, ...]
    form: _Form
    numbers: tuple[int, ...]


def with_batches(
    reference: View,
    candidate: View,
    modules: Iterable[ModulePair],
    calls: Matching,
    pairs: Sequence[RecordPair],
) -> list[RecordPair]:
    """Pair what a call is given and gives with the parts of it that several calls have.

    Returns:
        All pairs, without those of a whole with one of its parts.
    """
    views = reference, candidate
    made: list[RecordPair] = []
    for is_turned in (False, True):
        big, small = (candidate, reference) if is_turned else views
        open_ = []
        for pair in modules:
            ends = pair.reference, pair.candidate
            runs = big.executed[ends[is_turned]], small.executed[ends[not is_turned]]
            partners = calls.back if is_turned else calls.ahead
            if _may_be_parts(big, small, *runs) and _is_free(runs, partners):
                open_.append(runs)
        for group in _groups(big, small, open_):
            made += _records(big, small, group, is_turned=is_turned)
    if not made:
        return list(pairs)
    taken = {one for pair in made for one in pair.reference}, {pair.candidate for pair in made}
    kept = [
        pair
        for pair in pairs
        if pair.candidate not in taken[1] and taken[0].isdisjoint(pair.reference)
    ]
    return kept + made


def _may_be_parts(big: View, small: View, wholes: Sequence[int], parts: Sequence[int]) -> bool:
    """Return whether a module ran a whole number of times for each run of the other, on parts.

    Once where a part alone is used: a head looks at the last token only, or at all.
    """
    if not wholes or len(parts) % len(wholes):
        return False
    count = len(parts) // len(wholes)
    if not 1 <= count <= MOST_CALLS:
        return False
    whole = big.main(wholes[0], Role.OUTPUT)
    part = small.main(parts[0], Role.OUTPUT)
    if whole is None or part is None:
        return False
    if count == 1:
        if whole.shape == part.shape or is_promised((big.side, small.side), whole, part):
            return False
        return _count(whole.shape, part.shape) > 1 and bool(_forms(whole.shape, part.shape, 1))
    is_all = len(wholes) == 1 or _count(whole.shape, part.shape) == count
    return is_all and bool(_forms(whole.shape, part.shape, count))


def _is_free(runs: tuple[Sequence[int], Sequence[int]], partners: dict[int, int]) -> bool:
    """Return whether no call of the whole is the partner of another module's call."""
    return all(partners.get(call, runs[1][0]) in runs[1] for call in runs[0])


def _forms(whole: Shape, part: Shape, count: int) -> list[_Form]:
    """List how parts of a shape may lie in the whole."""
    forms = map(_Form, range(len(part) + 1))
    return [form for form in forms if form.is_of(whole, part, count)]


def _groups(
    big: View, small: View, runs: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Iterator[_Group]:
    """Find which calls are the parts of which, by their elements, or as most others of the kind."""
    usual: Counter[tuple[int, _Form, tuple[int, ...]]] = Counter()
    left = []
    for wholes, parts in runs:
        count = len(parts) // len(wholes)
        for at, whole in enumerate(wholes):
            found = _of_one(big, small, whole, parts[at]) if count == 1 else None
            for own in (parts[at :: len(wholes)], parts[at * count : (at + 1) * count]):
                if found is None and count > 1:
                    found = _by_elements(big, small, whole, tuple(own))
            if found is None and count > 1:
                left.append((whole, tuple(parts[at :: len(wholes)])))
            elif found is not None:
                usual[count, found.form, found.numbers] += 1
                yield found
    for whole, own in left:
        for (count, form, numbers), _ in usual.most_common():
            if count == len(own):
                yield _Group(whole, own, form, numbers)
                break


def _by_elements(big: View, small: View, whole: int, parts: tuple[int, ...]) -> _Group | None:
    for role in _MAIN:
        known = big.main(whole, role)
        own = [small.main(part, role) for part in parts]
        if known is None or None in own:
            continue
        found = [one for one in own if one is not None]
        if len({one.shape for one in found}) != 1:
            return None
        for form in _forms(known.shape, found[0].shape, len(parts)):
            numbers: list[int] = []
            for one in found:
                number = _number((big, small), known, one, form, len(numbers))
                if number in {-1, *numbers}:
                    break
                numbers.append(number)
            if len(numbers) < len(parts):
                continue
            return _Group(whole, parts, form, tuple(numbers))
    return None


def _of_one(big: View, small: View, whole: int, part: int) -> _Group | None:
    """Find the part of a whole that a call has, where nothing comes of all others.

    Which that is the gradient alone tells, where there is one: a part that is another one on the
    other side then shows.
    """
    made, own = big.main(whole, Role.OUTPUT), small.main(part, Role.OUTPUT)
    if made is None or own is None:
        return None
    gradients = [
        record
        for record in big.select(whole, Role.GRAD_OUTPUT)
        if record.value is not None and record.shape == made.shape
    ]
    if not gradients:
        return _by_elements(big, small, whole, (part,))
    if big.values[gradients[0].value or 0].content is not Content.FULL:
        return None
    if _count(made.shape, own.shape) == 1:
        return None  # it is all that the other one gives
    filled = big.side.array(gradients[0]) != 0
    for form in _forms(made.shape, own.shape, 1):
        others = tuple(axis for axis in range(filled.ndim) if axis != form.axis)
        (used,) = np.nonzero(filled.any(axis=others))
        if len(used) == 1:
            return _Group(whole, (part,), form, (int(used[0]),))
    return None


def _number(
    views: tuple[View, View],
    whole: RecordInfo,
    part: RecordInfo,
    form: _Form,
    likely: int,
) -> int:
    """Return which part of a whole a tensor is, the likely one if that is equal; -1 if it is none.

    A loop often begins with zeros, which are the likely part if there are zeros, too.
    """
    if whole.value is None or part.value is None:
        return -1
    both = elements_of_both((views[0].side, views[1].side), whole, part)
    if both is None:
        return -1
    count = _count(whole.shape, part.shape)
    order = [likely, *(number for number in range(count) if number != likely)]
    values = [view.values[one.value or 0] for view, one in zip(views, (whole, part), strict=True)]
    is_zero = values[1].statistics.minimum == values[1].statistics.maximum == 0
    if is_zero and values[0].content is Content.FULL:
        made = form.picks(part.shape, count, likely).apply([views[0].side.array(whole)], part.shape)
        return -1 if np.any(made) else likely
    return next(
        (
            number
            for number in order
            if distance(form.picks(part.shape, count, number), *both) <= EQUAL
        ),
        -1,
    )


def _records(big: View, small: View, group: _Group, *, is_turned: bool) -> Iterator[RecordPair]:
    """Pair the records of a group that lie as its form says."""
    for role in _ROLES:
        wholes = big.select(group.whole, role)
        rows = [small.select(part, role) for part in group.parts]
        if any(len(row) != len(wholes) for row in rows):
            continue
        for at, whole in enumerate(wholes):
            yield from _split(group, whole, [row[at] for row in rows], is_turned=is_turned)


def _split(
    group: _Group, whole: RecordInfo, parts: Sequence[RecordInfo], *, is_turned: bool
) -> Iterator[RecordPair]:
    """Pair one record of the whole with those of all parts, if each is there."""
    count, shape = len(parts), parts[0].shape
    if whole.value is None or any(one.value is None for one in parts):
        return
    if len({one.shape for one in parts}) != 1 or not group.form.is_of(whole.shape, shape, count):
        return
    note = f"{count} calls on one side for one on the other, each for a part of the batch"
    if count == 1:
        note = "one side computes more than is used; the part that the other has"
    total = _count(whole.shape, shape)
    if is_turned:
        ordered = sorted(zip(group.numbers, parts, strict=True), key=lambda one: one[0])
        first, last = ordered[0][0], ordered[-1][0]
        if last - first + 1 != count:
            return
        used = "" if total == count else f"groups 1 {first}:{last + 1} {group.form.axis}"
        yield RecordPair(
            reference=tuple(one.id for _, one in ordered),
            candidate=whole.id,
            paired_by=PairedBy.VALUE,
            rule=group.form.joins(shape),
            candidate_rule=Rule.parse(used) if used else IDENTITY,
            note=note,
        )
        return
    for number, one in zip(group.numbers, parts, strict=True):
        yield RecordPair(
            reference=(whole.id,),
            candidate=one.id,
            paired_by=PairedBy.VALUE,
            rule=group.form.picks(shape, total, number),
            note=note,
        )
