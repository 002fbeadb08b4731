"""Find how the axes of two paired tensors correspond, and verify it by their elements."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import CALL_ROLES, ConfigError, Content, DumpError, RecordInfo, Role
from padiff.pairing.rule import IDENTITY, Rule

from .repeated import Repetition, assume_repetition, find_repetition, may_repeat
from .sampled import Elements, elements_of, match_elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.pairing.result import RecordPair
    from padiff.pairing.view import View

__all__ = ["distance", "layouts_between", "with_layouts"]

Array = npt.NDArray[np.generic]
Shape = tuple[int, ...]
_RESHAPE = Rule.parse("reshape")
_MAX_AXES = 5
_EQUAL = 1e-2
"""Relative distance up to which two tensors count as the same under a layout."""
_NEAR = 0.5
"""Relative distance up to which the best layout of two diverged tensors is taken, if it is
less than half that of the second best."""
_MIN_WITNESSES = 3
"""Tensors of equal shape are taken to be reordered only if so many distinct ones show it."""
_SAMPLE = 4096


def with_layouts(reference: View, candidate: View, pairs: Iterable[RecordPair]) -> list[RecordPair]:
    """Give the pairs of call records with the layout rule that explains their shapes.

    A rule stands only if the elements confirm it on this pair, or, where they diverged or are
    constant, if it is confirmed on other pairs of the same form. Without any, the pair keeps the
    identity and cannot be compared. Inputs of different size that no repetition explains are no
    pairs: one side hands over what the other makes for itself.
    """
    judge = _Judge(reference, candidate)
    found = [(judge.settle(pair), pair) for pair in pairs]
    return [
        judge.settle_late(settled) if settled is pair else settled
        for settled, pair in found
        if settled is not pair or not judge.is_unlike(pair)
    ]


@lru_cache(maxsize=4096)
def layouts_between(reference: Shape, candidate: Shape) -> tuple[Rule, ...]:
    """List the rules that turn one shape into the other: axes permuted, merged or split.

    >>> [str(rule) for rule in layouts_between((2, 3, 4), (2, 4, 3))]
    ['permute 0 2 1', 'reshape']
    """
    if prod(reference) != prod(candidate):
        return ()
    if max(len(reference), len(candidate)) > _MAX_AXES:
        return (_RESHAPE,)
    found: dict[str, Rule] = {}
    if len(candidate) <= len(reference):
        for order in _orders(len(reference)):
            permuted = tuple(reference[axis] for axis in order)
            steps = [f"permute {' '.join(map(str, order))}"]
            if permuted != candidate:
                if not _merges(permuted, candidate):
                    continue
                steps.append("reshape")
            rule = Rule.parse(" | ".join(steps))
            found.setdefault(str(rule), rule)
    else:
        for order in _orders(len(candidate)):
            split = tuple(candidate[order.index(axis)] for axis in range(len(order)))
            if _merges(split, reference):
                numbers = " ".join(map(str, split))
                rule = Rule.parse(f"reshape {numbers} | permute {' '.join(map(str, order))}")
                found.setdefault(str(rule), rule)
    return (*found.values(), _RESHAPE)


def _orders(count: int) -> Iterator[tuple[int, ...]]:
    for order in permutations(range(count)):
        if order != tuple(range(count)):
            yield order


def _merges(shape: Shape, target: Shape) -> bool:
    """Tell whether joining neighbouring axes of the one gives the other."""
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

    def __init__(self, reference: View, candidate: View) -> None:
        self._views = reference, candidate
        self._confirmed: dict[tuple[int, int], Counter[Rule]] = defaultdict(Counter)
        self._known: dict[tuple[int, int, Shape, Shape], Rule | None] = {}
        self._witnesses: dict[Rule, set[int]] = defaultdict(set)
        self._reordered: dict[tuple[int, int], Rule] = {}
        self._seen: set[tuple[int, int, Shape]] = set()
        """Pairs of values of a shape that were looked at."""
        self._repetitions: dict[tuple[int, int, Shape, Shape], Repetition | None] = {}

    def settle(self, pair: RecordPair) -> RecordPair:
        """Take a layout that the elements of the pair itself confirm."""
        records = self._open(pair)
        if records is None:
            return pair
        one, two = records
        if one.shape == two.shape:
            self._look_for_reorder(one, two)
            return pair
        if prod(one.shape) != prod(two.shape):
            return self._settle_repeated(pair, one, two)
        if _squeezed(one.shape) == _squeezed(two.shape):
            return replace(pair, rule=_RESHAPE)
        key = (one.value or 0, two.value or 0, one.shape, two.shape)
        if key not in self._known:
            self._known[key] = self._try(one, two)
        rule = self._known[key]
        if rule is None:
            return pair
        self._confirmed[len(one.shape), len(two.shape)][_form(rule)] += 1
        return replace(pair, rule=rule, note=f"layout verified: {rule}")

    def is_unlike(self, pair: RecordPair) -> bool:
        """Tell whether it pairs inputs inside the model that have nothing in common."""
        records = self._open(pair)
        if records is None or records[0].shape == records[1].shape:
            return False
        if records[0].role not in {Role.INPUT, Role.GRAD_INPUT}:
            return False
        is_inside = self._views[0].calls[records[0].call or 0].parent is not None
        return is_inside and prod(records[0].shape) != prod(records[1].shape)

    def settle_late(self, pair: RecordPair) -> RecordPair:
        """Take a layout that other pairs confirmed."""
        records = self._open(pair)
        if records is None:
            return pair
        one, two = records
        if one.shape == two.shape:
            rule = self._reordered.get((one.value or 0, two.value or 0))
            if rule is None or not self._is_usual(rule, len(one.shape)):
                return pair
            return replace(pair, rule=rule, note=f"layout verified: {rule}")
        if prod(one.shape) != prod(two.shape):
            return pair
        rule, note = self._guess(one, two)
        return pair if rule is None else replace(pair, rule=rule, note=f"{note}: {rule}")

    def _guess(self, one: RecordInfo, two: RecordInfo) -> tuple[Rule | None, str]:
        """Give the layout of a pair whose own elements confirm none, and why this one."""
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

    def _is_usual(self, rule: Rule, axes: int) -> bool:
        """Tell whether other tensors are reordered this way: by shape, or enough by elements."""
        is_confirmed = bool(self._confirmed[axes, axes][_form(rule)])
        return is_confirmed or len(self._witnesses[rule]) >= _MIN_WITNESSES

    def _open(self, pair: RecordPair) -> tuple[RecordInfo, RecordInfo] | None:
        if len(pair.reference) != 1 or pair.rule.steps or pair.candidate_rule.steps:
            return None
        one = self._views[0].records[pair.reference[0]]
        two = self._views[1].records[pair.candidate]
        is_call = one.role in CALL_ROLES and two.role in CALL_ROLES
        is_known = one.value is not None and two.value is not None
        return (one, two) if is_call and is_known else None

    def _settle_repeated(self, pair: RecordPair, one: RecordInfo, two: RecordInfo) -> RecordPair:
        """Lay out a tensor that repeats the other; not at the root, whose shapes are a promise."""
        values = self._forward(0, one), self._forward(1, two)
        if values[0] is None or values[1] is None:
            return pair
        found = self._repetition(values[0], values[1])
        if found is None:
            return pair
        if one is values[0]:
            return replace(pair, rule=found.values, note=f"repeated: {found.values}")
        rule, other = found.gradients
        return replace(pair, rule=rule, candidate_rule=other, note="gradient of a repeated value")

    def _forward(self, side: int, record: RecordInfo) -> RecordInfo | None:
        """Give the value that a record is the gradient of, or the record itself."""
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
                arrays = self._elements(one, two)
            if arrays is not None:
                mine, theirs = (each.values.reshape(each.shape) for each in arrays)
                found = find_repetition(mine, theirs)
            self._repetitions[key] = found
        return self._repetitions[key]

    def _look_for_reorder(self, one: RecordInfo, two: RecordInfo) -> None:
        values = self._views[0].values, self._views[1].values
        mine, theirs = values[0][one.value or 0], values[1][two.value or 0]
        key = (mine.id, theirs.id)
        options = _same_shape_orders(one.shape)
        if mine.digest == theirs.digest or not options or key in self._reordered:
            return
        if (*key, one.shape) in self._seen:
            return
        self._seen.add((*key, one.shape))
        low, high = mine.statistics.minimum, mine.statistics.maximum
        other_low, other_high = theirs.statistics.minimum, theirs.statistics.maximum
        if low is None or high is None or other_low is None or other_high is None or low == high:
            return
        slack = 1e-4 * max(abs(low), abs(high))
        if abs(low - other_low) > slack or abs(high - other_high) > slack:
            return
        if self._starts_alike(one, two, max(abs(low), abs(high))):
            return
        sides = self._elements(one, two)
        if sides is None or distance(IDENTITY, *sides) <= _EQUAL:
            return
        rule = next((rule for rule in options if distance(rule, *sides) <= _EQUAL), None)
        if rule is not None:
            self._reordered[key] = rule
            self._witnesses[rule].add(mine.id)

    def _starts_alike(self, one: RecordInfo, two: RecordInfo, largest: float) -> bool:
        """Tell whether the first elements are in one order: a cheap test that most tensors pass."""
        if self._lacks_elements(one, two) or not math.isfinite(largest):
            return False
        try:
            arrays = self._views[0].side.array(one), self._views[1].side.array(two)
        except DumpError:
            return False
        head, other = (array.reshape(-1)[:_SAMPLE].astype(np.float32) for array in arrays)
        with np.errstate(invalid="ignore", over="ignore"):  # nan is alike to nothing
            return bool(np.abs(np.subtract(other, head, out=other)).max() <= 1e-3 * largest)

    def _try(self, one: RecordInfo, two: RecordInfo) -> Rule | None:
        statistics = self._views[0].values[one.value or 0].statistics
        if statistics.minimum == statistics.maximum:
            return None
        sides = self._elements(one, two)
        if sides is None:
            return None
        ranked = []
        for place, rule in enumerate(layouts_between(one.shape, two.shape)):
            gap = distance(rule, *sides)
            if gap <= _EQUAL:
                return rule
            ranked.append((gap, place, rule))
        ranked.sort(key=lambda item: item[:2])
        if not ranked or ranked[0][0] > _NEAR:
            return None
        is_clear = len(ranked) == 1 or ranked[0][0] < ranked[1][0] / 2
        return ranked[0][2] if is_clear else None

    def _elements(self, one: RecordInfo, two: RecordInfo) -> tuple[Elements, Elements] | None:
        """Give all elements of both, or what a sampled dump holds of them."""
        try:
            known = elements_of(self._views[0].side, one)
            found = elements_of(self._views[1].side, two)
        except DumpError:
            return None
        return None if known is None or found is None else (known, found)


@lru_cache(maxsize=4096)
def _same_shape_orders(shape: Shape) -> tuple[Rule, ...]:
    if len(shape) > _MAX_AXES or len(_squeezed(shape)) == len(set(_squeezed(shape))):
        return ()
    return tuple(
        Rule.parse(f"permute {' '.join(map(str, order))}")
        for order in _orders(len(shape))
        if tuple(shape[axis] for axis in order) == shape
    )


def _form(rule: Rule) -> Rule:
    """Give the rule without sizes, which differ between tensors of the same form."""
    return Rule.parse(
        " | ".join("reshape" if step.verb.value == "reshape" else str(step) for step in rule.steps)
        if rule.steps and len(rule.steps) == 1
        else " | ".join(str(step) for step in rule.steps if step.verb.value != "reshape")
    )


def _squeezed(shape: Sequence[int]) -> Shape:
    return tuple(size for size in shape if size != 1)


def distance(rule: Rule, one: Elements, two: Elements) -> float:
    """Give the distance relative to the reference's size, over what is finite on both sides."""
    try:
        made, found = _both(rule, one, two)
    except ConfigError:
        return float("inf")
    if np.iscomplexobj(made) or np.iscomplexobj(found):
        made, found = np.abs(made), np.abs(found)
    mine, theirs = made.astype(np.float64), found.astype(np.float64)
    both = np.isfinite(mine) & np.isfinite(theirs)
    size = float(np.linalg.norm(mine[both]))
    gap = float(np.linalg.norm(theirs[both] - mine[both]))
    return gap / size if size else float("inf")


def _both(rule: Rule, one: Elements, two: Elements) -> tuple[Array, Array]:
    """Give the reference in the candidate's layout, and the candidate; of samples, what both hold.

    Raises:
        ConfigError: The rule does not fit, or the samples have too little in common.
    """
    if one.positions is None and two.positions is None:
        made = rule.apply([one.values.reshape(one.shape)], two.shape)
        return np.asarray(made), two.values.reshape(two.shape)
    matched = match_elements(rule, [one], two)
    if matched is None:
        raise ConfigError("the samples have too little in common")
    return matched.reference, matched.candidate
