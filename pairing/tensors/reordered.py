"""Tensors of one shape whose elements stand in another order: a square's axes are exchanged."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Role
from padiff.pairing.rule import IDENTITY, Rule

from .sampled import EQUAL, distance, elements_of_both

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.result import RecordPair
    from padiff.pairing.side import Side

    from .sampled import Elements

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


Shape = tuple[int, ...]
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
        """Return a pair of one shape the order that was found for it, if others have it, too.

        Args:
            pair: A pair without layout.
            one: Its record of the reference.
            two: Its record of the candidate.
            is_usual: Whether tensors of other shapes show an order.
        """
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
