"""Find the pairs that need no look of their own: equal ones, and small ones measured in batches."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Content, numpy_dtype

from .blocks import is_floating
from .smallpairs import SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Index, RecordInfo, ValueInfo
    from padiff.pairing import RecordPair, Rule

    from .blocks import Array

AS_IT_IS = 0
"""Number of the layout of pairs of one shape that take no rule."""
OTHERS = -1
"""Number of every pair that is no order of one record's elements."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Pairs of one record each whose elements are the same ones, in whatever order."""

    equal: list[int]
    """Places of those in one order whose digests say that all bits are the same."""
    small: Array
    """Places of the others that are small floating tensors, recorded as a whole; ascending."""
    layouts: Array
    """The number of the layout of each of these."""
    orders: Sequence[Array | None]
    """By that number, as ``Layouts`` gives them."""


def find_alike(reference: Index, candidate: Index, pairs: Sequence[RecordPair]) -> Alike:
    """Sort pairs; those that are neither equal nor small are left to be looked at one by one.

    Args:
        reference: Index of the side held to be right.
        candidate: Of the other.
        pairs: What pairing found.
    """
    places = [
        place
        for place, pair in enumerate(pairs)
        if len(pair.reference) == 1 and not pair.candidate_rule.steps
    ]
    records = (
        [reference.records[pairs[place].reference[0]] for place in places],
        [candidate.records[pairs[place].candidate] for place in places],
    )
    values = [
        np.array([-1 if r.value is None else r.value for r in side], np.int64) for side in records
    ]
    kept = Layouts()
    layouts = kept.numbers([pairs[place] for place in places], *records)
    both = np.flatnonzero((values[0] >= 0) & (values[1] >= 0) & (layouts >= 0))
    known, found = (side[both] for side in values)
    forms: dict[tuple[str, int], int] = {}
    of_form = [_forms(side.values, forms) for side in (reference, candidate)]
    equal = (of_form[0][known] == of_form[1][found]) & (layouts[both] == AS_IT_IS)
    equal[equal] = _same_digests(reference.values, candidate.values, known[equal], found[equal])
    few = np.array([is_small(*form) for form in forms], np.bool_)
    small = ~equal
    for side, form, at in ((reference, of_form[0], known), (candidate, of_form[1], found)):
        is_whole = np.array([value.content is Content.FULL for value in side.values], np.bool_)
        small &= is_whole[at] & few[form[at]]
    every = np.array(places, np.int64)
    return Alike(
        equal=every[both[equal]].tolist(),
        small=every[both[small]],
        layouts=layouts[both[small]],
        orders=kept.orders,
    )


def is_small(dtype: str, size: int) -> bool:
    """Return whether a value can be measured in a batch: small, not empty, real floating point."""
    return 0 < size <= SMALL and is_floating(numpy_dtype(dtype))


def _forms(values: Sequence[ValueInfo], forms: dict[tuple[str, int], int]) -> Array:
    """Return the number of each value's dtype and size; new ones are added."""
    return np.array(
        [forms.setdefault((value.dtype, value.size), len(forms)) for value in values], np.int64
    )


def _same_digests(
    reference: Sequence[ValueInfo], candidate: Sequence[ValueInfo], known: Array, found: Array
) -> Array:
    """Return for each pair of values whether its digests are equal."""
    both = zip(known.tolist(), found.tolist(), strict=True)
    return np.array([reference[a].digest == candidate[b].digest for a, b in both], np.bool_)


@dataclass(slots=True)
class Layouts:
    """Numbers the layouts of pairs: a rule between two shapes, worked out once for all its pairs.

    A rule that only moves elements is an order of them: ``array.reshape(-1)[order]`` is what it
    makes of any array of that shape, so that many are laid out as rows of one matrix.
    """

    orders: list[Array | None] = field(default_factory=lambda: [None])
    """By number; None leaves the elements as they are."""
    _numbers: dict[tuple[Rule, Shape, Shape], int] = field(default_factory=dict)

    def numbers(
        self,
        pairs: Sequence[RecordPair],
        known: Sequence[RecordInfo],
        found: Sequence[RecordInfo],
    ) -> Array:
        """Return the number of each pair's layout.

        Args:
            pairs: Pairs of one record each; nothing is done to the candidate's.
            known: The reference's records.
            found: The candidate's.

        Returns:
            int64: ``AS_IT_IS``, a place in ``orders`` for small ones, or ``OTHERS``.
        """
        same = [one.shape == two.shape for one, two in zip(known, found, strict=True)]
        numbers = np.where(same, AS_IT_IS, OTHERS)
        rules = {id(pair.rule): pair.rule for pair in pairs}
        plain = {key for key, rule in rules.items() if rule.is_identity}
        if len(plain) == len(rules):
            return numbers
        # Hashing a rule takes longer than all else here, and most pairs share the object.
        seen: dict[tuple[int, Shape, Shape], int] = {}
        for place, pair in enumerate(pairs):
            if id(pair.rule) not in plain:
                key = id(pair.rule), known[place].shape, found[place].shape
                if key not in seen:
                    seen[key] = self._number(pair.rule, key[1], key[2])
                numbers[place] = seen[key]
        return numbers

    def _number(self, rule: Rule, known: Shape, found: Shape) -> int:
        key = rule, known, found
        if key not in self._numbers:
            is_order = rule.is_order and 0 < prod(known) <= SMALL
            if not (is_order and rule.fits([known], found)):
                return OTHERS
            self._numbers[key] = len(self.orders)
            places = np.arange(prod(known)).reshape(known)
            self.orders.append(rule.apply([places], found).reshape(-1))
        return self._numbers[key]
