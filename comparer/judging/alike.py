"""Find the pairs of which nothing special is to be known: tensors of one dtype and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import Content

from .layouts import AS_IT_IS, LaidOut, Layouts
from .measured import is_small_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Index, ValueInfo
    from padiff.pairing import RecordPair

    from .blocks import Array


Form = tuple[str, int]
"""Dtype and number of elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Pairs that hold a value of one dtype and size on both sides, in whatever order."""

    equal: list[int]
    """Places of those in one order whose digests say that all bits are the same."""
    small: Array
    """Places of the others that are small floating tensors, recorded as a whole; ascending."""
    layouts: Array
    """The number of the layout of each of these."""
    orders: Sequence[Array | None]
    """By that number, as ``Layouts`` gives them."""

    def laid_out(self, pairs: Sequence[RecordPair]) -> LaidOut:
        """Take the small ones out of all pairs."""
        taken = [pairs[place] for place in self.small.tolist()]
        return LaidOut(pairs=taken, layouts=self.layouts, orders=self.orders)


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
    forms: dict[Form, int] = {}
    of_form = [_forms(side.values, forms) for side in (reference, candidate)]
    has_small = np.array([is_small_form((size, dtype, dtype)) for dtype, size in forms], np.bool_)
    is_whole = [
        np.array([value.content is Content.FULL for value in side.values], np.bool_)
        for side in (reference, candidate)
    ]
    one_form = of_form[0][known] == of_form[1][found]
    equal = one_form & (layouts[both] == AS_IT_IS)
    equal[equal] = _same_digests(reference.values, candidate.values, known[equal], found[equal])
    small = one_form & ~equal & is_whole[0][known] & is_whole[1][found]
    small[small] = has_small[of_form[0][known[small]]]
    every = np.array(places, np.int64)
    return Alike(
        equal=every[both[equal]].tolist(),
        small=every[both[small]],
        layouts=layouts[both[small]],
        orders=kept.orders,
    )


def _forms(values: Sequence[ValueInfo], forms: dict[Form, int]) -> Array:
    """Give the number of each value's form; new ones are added."""
    return np.array(
        [forms.setdefault((value.dtype, value.size), len(forms)) for value in values], np.int64
    )


def _same_digests(
    reference: Sequence[ValueInfo], candidate: Sequence[ValueInfo], known: Array, found: Array
) -> Array:
    """Tell of each pair of values whether its digests are equal."""
    both = zip(known.tolist(), found.tolist(), strict=True)
    return np.array([reference[a].digest == candidate[b].digest for a, b in both], np.bool_)
