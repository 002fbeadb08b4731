"""Which gradients of weights that differ are no rounding, though both programs are one function.

Where two elements are equal, or one is equal to its limit, a function has a kink, and the gradient
may go to the one, to the other or to both. Frameworks and forms choose otherwise: that is no
rounding, and training goes on otherwise. So each program is differentiated in float64 along the
difference of the two gradients, once with the first and once with the last of equal elements. What
only rounding made of the two gradients is no part of that: then all four are the same.

What one side detaches and the other one computes without a graph stays in that, as in training.
Where each program has the gradients that were recorded, whatever else differs is rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.auditing.slices import carrying_gradients, cuts
from padiff.dumpfile import LeafKind, Phase
from padiff.program import Outer, derivatives

from .executed import LIMITS
from .result import TIED, LeafDifference
from .results import READ

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from padiff.program.primitives import Array

    from .executed import Sink
    from .leaves import LeafPair, Leaves
    from .side import Side

_SHARE = 0.25
"""Of the difference of two gradients: what ties explain of it is all or next to nothing."""


_FOLLOWED = 1e-2
"""By how much the derivative along a recorded gradient may miss its square: rounding is smaller."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What execution says of gradients that differ."""

    differences: tuple[LeafDifference, ...] = ()
    """Those that go to others of equal elements."""
    is_known: bool = False
    """Whether both programs have the gradients that were recorded, so that others are rounding."""


def follow_gradients(
    sides: tuple[Side, Side], leaves: Leaves, results: Sequence[Sink], names: Collection[str]
) -> Followed:
    """Compare gradients of weights that differ by what both programs say they are.

    Args:
        sides: The reference and the candidate.
        leaves: Of both.
        results: What they give.
        names: The candidate's names of these weights.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    if not names or not all(map(_is_smooth, sides)):
        return Followed()
    every = list(_gradients(sides, leaves))
    ways = [
        way
        for way in every
        if way.gap.any() and sides[1].program.values[way.pair.candidate].name in names
    ]
    if not ways:
        return Followed()
    following = _Following(sides, leaves, results)
    if following.spread(ways) < _SHARE:
        return Followed(is_known=len(ways) == len(names) and following.has_gradients(every))
    is_cut = following.is_cut  # then another gradient need not be one of equal elements
    tied = (way for way in ways if following.spread([way], is_tie=is_cut) >= _SHARE)
    return Followed(differences=tuple(_difference(sides, way) for way in tied))


def _difference(sides: tuple[Side, Side], way: _Way) -> LeafDifference:
    known, found = (side.program.values for side in sides)
    return LeafDifference(
        reference=known[way.pair.reference[0]].name,
        candidate=found[way.pair.candidate].name,
        kind=TIED,
        elements=int(np.count_nonzero(way.gap)),
        of=way.gap.size,
        largest=float(np.abs(way.gap).max()) / (way.size or 1.0),
    )


def _is_smooth(side: Side) -> bool:
    """Return whether gradients of weights follow from the program: all of it is known.

    What comes of no weight hands none on in any case.
    """
    lowered, values = side.lowered, side.program.values
    weights = (one.id for one in values if one.kind is LeafKind.PARAMETER)
    made = {lowered.terms[one] for one in weights if one in lowered.terms}
    for node in lowered.nodes:
        if not made.isdisjoint(node.operands):
            made.update(node.outputs)
    unknown = {one.id for one in side.cuts} | carrying_gradients(side.recorded)
    return not any(
        lowered.terms.get(value) in made
        for one in side.program.operators
        if one.phase is not Phase.UPDATE
        and (
            one.id in unknown
            or (one.no_grad and one.in_place)
            or isinstance(one.keywords.get(READ), float)
        )
        for value in one.taken
    )


def _stopped(side: Side) -> set[int]:
    """Return the values that hand no gradient back: detached ones, and those without a graph."""
    return {
        value
        for one in side.program.operators
        if one.phase is not Phase.UPDATE and (one.no_grad or cuts(one))
        for value in one.outputs
    }


@dataclass(frozen=True, slots=True)
class _Way:
    """How the two gradients of a weight differ."""

    pair: LeafPair
    known: Array
    """The reference's, as the candidate's lies."""
    gap: Array
    """How far the candidate's is from it."""

    @property
    def direction(self) -> Array:
        """The difference, with which its own product is 1."""
        return self.gap / float(np.vdot(self.gap, self.gap))

    @property
    def size(self) -> float:
        """Root mean square of the reference's."""
        return float(np.sqrt(np.mean(np.square(self.known))))


def _gradients(sides: tuple[Side, Side], leaves: Leaves) -> Iterator[_Way]:
    """Yield the gradients of the weights that both sides train."""
    known, found = sides
    for own, pair in leaves.pairs.items():
        value = found.program.values[own]
        if value.kind is not LeafKind.PARAMETER or "complex" in value.dtype:
            continue  # a direction of complex numbers has two parts
        gradient = found.recorded.gradient(own)
        parts = [known.recorded.gradient(one) for one in pair.reference]
        given = [one.astype(np.float64) for one in parts if one is not None]
        if gradient is None or len(given) != len(parts):
            continue
        wanted = pair.rule.apply(given, value.shape)
        gap = gradient - wanted
        if np.isfinite(gap).all():
            yield _Way(pair, wanted, gap)


class _Following:
    """Differentiates both programs along directions."""

    def __init__(self, sides: tuple[Side, Side], leaves: Leaves, results: Sequence[Sink]) -> None:
        self._sides, self._results = sides, results
        self._given = leaves.of_reference(*sides), leaves.of_candidate(*sides)
        self._stopped = _stopped(sides[0]), _stopped(sides[1])
        self.is_cut = any(self._stopped)
        """Whether one of them cuts gradients off."""

    def has_gradients(self, ways: Sequence[_Way]) -> bool:
        """Return whether both programs have the gradients of both sides, but for rounding.

        Small ones may be nothing but rounding: all of them together count.
        """
        recorded = [way.known for way in ways], [way.known + way.gap for way in ways]
        for gradients in recorded:
            size = sum(float(np.vdot(one, one)) for one in gradients) or 1.0
            along = zip(ways, (one / size for one in gradients), strict=True)
            found = self._along([*along])
            if found is None or any(abs(one - 1.0) > _FOLLOWED for side in found for one in side):
                return False
        return True

    def spread(self, ways: Sequence[_Way], *, is_tie: bool = False) -> float:
        """Return how far apart the derivatives of both programs are along some ways together.

        Args:
            ways: How gradients differ.
            is_tie: Whether only that counts which the order of equal elements makes in one program.
        """
        found = self._along([(way, way.direction) for way in ways])
        if found is None:
            return 0.0
        groups = found if is_tie else [[one for side in found for one in side]]
        return max(max(group) - min(group) for group in groups)

    def _along(self, ways: Sequence[tuple[_Way, Array]]) -> list[list[float]] | None:
        """Return the derivatives of each side, with the last and the first of equal elements.

        Raises:
            ProgramError: Elements lack, or a limit is passed.
            DumpFormatError: Elements are damaged.
        """
        directions: tuple[dict[int, Array], dict[int, Array]] = {}, {}
        values = self._sides[0].program.values
        for way, direction in ways:
            shapes = [values[one].shape for one in way.pair.reference]
            back = way.pair.rule.inverses(shapes, way.gap.shape)
            if back is None:
                continue
            directions[1][way.pair.candidate] = direction
            for one, rule, shape in zip(way.pair.reference, back, shapes, strict=True):
                directions[0][one] = rule.apply([direction], shape)
        found = [
            [self._of_side(which, directions[which], is_first=one) for one in (False, True)]
            for which in (0, 1)
        ]
        known = [[one for one in side if one is not None] for side in found]
        return known if known == found else None

    def _of_side(
        self, which: int, directions: Mapping[int, Array], *, is_first: bool
    ) -> float | None:
        """Return the product of the results' gradients with how they move; None if unknown."""
        seen = self._arriving(which)
        moved = derivatives(
            self._sides[which].lowered, self._given[which], directions, [*seen],
            stopped=self._stopped[which], is_first=is_first, limits=LIMITS,
        )  # fmt: skip
        if moved is None or not seen:
            return None
        total = 0.0
        for value, tangent in moved.items():
            sink, gradient = seen[value]
            dense = tangent.dense() if isinstance(tangent, Outer) else tangent
            if dense.dtype.kind == "c":
                return None
            if which and sink.rule is not None:
                gradient = sink.rule.apply([gradient], dense.shape)
            total += float(np.vdot(gradient, dense))
        return total if np.isfinite(total) else None

    def _arriving(self, which: int) -> dict[int, tuple[Sink, Array]]:
        """Return the gradient that arrived at each result: of losses all, or of what they rest on.

        What a model gives is not all that a loss is made of.
        """
        sinks = [one for one in self._results if not one.others]
        seen = [(one, np.ones(())) for one in sinks if one.is_loss]
        if not seen:
            reference = self._sides[0].recorded
            found = ((one, reference.gradient(one.reference)) for one in sinks)
            seen = [(one, array.astype(np.float64)) for one, array in found if array is not None]
        return {(one.candidate if which else one.reference): (one, array) for one, array in seen}
