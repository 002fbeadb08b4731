"""Prove two functions the same piece by piece, from one border of modules to the next.

Where two programs compute the same in two ways, everything behind that is another expression.
But if the two ways agree when both take the same elements, the expressions behind them are the
same again. So each pair of inputs or outputs of modules that is not the same expression is
executed alone, from the nearest values that are: from what the reference recorded there, and once
more from a second set, and from a third where elements are compared with limits. What agrees in all
of them counts as one expression from there on. Matrix products
that both programs write alike are never executed.

Nothing rests on this alone: where a piece does not agree, or not all of a piece is finite, the
programs are executed as wholes.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpFormatError, Phase, ProgramError, Role
from padiff.program import UNIT_ROUNDOFF

from .coincidence import LARGER, Second, has_limits
from .executed import LIMITS, Runs, Sink

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.pairing import Pairing
    from padiff.program import Leaf
    from padiff.program.primitives import Array

    from .leaves import Leaves
    from .numbering import Numbering
    from .side import Side

_BORDERS = frozenset({Role.INPUT, Role.OUTPUT})
_FACTORS = (-2.0, 2.0)
"""What values are multiplied by in the second set, beside random signs, as powers of two: a ReLU
that meets no negative element, or a limit that nothing reaches, shows there."""
_HELD_BYTES = 32 << 20
"""Of a side, at most."""


def joined(
    sides: tuple[Side, Side], leaves: Leaves, pairing: Pairing, numbering: Numbering
) -> Joining:
    """Join what agrees piece by piece."""
    joining = Joining(sides, leaves, _borders(sides, pairing), numbering)
    joining.run()
    return joining


class Joining:
    """The candidate's expressions, with what was proved to be one of the reference's."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        leaves: Leaves,
        borders: Mapping[int, tuple[int, int]],
        numbering: Numbering,
    ) -> None:
        """Begin with what is the same by construction."""
        self._sides, self._leaves, self._borders = sides, leaves, borders
        self._numbering = numbering
        self.numbers: Sequence[int] = numbering.candidate
        """By the candidate's term."""
        self.errors: list[float] = []
        """The largest differences of the pieces, over the root mean square of each."""
        self._left = sum(len(side.lowered.nodes) for side in sides)
        """How many primitives may still be executed, of pieces that may turn out to differ."""
        self._known = _recorded(sides[0], numbering.reference)
        self._refuted: tuple[dict[int, Array], dict[int, Array]] = {}, {}
        """What the last pieces that do not agree made, of both sides: those behind start there."""
        self.is_refuted = False
        """Whether there was one."""

    def run(self) -> None:
        """Go through the candidate in its order."""
        self.numbers = self._numbering.of_candidate(self._sides[1].lowered, {}, join=self._join)
        self._refuted = {}, {}

    def is_same(self, sink: Sink) -> bool:
        """Return whether two values that lie alike are one expression now."""
        known, found = (side.lowered.terms for side in self._sides)
        return (
            sink.is_plain
            and self._numbering.reference[known[sink.reference]]
            == self.numbers[found[sink.candidate]]
        )

    def _join(self, term: int, numbers: Sequence[int]) -> int | None:
        """Return the reference's number of a term that agrees with its partner, else None."""
        border = self._borders.get(term)
        if border is None:
            return None
        sink = Sink(*border, None)
        wanted = self._numbering.reference[self._sides[0].lowered.terms[sink.reference]]
        if numbers[term] == wanted:
            return None
        try:
            return wanted if self._agree(sink, wanted, numbers) else None
        except (ProgramError, DumpFormatError):
            return None

    def _agree(self, sink: Sink, wanted: int, numbers: Sequence[int]) -> bool:
        """Execute one piece of both programs, from recorded values and from a second set."""
        shared = {number: self._known[number] for number in set(numbers) & self._known.keys()}
        is_repeated = shared.pop(wanted, None) is not None
        cuts = self._cuts(0, self._numbering.reference, shared), self._cuts(1, numbers, shared)
        places = [
            side.lowered.behind([side.lowered.terms[value]], known=cut.keys())
            for side, cut, value in zip(
                self._sides, cuts, (sink.reference, sink.candidate), strict=True
            )
        ]
        self._left -= sum(map(len, places))
        if self._left < 0:
            return False
        executed = ({}, {}) if is_repeated else self._refuted
        runs = Runs(self._sides, self._given(cuts, None), [sink], executed)
        if not (runs.is_finite(sink) and runs.agree(sink, partial(self._rounded, runs, sink))):
            self._hold(runs)
            return False
        is_limited = any(map(has_limits, (side.lowered for side in self._sides), places))
        for is_larger in (False, True)[: 1 + is_limited]:
            second = Second(self._sides, self._leaves, is_larger=is_larger)
            if second.is_read(0, [sink.reference]) or second.is_read(1, [sink.candidate]):
                break
            again = Runs(self._sides, self._given(cuts, second), [sink], limits=LIMITS)
            is_finite = again.is_finite(sink)
            if (is_finite or not is_larger) and not (is_finite and second.agree(again, sink)):
                return False
        self.errors.append(runs.error(sink))
        self._left += sum(map(len, places))
        return True

    def _hold(self, runs: Runs) -> None:
        """Hold what a piece made that does not agree, beside as much as there is room for."""
        self.is_refuted = True
        for held, made in zip(self._refuted, runs.arrays, strict=True):
            held.update(made)
            while sum(one.nbytes for one in held.values()) > _HELD_BYTES:
                del held[next(iter(held))]

    def _rounded(self, runs: Runs, sink: Sink) -> tuple[Array, float]:
        """Return what rounding did to a piece of the reference, and how large its errors were.

        The elements that it made were recorded, as were those that it is executed from.
        """
        side = self._sides[0]
        recorded, (exact, _) = side.recorded.elements(sink.reference), runs.pair(sink)
        unit = UNIT_ROUNDOFF.get(side.program.values[sink.reference].dtype)
        if recorded is None or unit is None:
            return np.full(exact.shape, np.inf), 1.0
        return np.abs(recorded.astype(exact.dtype) - exact), unit / UNIT_ROUNDOFF["float64"]

    def _cuts(
        self, which: int, numbers: Sequence[int], shared: Mapping[int, int]
    ) -> dict[int, tuple[int, int]]:
        """Return where a program is cut: by term a value of its own, and one of the reference."""
        side = self._sides[which]
        own = set(side.lowered.leaves)
        return {
            term: (value, shared[numbers[term]])
            for value, term in side.lowered.terms.items()
            if numbers[term] in shared and term not in own
        }

    def _given(
        self,
        cuts: tuple[Mapping[int, tuple[int, int]], Mapping[int, tuple[int, int]]],
        second: Second | None,
    ) -> tuple[dict[int, Leaf], dict[int, Leaf]]:
        """Return the leaves of both programs, and what stands at the cuts."""
        found: list[dict[int, Leaf]] = [
            self._leaves.of_reference(*self._sides, second),
            self._leaves.of_candidate(*self._sides, second),
        ]
        loads: dict[int, Leaf] = {}
        for given, cut in zip(found, cuts, strict=True):
            for own, known in cut.values():
                if known not in loads:
                    load = loads[known] = self._sides[0].recorded_leaf(known)
                    if second is not None:
                        times = 2**LARGER if second.is_larger else 1.0
                        loads[known] = cache(partial(_varied, known, load, times))
                given[own] = loads[known]
        return found[0], found[1]


def _varied(value: int, load: Leaf, times: float) -> Array:
    """Return recorded elements, each multiplied by a random factor of either sign."""
    array = load() if callable(load) else load
    varied = array.astype(np.float64, order="C") * times
    flat = varied.reshape(-1)
    places = np.random.default_rng(value).integers(0, _DRAWN, flat.size // _DRAWN + 1)
    for place, start in zip(places, range(0, flat.size, _DRAWN), strict=False):
        block = flat[start : start + _DRAWN]
        block *= _drawn()[place : place + block.size]
    return varied


@cache
def _drawn() -> Array:
    """Return random factors that are drawn once; each block of elements begins at one of them."""
    random = np.random.default_rng(_DRAWN)
    factors = np.exp2(random.uniform(*_FACTORS, 2 * _DRAWN))
    return np.asarray(factors * random.choice((-1.0, 1.0), 2 * _DRAWN))


_DRAWN = 1 << 16
"""Factors of one block of elements."""


def _recorded(side: Side, numbers: Sequence[int]) -> dict[int, int]:
    """Return a computed value with recorded elements for each expression that has one.

    Zeros times anything are zeros: what is made of a bias that was just begun, or behind a weight
    of zeros, is computed anew from leaves that are none in the second set.
    """
    found: dict[int, int] = {}
    for value in side.program.values:
        is_real = value.dtype in UNIT_ROUNDOFF and "complex" not in value.dtype
        info = side.recorded.info(value.id)
        if (
            value.kind is None
            and is_real
            and value.id in side.lowered.terms
            and side.recorded.has_elements(value.id)
            and not (info is not None and info.statistics.l2 == 0)
        ):
            found.setdefault(numbers[side.lowered.terms[value.id]], value.id)
    return found


def _borders(sides: tuple[Side, Side], pairing: Pairing) -> dict[int, tuple[int, int]]:
    """Return what paired calls take and make that lies alike, by the candidate's term."""
    known, found = sides
    found_terms = found.lowered.terms
    borders: dict[int, tuple[int, int]] = {}
    for pair in pairing.records:
        record = found.file.index.records[pair.candidate]
        is_border = record.role in _BORDERS and record.phase is Phase.FORWARD
        if not is_border or pair.rule.steps or pair.candidate_rule.steps:
            continue
        one = known.recorded.borders.get(pair.reference[0])
        two = found.recorded.borders.get(pair.candidate)
        if one is None or two is None or len(pair.reference) != 1:
            continue
        is_float = found.program.values[two].dtype in UNIT_ROUNDOFF
        if is_float and one in known.lowered.terms and two in found_terms:
            borders[found_terms[two]] = one, two
    return borders
