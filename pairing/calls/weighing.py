"""How much other partners are in the way of a pair: what tells modules of one job apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.pairing.names import likeness, words_of
from padiff.pairing.result import ModulePair
from padiff.pairing.tensors.sketch import alikeness

from .doubt import Rated
from .telling import Telling, numbers_in

if TYPE_CHECKING:
    from padiff.pairing.weights.matching import Matching

    from .rivals import RatedSide

__all__ = ["Weighing"]

_CLEAR = 0.3
"""A partner whose evidence is better by so much leaves no doubt."""
_EQUAL_WEIGHTS = 2.0
_EQUAL_NUMBERS = 0.5
_EQUAL_INPUT = 1.0
_EQUAL_FLOW = 1.0
_ALIKE = 0.8
"""Outputs whose statistics are nearer than this speak for a pair; below, chance does it, too."""


class Weighing:
    """Weighs pairs of leaves against those that other partners would make."""

    def __init__(self, sides: tuple[RatedSide, RatedSide], modules: Matching) -> None:
        """Begin.

        Args:
            sides: Both sides.
            modules: The paired modules.
        """
        self.views = sides[0].view, sides[1].view
        self._sides = sides
        self._modules = modules
        self._telling = Telling(*self.views)
        self._known: dict[tuple[int, int], float] = {}
        """Evidence for pairs: siblings ask for the same ones."""

    def are_told(self, one: int, two: int) -> bool:
        """Tell whether names, weights or outputs of their own single two leaves out."""
        outputs = self._sides[0].outputs[one], self._sides[1].outputs[two]
        return self._telling.confirms(one, two, outputs)

    def weighed(self, rated: Rated) -> Rated:
        """Give a pair with its confidence and with what could stand in for its two modules.

        Args:
            rated: A pair; as it is if it was weighed already.
        """
        if rated.is_weighed:
            return rated
        one, two = rated.pair.reference, rated.pair.candidate
        sides, modules = self._sides, self._modules
        doubts = {
            other: self._doubt((one, two), (modules.back.get(other), other))
            for other in sides[1].rivals(two, one, sides[0])
        }
        back = {
            other: self._doubt((one, two), (other, modules.ahead.get(other)))
            for other in sides[0].rivals(one, two, sides[1])
        }
        pair = ModulePair(
            reference=one,
            candidate=two,
            paired_by=rated.pair.paired_by,
            confidence=1 / (1 + max(sum(doubts.values()), sum(back.values()))),
            alternatives=tuple(other for other, doubt in doubts.items() if doubt > 0),
        )
        others = tuple(other for other, doubt in back.items() if doubt > 0)
        return Rated(pair=pair, rivals=others, is_confirmed=rated.is_confirmed)

    def _doubt(self, chosen: tuple[int, int], rest: tuple[int | None, int | None]) -> float:
        """Say how much another partner is in the way of a pair, in [0, 1].

        Args:
            chosen: The pair.
            rest: A rival of one of the two and its partner, None if it has none. If both are
                there, the two pairs are weighed against those that exchanging partners makes: what
                speaks against the exchange for one pair speaks for both.
        """
        (one, two), (other, partner) = chosen, rest
        margin = self._evidence(one, two)
        if other is not None and partner is not None:
            margin += self._evidence(other, partner)
            margin -= self._evidence(one, partner) + self._evidence(other, two)
            margin /= 2
        elif partner is not None:
            margin -= self._evidence(one, partner)
        elif other is not None:
            margin -= self._evidence(other, two)
        return min(max(1 - margin / _CLEAR, 0.0), 1.0)

    def _evidence(self, one: int, two: int) -> float:
        known = self._known.get((one, two))
        if known is None:
            known = self._known[one, two] = self._gathered(one, two)
        return known

    def _gathered(self, one: int, two: int) -> float:
        """Score what tells modules of one job apart: names, numbers, weights, outputs."""
        reference, candidate = self.views
        paths = reference.modules[one].path, candidate.modules[two].path
        score = likeness(words_of(paths[0]), words_of(paths[1]))
        score += _EQUAL_NUMBERS * (numbers_in(paths[0]) == numbers_in(paths[1]))
        score += _EQUAL_WEIGHTS * self._telling.is_same_weight(one, two)
        given = self._sides[0].fed(one), self._sides[1].fed(two)
        if given[0] is not None and given[1] is not None:
            score += _EQUAL_INPUT * (given[0].digest == given[1].digest)
        outputs = self._sides[0].outputs[one], self._sides[1].outputs[two]
        if outputs[0] is not None and outputs[1] is not None:
            near = alikeness(reference, outputs[0], candidate, outputs[1]) or 0.0
            score += max(near - _ALIKE, 0.0) / (1 - _ALIKE)
        after = self._sides[0].fed_to[one], self._sides[1].fed_to[two]
        if None not in after:
            score += _EQUAL_FLOW if after[0] == after[1] else -_EQUAL_FLOW
        return score
