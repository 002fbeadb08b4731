"""Tensors of one shape whose elements stand in another order: a square's axes are exchanged."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Content, DumpError, Role
from padiff.pairing.rule import IDENTITY, Rule
from padiff.pairing.side import rows_of

from .sampled import EQUAL, distance, elements_of_both

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo, ValueInfo
    from padiff.pairing.result import RecordPair
    from padiff.pairing.side import Side

__all__ = ["MAX_AXES", "Reorders", "is_promised", "orders_of", "squeezed"]

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


Array = npt.NDArray[np.generic]
Floats = npt.NDArray[np.float64]
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
        for one, two in _Possible(self._sides, pairs).out_of_order():
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


class _Possible:
    """The pairs that another order would explain, as their statistics say; parallel columns."""

    def __init__(self, sides: Sides, pairs: Iterable[Ends]) -> None:
        """Sort them out, each two values of one shape once.

        Args:
            sides: Both sides.
            pairs: Pairs of one shape.
        """
        self._sides = sides
        tables = sides[0].index.values, sides[1].index.values
        ends = _distinct(pairs)
        values = [
            [table[one.value or 0] for one in side]
            for table, side in zip(tables, ends, strict=True)
        ]
        largest, is_possible = _extremes(values[0], values[1])
        places = np.flatnonzero(is_possible).tolist()
        self._ends = [[side[place] for place in places] for side in ends]
        self._values = [[side[place] for place in places] for side in values]
        self._largest = largest[is_possible]

    def out_of_order(self) -> Iterator[Ends]:
        """Give those that may be in another order: most have the same first elements."""
        forms: dict[tuple[int, str, str], list[int]] = {}
        found: list[int] = []
        is_finite = np.isfinite(self._largest).tolist()
        for row, (one, two) in enumerate(zip(*self._values, strict=True)):
            if one.content is two.content is Content.FULL and is_finite[row]:
                forms.setdefault((one.size, one.dtype, two.dtype), []).append(row)
            else:
                found.append(row)
        for (size, _, _), rows in forms.items():
            length = -(-_BATCH // max(min(size, _SAMPLE), 1))
            for start in range(0, len(rows), length):
                found += self._unlike(rows[start : start + length])
        for row in sorted(found):
            yield self._ends[0][row], self._ends[1][row]

    def _unlike(self, rows: Sequence[int]) -> list[int]:
        """Give the rows whose first elements are not the same; all are of one size and dtypes."""
        try:
            known, found = (
                _starts(side, [ends[row] for row in rows])
                for side, ends in zip(self._sides, self._ends, strict=True)
            )
        except DumpError:  # of one of them at least
            return (
                [*rows] if len(rows) == 1 else [one for row in rows for one in self._unlike([row])]
            )
        with np.errstate(invalid="ignore", over="ignore"):  # nan is alike to nothing
            gaps = found.astype(np.float32, copy=False) - known.astype(np.float32, copy=False)
            widest = np.abs(gaps, out=gaps).max(axis=1)
            is_alike = widest <= 1e-3 * self._largest[rows]
        return [row for row, is_same in zip(rows, is_alike.tolist(), strict=True) if not is_same]


def _distinct(pairs: Iterable[Ends]) -> tuple[list[RecordInfo], list[RecordInfo]]:
    """Give the first pair of each two values in each shape that has orders, as two columns."""
    have_orders: dict[Shape, bool] = {}
    first: dict[tuple[int, int, Shape], Ends] = {}
    for both in pairs:
        known, found, shape = both[0].value, both[1].value, both[0].shape
        if shape not in have_orders:
            have_orders[shape] = bool(_orders_within(shape))
        if have_orders[shape] and known is not None and found is not None:
            first.setdefault((known, found, shape), both)
    return [one for one, _ in first.values()], [two for _, two in first.values()]


def _extremes(
    known: Sequence[ValueInfo], found: Sequence[ValueInfo]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Compare the extremes of values, pair by pair.

    Returns:
        The size of the largest element of each of the reference's, and whether the two have the
        same extremes and are no constants, though they are not the same values.
    """
    low, high, other_low, other_high = (
        np.array([getattr(value.statistics, name) for value in side], np.float64)
        for side in (known, found)
        for name in ("minimum", "maximum")
    )
    is_other = [one.digest != two.digest for one, two in zip(known, found, strict=True)]
    with np.errstate(invalid="ignore"):  # what is not known is nan, and near to nothing
        largest = np.maximum(np.abs(low), np.abs(high))
        slack = 1e-4 * largest
        is_near = (np.abs(low - other_low) <= slack) & (np.abs(high - other_high) <= slack)
    return largest, np.array(is_other, np.bool_) & is_near & (low != high)


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
