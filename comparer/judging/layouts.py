"""Layouts of small pairs, as the order in which the reference's elements stand in the candidate."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from .smallpairs import SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing import RecordPair, Rule

    from .blocks import Array


AS_IT_IS = 0
"""Number of the layout of pairs of one shape that take no rule."""
OTHERS = -1
"""Number of every pair that is no order of one record's elements."""

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidOut:
    """Pairs, and the order in which the reference's elements stand in each one's candidate."""

    pairs: Sequence[RecordPair]
    layouts: Array
    """The number of each pair's layout."""
    orders: Sequence[Array | None]
    """By that number, as ``Layouts`` gives them."""


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
        """Give the number of each pair's layout.

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
