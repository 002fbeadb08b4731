"""Find how the axes of two paired tensors correspond, and verify it by their elements.

Those of one shape may stand in another order, too: a square's axes are exchanged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import lru_cache, partial
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import CALL_ROLES, Content, RecordInfo, Role
from padiff.pairing.rule import IDENTITY, Rule

from .repeated import Repetition, assume_repetition, find_repetition, may_repeat, part_of
from .sampled import EQUAL, distance, elements_of_both

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from padiff.pairing.result import RecordPair
    from padiff.pairing.side import Side
    from padiff.pairing.view import View

    from .sampled import Elements


Shape = tuple[int, ...]
_RESHAPE = Rule.parse("reshape")
_NEAR = 0.5
"""Relative distance up to which the best layout of two diverged tensors is taken, if it is
less than half that of the second best."""


def with_layouts(reference: View, candidate: View, pairs: Iterable[RecordPair]) -> list[RecordPair]:
    """Return the pairs of call records with the layout rule that explains their shapes.

    A rule stands only if the elements confirm it on this pair, or, where they diverged or are
    constant, if it is confirmed on other pairs of the same form. Without any, the pair keeps the
    identity and cannot be compared. Inputs of different size that no repetition explains are no
    pairs: one side hands over what the other makes for itself. What the model gives keeps the
    identity between models of one framework: its shape and order are a promise.
    """
    views = reference, candidate
    found = [(pair, _open(views, pair)) for pair in pairs]
    open_ = [ends for _, ends in found if ends is not None]
    alike = [ends for ends in open_ if ends[0].shape == ends[1].shape]
    judge = _Judge(views)
    judge.reorders.look(alike)
    if len(alike) == len(open_) and not judge.reorders:
        return [pair for pair, _ in found]
    settled = [pair if ends is None else judge.settle(pair, *ends) for pair, ends in found]
    return [
        now if ends is None or now is not pair else judge.settle_late(pair, *ends)
        for now, (pair, ends) in zip(settled, found, strict=True)
        if ends is None or now is not pair or not judge.is_unlike(*ends)
    ]


def _open(views: tuple[View, View], pair: RecordPair) -> tuple[RecordInfo, RecordInfo] | None:
    """Return the two records of a pair of calls' values that has no layout yet."""
    if len(pair.reference) != 1 or pair.rule.steps or pair.candidate_rule.steps:
        return None
    one, two = views[0].records[pair.reference[0]], views[1].records[pair.candidate]
    if one.value is None or two.value is None:
        return None
    if is_promised((views[0].side, views[1].side), one, two):
        return None
    return (one, two) if one.role in CALL_ROLES and two.role in CALL_ROLES else None


@lru_cache(maxsize=4096)
def layouts_between(reference: Shape, candidate: Shape) -> tuple[Rule, ...]:
    """List the rules that turn one shape into the other: axes permuted, merged or split.

    >>> [str(rule) for rule in layouts_between((2, 3, 4), (2, 4, 3))]
    ['permute 0 2 1', 'reshape']
    """
    if prod(reference) != prod(candidate):
        return ()
    if max(len(reference), len(candidate)) > MAX_AXES:
        return (_RESHAPE,)
    found: dict[str, Rule] = {}
    if len(candidate) <= len(reference):
        for order in orders_of(len(reference)):
            permuted = tuple(reference[axis] for axis in order)
            steps = [f"permute {' '.join(map(str, order))}"]
            if permuted != candidate:
                if not _merges(permuted, candidate):
                    continue
                steps.append("reshape")
            rule = Rule.parse(" | ".join(steps))
            found.setdefault(str(rule), rule)
    else:
        for order in orders_of(len(candidate)):
            split = tuple(candidate[order.index(axis)] for axis in range(len(order)))
            if _merges(split, reference):
                numbers = " ".join(map(str, split))
                rule = Rule.parse(f"reshape {numbers} | permute {' '.join(map(str, order))}")
                found.setdefault(str(rule), rule)
    return (*found.values(), _RESHAPE)


def _merges(shape: Shape, target: Shape) -> bool:
    """Return whether joining neighbouring axes of the one gives the other."""
    place = 0
    sizes = [size for size in shape if size != 1]
    for wanted in (size for size in target if size != 1):
        size = 1
        while size < wanted and place < len(sizes):
            size *= sizes[place]
            place += 1
        if size != wanted:
            return False
    return place == len(sizes)


class _Judge:
    """Tries layouts, remembers what was confirmed where."""

    def __init__(self, views: tuple[View, View]) -> None:
        self._views = views
        self._sides = views[0].side, views[1].side
        self.reorders = Reorders(self._sides)
        self._confirmed: dict[tuple[int, int], Counter[Rule]] = defaultdict(Counter)
        self._known: dict[tuple[int, int, Shape, Shape], Rule | None] = {}
        self._repetitions: dict[tuple[int, int, Shape, Shape], Repetition | None] = {}
        self._parts: dict[tuple[int, int, Shape, Shape], tuple[Rule, Rule]] = {}

    def settle(self, pair: RecordPair, one: RecordInfo, two: RecordInfo) -> RecordPair:
        """Take a layout that the elements of the pair itself confirm."""
        if one.shape == two.shape:
            return pair
        if prod(one.shape) != prod(two.shape):
            return self._settle_repeated(pair, one, two)
        if squeezed(one.shape) == squeezed(two.shape):
            return replace(pair, rule=_RESHAPE)
        key = (one.value or 0, two.value or 0, one.shape, two.shape)
        if key not in self._known:
            self._known[key] = self._try(one, two)
        rule = self._known[key]
        if rule is None:
            return pair
        self._confirmed[len(one.shape), len(two.shape)][_form(rule)] += 1
        return replace(pair, rule=rule, note=f"layout verified: {rule}")

    def is_unlike(self, one: RecordInfo, two: RecordInfo) -> bool:
        """Return whether they are inputs inside the model that have nothing in common."""
        if one.shape == two.shape or one.role not in {Role.INPUT, Role.GRAD_INPUT}:
            return False
        is_inside = self._views[0].calls[one.call or 0].parent is not None
        return is_inside and prod(one.shape) != prod(two.shape)

    def settle_late(self, pair: RecordPair, one: RecordInfo, two: RecordInfo) -> RecordPair:
        """Take a layout that other pairs confirmed."""
        if one.shape == two.shape:
            return self.reorders.settle(pair, one, two, partial(self._is_usual, len(one.shape)))
        if prod(one.shape) != prod(two.shape):
            return pair
        rule, note = self._guess(one, two)
        return pair if rule is None else replace(pair, rule=rule, note=f"{note}: {rule}")

    def _guess(self, one: RecordInfo, two: RecordInfo) -> tuple[Rule | None, str]:
        """Return the layout of a pair whose own elements confirm none, and why this one."""
        ranked = self._confirmed[len(one.shape), len(two.shape)].most_common()
        options = layouts_between(one.shape, two.shape)
        for form, _ in ranked:
            for rule in options:
                if _form(rule) == form:
                    return rule, "layout of similar pairs"
        if options == (_RESHAPE,):
            return _RESHAPE, "layout assumed, same order of elements"
        return None, ""

    def _lacks_elements(self, one: RecordInfo, two: RecordInfo) -> bool:
        values = self._views[0].values[one.value or 0], self._views[1].values[two.value or 0]
        return any(value.content is not Content.FULL for value in values)

    def _is_usual(self, axes: int, rule: Rule) -> bool:
        """Return whether tensors of other shapes show an order of so many axes."""
        return bool(self._confirmed[axes, axes][_form(rule)])

    def _settle_repeated(self, pair: RecordPair, one: RecordInfo, two: RecordInfo) -> RecordPair:
        """Lay out a tensor that repeats the other; not at the root, whose shapes are a promise."""
        values = self._forward(0, one), self._forward(1, two)
        if values[0] is None or values[1] is None:
            return pair
        found = self._repetition(values[0], values[1])
        if found is None and one is values[0] and 1 in {prod(one.shape), prod(two.shape)}:
            return self._settle_single(pair, one, two)
        if found is None:
            return self._settle_part(pair, values[0], values[1])
        if one is values[0]:
            return replace(pair, rule=found.values, note=f"repeated: {found.values}")
        rule, other = found.gradients
        return replace(pair, rule=rule, candidate_rule=other, note="gradient of a repeated value")

    def _settle_single(self, pair: RecordPair, one: RecordInfo, two: RecordInfo) -> RecordPair:
        """Repeat a single number, as a state begins with 0, if the other side has it everywhere."""
        found = [view.values[record.value or 0].statistics
                 for view, record in zip(self._views, (one, two), strict=True)]  # fmt: skip
        least, most = found[0].minimum, found[0].maximum
        if least is None or not least == most == found[1].minimum == found[1].maximum:
            return pair
        steps = ["take 0"] * len(one.shape)
        ones = " ".join("1" * len(two.shape))
        steps += [f"reshape {ones}", "expand"] if ones else []
        return replace(pair, rule=Rule.parse(" | ".join(steps)), note="one number everywhere")

    def _settle_part(self, pair: RecordPair, one: RecordInfo, two: RecordInfo) -> RecordPair:
        """Take the part of a tensor that counts, where the other side makes no more."""
        key = one.value or 0, two.value or 0, one.shape, two.shape
        if key not in self._parts:
            rules = (
                part_of(self._views[0], one, two.shape),
                part_of(self._views[1], two, one.shape),
            )
            self._parts[key] = rules
        rule, other = self._parts[key]
        if rule.is_identity and other.is_identity:
            return pair
        return replace(pair, rule=rule, candidate_rule=other, note="padding left out")

    def _forward(self, side: int, record: RecordInfo) -> RecordInfo | None:
        """Return the value that a record is the gradient of, or the record itself."""
        view = self._views[side]
        if record.call is None or view.calls[record.call].parent is None:
            return None
        role = Role(str(record.role).removeprefix("grad_"))
        same = (one for one in view.select(record.call, role) if one.slot == record.slot)
        found = next(same, None)
        is_alike = found is not None and found.value is not None and found.shape == record.shape
        return found if is_alike else None

    def _repetition(self, one: RecordInfo, two: RecordInfo) -> Repetition | None:
        key = one.value or 0, two.value or 0, one.shape, two.shape
        if key not in self._repetitions:
            found, arrays = None, None
            if self._lacks_elements(one, two):
                found = assume_repetition(one.shape, two.shape)
            elif may_repeat(one.shape, two.shape):
                arrays = elements_of_both(self._sides, one, two)
            if arrays is not None:
                mine, theirs = (each.values.reshape(each.shape) for each in arrays)
                found = find_repetition(mine, theirs)
            self._repetitions[key] = found
        return self._repetitions[key]

    def _try(self, one: RecordInfo, two: RecordInfo) -> Rule | None:
        statistics = self._views[0].values[one.value or 0].statistics
        if statistics.minimum == statistics.maximum:
            return None
        sides = elements_of_both(self._sides, one, two)
        if sides is None:
            return None
        ranked = []
        for place, rule in enumerate(layouts_between(one.shape, two.shape)):
            gap = distance(rule, *sides)
            if gap <= EQUAL:
                return rule
            ranked.append((gap, place, rule))
        ranked.sort(key=lambda item: item[:2])
        if not ranked or ranked[0][0] > _NEAR:
            return None
        is_clear = len(ranked) == 1 or ranked[0][0] < ranked[1][0] / 2
        return ranked[0][2] if is_clear else None


def _form(rule: Rule) -> Rule:
    """Return the rule without sizes, which differ between tensors of the same form."""
    return Rule.parse(
        " | ".join("reshape" if step.verb.value == "reshape" else str(step) for step in rule.steps)
        if rule.steps and len(rule.steps) == 1
        else " | ".join(str(step) for step in rule.steps if step.verb.value != "reshape")
    )


_GIVEN = frozenset({Role.OUTPUT, Role.GRAD_OUTPUT})


def is_promised(sides: tuple[Side, Side], reference: RecordInfo, candidate: RecordInfo) -> bool:
    """Return whether two records are what models of one framework give, or its gradient.

    No layout is guessed for these: a caller of the one could not call the other. Models of two
    frameworks may lie otherwise (NCHW, NHWC), which the report then notes.
    """
    if sides[0].framework != sides[1].framework:
        return False
    return any(
        record.role in _GIVEN
        and record.call is not None
        and side.index.calls[record.call].parent is None
        for side, record in zip(sides, (reference, candidate), strict=True)
    )


Ends = tuple["RecordInfo", "RecordInfo"]
Sides = tuple["Side", "Side"]
MAX_AXES = 5
_MIN_WITNESSES = 3
"""Tensors of equal shape are taken to be reordered only if so many distinct ones show it."""
_SAMPLE = 4096
"""So many elements at the start of a tensor say whether it is in order."""


class Reorders:
    """The orders that pairs of one shape were found in."""

    def __init__(self, sides: Sides) -> None:
        """Begin with none."""
        self._sides = sides
        self._rules: dict[tuple[int | None, int | None], Rule] = {}
        self._witnesses: dict[Rule, set[int | None]] = defaultdict(set)
        self._seen: set[tuple[int | None, int | None, Shape]] = set()

    def look(self, pairs: Iterable[Ends]) -> None:
        """Look for other orders in pairs of one shape, each two values once."""
        for one, two in pairs:
            key, options = (one.value, two.value), _orders_within(one.shape)
            if not options or (*key, one.shape) in self._seen:
                continue
            self._seen.add((*key, one.shape))
            sides = elements_of_both(self._sides, one, two) if self._may_be(one, two) else None
            if sides is None or _begin_alike(*sides) or distance(IDENTITY, *sides) <= EQUAL:
                continue
            rule = next((rule for rule in options if distance(rule, *sides) <= EQUAL), None)
            if rule is not None:
                self._rules[key] = rule
                self._witnesses[rule].add(one.value)

    def _may_be(self, one: RecordInfo, two: RecordInfo) -> bool:
        """Return whether two values have the same extremes, and are no constants, nor the same."""
        known, found = (
            side.index.values[record.value or 0]
            for side, record in zip(self._sides, (one, two), strict=True)
        )
        low, high = known.statistics.minimum, known.statistics.maximum
        others = found.statistics.minimum, found.statistics.maximum
        if low is None or high is None or others[0] is None or others[1] is None:
            return False
        slack = 1e-4 * max(abs(low), abs(high))
        is_near = abs(low - others[0]) <= slack and abs(high - others[1]) <= slack
        return is_near and low != high and known.digest != found.digest

    def __bool__(self) -> bool:
        """Return whether any pair is in another order."""
        return bool(self._rules)

    def settle(
        self,
        pair: RecordPair,
        one: RecordInfo,
        two: RecordInfo,
        is_usual: Callable[[Rule], bool],
    ) -> RecordPair:
        """Return a pair of one shape the order that was found for it, if others have it, too."""
        rule = self._rules.get((one.value, two.value))
        if rule is None:
            return pair
        if len(self._witnesses[rule]) < _MIN_WITNESSES and not is_usual(rule):
            return pair
        return replace(pair, rule=rule, note=f"layout verified: {rule}")


def _begin_alike(one: Elements, two: Elements) -> bool:
    """Return whether the first elements of two values are the same, but for rounding."""
    if one.positions is not None or two.positions is not None:
        return False
    known, found = (each.values[:_SAMPLE].astype(np.float64) for each in (one, two))
    with np.errstate(invalid="ignore"):  # nan is alike to nothing
        return bool((np.abs(found - known) <= 1e-3 * np.abs(known).max()).all())


@lru_cache(maxsize=4096)
def _orders_within(shape: Shape) -> tuple[Rule, ...]:
    """Return the orders of axes that leave a shape as it is."""
    if len(shape) > MAX_AXES or len(squeezed(shape)) == len(set(squeezed(shape))):
        return ()
    return tuple(
        Rule.parse(f"permute {' '.join(map(str, order))}")
        for order in orders_of(len(shape))
        if tuple(shape[axis] for axis in order) == shape
    )


def orders_of(count: int) -> Iterator[tuple[int, ...]]:
    """Yield all orders of so many axes but their own."""
    for order in permutations(range(count)):
        if order != tuple(range(count)):
            yield order


def squeezed(shape: Sequence[int]) -> Shape:
    """Return a shape without axes of length 1."""
    return tuple(size for size in shape if size != 1)
