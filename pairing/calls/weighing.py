"""How much other partners are in the way of a pair: what tells modules of one job apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.names import likeness, numbers_in, words_of
from padiff.pairing.result import ModulePair
from padiff.pairing.tensors.sketch import alike_numbers, alikeness, is_telling

from .doubt import Rated

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from padiff.dumpfile import RecordInfo
    from padiff.pairing.result import Matching
    from padiff.pairing.view import View

    from .rivals import RatedSide

__all__ = ["Weighing"]

_NAMED = 0.8
"""Paths this alike, numbers included, are those of partners."""
_CONFIRMED = 0.97
"""Outputs whose statistics are this near are those of partners."""


class Telling:
    """Finds the pairs that evidence of their own confirms, and that no other module shares."""

    def __init__(self, reference: View, candidate: View) -> None:
        self._views = reference, candidate
        self._names = tuple(
            Counter(_name(m.path) for m in view.modules if not view.children[m.id])
            for view in self._views
        )
        self.held = [
            [_weights_of(view, module) for module in range(len(view.modules))]
            for view in self._views
        ]
        """A key of the weights of each module of each side, None where they say nothing."""
        self._weights = tuple(
            Counter(key for key, owned in zip(held, view.weights, strict=True) if owned)
            for held, view in zip(self.held, self._views, strict=True)
        )

    def confirms(
        self, one: int, two: int, outputs: tuple[RecordInfo | None, RecordInfo | None]
    ) -> bool:
        """Tell whether two modules are told by their names or weights, or layers by their outputs.

        Args:
            one: Module of the reference.
            two: Module of the candidate.
            outputs: What the first call of each gave.
        """
        weights = self.held[0][one], self.held[1][two]
        if weights[0] is not None and weights[0] == weights[1]:
            counts = [side[weights[0]] for side in self._weights]
            if counts == [1, 1]:
                return True
        elif any(
            mine is not None and side[mine] == 1
            for mine, side in zip(weights, self._weights[::-1], strict=True)
        ):
            return False
        if self._are_namesakes(one, two):
            return True
        if not self._views[0].weights[one] or outputs[0] is None or outputs[1] is None:
            return False
        near = alikeness(self._views[0], outputs[0], self._views[1], outputs[1])
        return near is not None and near >= _CONFIRMED

    def _are_namesakes(self, one: int, two: int) -> bool:
        names = [
            _name(view.modules[m].path) for view, m in zip(self._views, (one, two), strict=True)
        ]
        if names[0] == names[1]:
            return bool(names[0][0]) and [side[names[0]] for side in self._names] == [1, 1]
        if names[0] in self._names[1] or names[1] in self._names[0]:
            return False
        return names[0][1] == names[1][1] and likeness(names[0][0], names[1][0]) >= _NAMED


def _name(path: str) -> tuple[frozenset[str], tuple[int, ...]]:
    return words_of(path), numbers_in(path)


def _weights_of(view: View, module: int) -> Hashable | None:
    """Give a key of a module's weights that no layout changes; None where they say nothing."""
    found = []
    for record in view.weights[module]:
        value = view.records[record].value
        statistics = None if value is None else view.values[value].statistics
        if statistics is None or statistics.minimum is None:
            return None
        if statistics.minimum != statistics.maximum:
            found.append((view.values[value or 0].size, statistics.minimum, statistics.maximum))
    return tuple(sorted(found)) or None


Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Of each module of a side; equal numbers of two sides mean the same, -1 that it is unknown."""

    words: Sequence[frozenset[str]]
    """Words of its path."""
    numbers: Places
    """For the numbers on its path."""
    weights: Places
    """For the content of the weights that it owns."""
    given: Places
    """For the value that went into it first."""
    fed_to: Places
    """For the jobs of the layers that take what it gives as it is."""
    outputs: Floats
    """Shape (modules, 3): minimum, maximum and l2 of what its first call gave."""
    is_told: npt.NDArray[np.bool_]
    """Whether these are known, and the output is no constant."""


def traits_of(
    side: RatedSide, held: Sequence[Hashable | None], numbers: dict[str, dict[Hashable, int]]
) -> Traits:
    """Gather the traits of a side, in one pass over its modules.

    Args:
        side: The side.
        held: A key of the weights of each module, None where they say nothing.
        numbers: Numbers of each trait, the same tables for both sides.
    """
    view = side.view
    paths = [module.path for module in view.modules]
    outputs, is_told = _outputs(side)

    def numbered(word: str, told: Iterable[Hashable | None]) -> Places:
        table = numbers.setdefault(word, {})
        keys = [-1 if key is None else table.setdefault(key, len(table)) for key in told]
        return np.array(keys, np.int64)

    return Traits(
        words=[words_of(path) for path in paths],
        numbers=numbered("numbers", map(numbers_in, paths)),
        weights=numbered("weights", held),
        given=numbered("given", [None if v is None else view.values[v].digest for v in side.given]),
        fed_to=numbered("fed to", side.fed_to),
        outputs=outputs,
        is_told=is_told,
    )


def _outputs(side: RatedSide) -> tuple[Floats, npt.NDArray[np.bool_]]:
    rows: list[tuple[float, float, float]] = []
    told: list[bool] = []
    for output in side.outputs:
        value = None if output is None or output.value is None else output.value
        known = None if value is None else side.view.values[value].statistics
        is_told = known is not None and known.l2 is not None and is_telling(known)
        told.append(is_told)
        if known is None or not is_told:
            rows.append((0.0, 0.0, 0.0))
        else:
            rows.append((known.minimum or 0.0, known.maximum or 0.0, known.l2 or 0.0))
    return np.array(rows).reshape(-1, 3), np.array(told, np.bool_)


def alike_outputs(reference: Traits, rows: Places, candidate: Traits, columns: Places) -> Floats:
    """Say how near what modules gave is, element by element, in [0, 1]; 0 where nobody can say."""
    near = alike_numbers(reference.outputs[rows], candidate.outputs[columns])
    return np.where(reference.is_told[rows] & candidate.is_told[columns], near, 0.0)


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
        """Begin."""
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
