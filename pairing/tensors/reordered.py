"""Tensors of one shape whose elements stand in another order: a square's axes are exchanged."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Content, DumpError
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.side import rows_of

from .distance import EQUAL, distance, elements_of_both

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo, ValueInfo
    from padiff.pairing.result import RecordPair
    from padiff.pairing.side import Side

__all__ = ["MAX_AXES", "Reorders", "orders_of", "squeezed"]

Array = npt.NDArray[np.generic]
Shape = tuple[int, ...]
Ends = tuple["RecordInfo", "RecordInfo"]
Sides = tuple["Side", "Side"]
MAX_AXES = 5
_MIN_WITNESSES = 3
"""Tensors of equal shape are taken to be reordered only if so many distinct ones show it."""
_SAMPLE = 4096
"""So many elements at the start of a tensor say whether it is in order."""
_BATCH = 1 << 16
"""Elements of the starts that are looked at together."""


class Reorders:
    """The orders that pairs of one shape were found in."""

    def __init__(self, sides: Sides) -> None:
        """Begin with none."""
        self._sides = sides
        self._rules: dict[tuple[int | None, int | None], Rule] = {}
        self._witnesses: dict[Rule, set[int | None]] = defaultdict(set)

    def look(self, pairs: Iterable[Ends]) -> None:
        """Look for other orders in pairs of one shape, each two values once."""
        for one, two in _out_of_order(self._sides, self._possible(pairs)):
            key = one.value, two.value
            sides = None if key in self._rules else elements_of_both(self._sides, one, two)
            if sides is None or distance(IDENTITY, *sides) <= EQUAL:
                continue
            options = _orders_within(one.shape)
            rule = next((rule for rule in options if distance(rule, *sides) <= EQUAL), None)
            if rule is not None:
                self._rules[key] = rule
                self._witnesses[rule].add(one.value)

    def __bool__(self) -> bool:
        """Tell whether any pair is in another order."""
        return bool(self._rules)

    def settle(
        self,
        pair: RecordPair,
        one: RecordInfo,
        two: RecordInfo,
        is_usual: Callable[[Rule], bool] = lambda _: False,
    ) -> RecordPair:
        """Give a pair of one shape the order that was found for it, if others have it, too.

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

    def _possible(self, pairs: Iterable[Ends]) -> Iterator[_Possible]:
        """Give the pairs that another order would explain, as their statistics say."""
        tables = self._sides[0].index.values, self._sides[1].index.values
        seen: set[tuple[int | None, int | None, Shape]] = set()
        have_orders: dict[Shape, bool] = {}
        for one, two in pairs:
            shape = one.shape
            key = one.value, two.value, shape
            if key in seen or key[0] is None or key[1] is None:
                continue
            has_orders = have_orders.get(shape)
            if has_orders is None:
                has_orders = have_orders[shape] = bool(_orders_within(shape))
            if not has_orders:
                continue
            seen.add(key)
            mine, theirs = tables[0][key[0]], tables[1][key[1]]
            if mine.digest == theirs.digest:
                continue
            known, found = mine.statistics, theirs.statistics
            low, high = known.minimum, known.maximum
            if low is None or high is None or low == high:
                continue
            if found.minimum is None or found.maximum is None:
                continue
            largest = max(abs(low), abs(high))
            slack = 1e-4 * largest
            if abs(low - found.minimum) <= slack and abs(high - found.maximum) <= slack:
                yield _Possible(one, two, mine, theirs, largest)


class _Possible(NamedTuple):
    """A pair that may be in another order."""

    one: RecordInfo
    two: RecordInfo
    known: ValueInfo
    found: ValueInfo
    largest: float
    """Size of the largest element of the reference's."""

    @property
    def form(self) -> tuple[int, str, str] | None:
        """Give size and dtypes; None if not all elements are there, or they say nothing."""
        known, found = self.known, self.found
        if not (known.content is found.content is Content.FULL and math.isfinite(self.largest)):
            return None
        return known.size, known.dtype, found.dtype


def _out_of_order(sides: Sides, pairs: Iterable[_Possible]) -> Iterator[Ends]:
    """Give the pairs that may be in another order: the first elements of most are in the same."""
    found: list[tuple[int, _Possible]] = []
    waiting: dict[object, list[tuple[int, _Possible]]] = {}
    for place, pair in enumerate(pairs):
        form = pair.form
        if form is None:
            found.append((place, pair))
            continue
        same = waiting.setdefault(form, [])
        same.append((place, pair))
        if len(same) * min(form[0], _SAMPLE) >= _BATCH:
            found += _unlike(sides, waiting.pop(form))
    for rest in waiting.values():
        found += _unlike(sides, rest)
    for _, pair in sorted(found, key=itemgetter(0)):
        yield pair.one, pair.two


def _unlike(
    sides: Sides, pairs: Sequence[tuple[int, _Possible]]
) -> Iterator[tuple[int, _Possible]]:
    """Give the pairs whose first elements are not the same; all are of one size and dtypes."""
    try:
        known = _starts(sides[0], [pair.one for _, pair in pairs])
        found = _starts(sides[1], [pair.two for _, pair in pairs])
    except DumpError:  # of one of them at least
        if len(pairs) == 1:
            yield pairs[0]
        else:
            for one in pairs:
                yield from _unlike(sides, [one])
        return
    with np.errstate(invalid="ignore", over="ignore"):  # nan is alike to nothing
        gaps = found.astype(np.float32, copy=False) - known.astype(np.float32, copy=False)
        widest = np.abs(gaps, out=gaps).max(axis=1).tolist()
    for gap, one in zip(widest, pairs, strict=True):
        if not gap <= 1e-3 * one[1].largest:
            yield one


def _starts(side: Side, records: Sequence[RecordInfo]) -> Array:
    """Give the first elements of records of one size as rows."""
    if math.prod(records[0].shape) <= _SAMPLE:
        return rows_of(side, records)
    return np.stack([side.array(one).reshape(-1)[:_SAMPLE] for one in records])


@lru_cache(maxsize=4096)
def _orders_within(shape: Shape) -> tuple[Rule, ...]:
    """Give the orders of axes that leave a shape as it is."""
    if len(shape) > MAX_AXES or len(squeezed(shape)) == len(set(squeezed(shape))):
        return ()
    return tuple(
        Rule.parse(f"permute {' '.join(map(str, order))}")
        for order in orders_of(len(shape))
        if tuple(shape[axis] for axis in order) == shape
    )


def orders_of(count: int) -> Iterator[tuple[int, ...]]:
    """Give all orders of so many axes but their own."""
    for order in permutations(range(count)):
        if order != tuple(range(count)):
            yield order


def squeezed(shape: Sequence[int]) -> Shape:
    """Give a shape without axes of length 1."""
    return tuple(size for size in shape if size != 1)
