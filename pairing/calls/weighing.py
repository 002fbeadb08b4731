"""How much other partners are in the way of a pair: what tells modules of one job apart."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.names import likeness
from padiff.pairing.result import ModulePair

from .doubt import Rated
from .telling import Telling
from .traits import alike_outputs, traits_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from padiff.pairing.weights.matching import Matching

    from .rivals import RatedSide
    from .traits import Traits

__all__ = ["Weighing"]

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_CLEAR = 0.3
"""A partner whose evidence is better by so much leaves no doubt."""
_EQUAL_WEIGHTS = 2.0
_EQUAL_NUMBERS = 0.5
_EQUAL_INPUT = 1.0
_EQUAL_FLOW = 1.0
_ALIKE = 0.8
"""Outputs whose statistics are nearer than this speak for a pair; below, chance does it, too."""


class Weighing:
    """Weighs pairs of leaves against those that other partners would make, many at once."""

    def __init__(self, sides: tuple[RatedSide, RatedSide], modules: Matching) -> None:
        """Begin.

        Args:
            sides: Both sides.
            modules: The paired modules.
        """
        self.views = sides[0].view, sides[1].view
        self._sides = sides
        self._modules = modules

    @cached_property
    def _telling(self) -> Telling:
        """What singles modules out, once that is asked of any."""
        return Telling(*self.views)

    @cached_property
    def _traits(self) -> tuple[Traits, Traits]:
        """What tells the modules of each side apart, once a pair is weighed."""
        numbers: dict[str, dict[Hashable, int]] = {}
        return (
            traits_of(self._sides[0], self._telling.held[0], numbers),
            traits_of(self._sides[1], self._telling.held[1], numbers),
        )

    def are_told(self, one: int, two: int) -> bool:
        """Tell whether names, weights or outputs of their own single two leaves out."""
        outputs = self._sides[0].outputs[one], self._sides[1].outputs[two]
        return self._telling.confirms(one, two, outputs)

    def weighed(self, rated: Sequence[Rated]) -> list[Rated]:
        """Give pairs with their confidence and with what could stand in for their two modules.

        Args:
            rated: Pairs; those that were weighed already stay as they are.
        """
        sides, modules = self._sides, self._modules
        found = list(rated)
        places = [place for place, one in enumerate(rated) if not one.is_weighed]
        rivals: list[tuple[list[int], list[int]]] = []
        weighed: list[tuple[int, int, int, int]] = []
        for place in places:
            one, two = rated[place].pair.reference, rated[place].pair.candidate
            others = sides[1].rivals(two, one, sides[0]), sides[0].rivals(one, two, sides[1])
            rivals.append(others)
            weighed += [(one, two, modules.back.get(other, -1), other) for other in others[0]]
            weighed += [(one, two, other, modules.ahead.get(other, -1)) for other in others[1]]
        doubts = iter(self._doubts(np.array(weighed, np.int64).reshape(-1, 4)))
        for place, others in zip(places, rivals, strict=True):
            found[place] = _with_doubts(rated[place], others, doubts)
        return found

    def _doubts(self, weighed: Places) -> list[float]:
        """Say how much other partners are in the way of pairs, in [0, 1].

        Args:
            weighed: Shape (count, 4): a pair, and a rival of one of the two with its partner, -1
                if it has none. If both are there, the two pairs are weighed against those that
                exchanging partners makes: what speaks against the exchange for one pair speaks
                for both.
        """
        if not len(weighed):
            return []
        one, two, other, partner = weighed.T
        has_other, has_partner = other >= 0, partner >= 0
        has_both = has_other & has_partner
        is_known = np.array([has_other | has_partner, has_both, has_partner, has_other])
        rows, columns = np.array([one, other, one, other]), np.array([two, partner, partner, two])
        # Siblings ask for the same pairs.
        asked = rows * len(self.views[1].modules) + columns
        alone, places = np.unique(asked[is_known], return_inverse=True)
        known = self._evidence(*np.divmod(alone, len(self.views[1].modules)))
        said = np.zeros(asked.shape)
        said[is_known] = known[places]
        own, exchanged, against, back = said
        margin = own + exchanged - (against + back)
        margin = np.where(has_both, margin / 2, margin)
        return [float(doubt) for doubt in np.clip(1 - margin / _CLEAR, 0.0, 1.0)]

    def _evidence(self, rows: Places, columns: Places) -> Floats:
        """Score what tells modules of one job apart: names, numbers, weights, outputs.

        Args:
            rows: Modules of the reference.
            columns: A module of the candidate for each.
        """
        mine, theirs = self._traits
        both = zip(rows.tolist(), columns.tolist(), strict=True)
        score = np.array([likeness(mine.words[one], theirs.words[two]) for one, two in both])
        score += _EQUAL_NUMBERS * (mine.numbers[rows] == theirs.numbers[columns])
        held = mine.weights[rows], theirs.weights[columns]
        score += _EQUAL_WEIGHTS * ((held[0] >= 0) & (held[0] == held[1]))
        given = mine.given[rows], theirs.given[columns]
        score += _EQUAL_INPUT * ((given[0] >= 0) & (given[0] == given[1]))
        near = alike_outputs(mine, rows, theirs, columns)
        score += np.maximum(near - _ALIKE, 0.0) / (1 - _ALIKE)
        after = mine.fed_to[rows], theirs.fed_to[columns]
        flow = np.where(after[0] == after[1], _EQUAL_FLOW, -_EQUAL_FLOW)
        return np.asarray(score + np.where((after[0] >= 0) & (after[1] >= 0), flow, 0.0))


def _with_doubts(
    rated: Rated, rivals: tuple[Sequence[int], Sequence[int]], doubts: Iterator[float]
) -> Rated:
    """Give a pair with the doubts that the rivals of its candidate, and of its reference, make."""
    ahead, back = ([next(doubts) for _ in side] for side in rivals)
    pair = ModulePair(
        reference=rated.pair.reference,
        candidate=rated.pair.candidate,
        paired_by=rated.pair.paired_by,
        confidence=1 / (1 + max(sum(ahead), sum(back))),
        alternatives=tuple(o for o, doubt in zip(rivals[0], ahead, strict=True) if doubt > 0),
    )
    others = tuple(other for other, doubt in zip(rivals[1], back, strict=True) if doubt > 0)
    return Rated(pair=pair, rivals=others, is_confirmed=rated.is_confirmed)
