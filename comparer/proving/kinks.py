"""Which gradients of weights differ since elements tie, though both programs are one function.

Where two elements are equal, or one is equal to its limit, a function has a kink, and the gradient
may go to the one, to the other or to both. Frameworks and forms choose otherwise: that is no
rounding, and training goes on otherwise. So each program is differentiated in float64 along the
difference of the two gradients, once with the first and once with the last of equal elements. What
only rounding made of the two gradients is no part of that: then all four are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.auditing.slices import cuts
from padiff.dumpfile import LeafKind, Phase
from padiff.program import Outer, derivatives

from .executed import LIMITS
from .result import TIED, LeafDifference
from .results import READ

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from padiff.program import Leaf
    from padiff.program.primitives import Array

    from .executed import Sink
    from .leaves import LeafPair, Leaves
    from .side import Side

_SHARE = 0.25
"""Of the difference of two gradients: what ties explain of it is all or next to nothing."""


def tied_gradients(
    sides: tuple[Side, Side], leaves: Leaves, results: Sequence[Sink], names: Collection[str]
) -> Iterator[LeafDifference]:
    """Yield the gradients of weights that go other ways where elements are equal.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    if not names or not all(map(_is_smooth, sides)):
        return
    ways = list(_differences(sides, leaves, names))
    if not ways or _spread(sides, leaves, results, ways) < _SHARE:
        return
    for way in ways:
        if _spread(sides, leaves, results, [way]) >= _SHARE:
            known, found = (side.program.values for side in sides)
            yield LeafDifference(
                reference=known[way.pair.reference[0]].name,
                candidate=found[way.pair.candidate].name,
                kind=TIED,
                elements=int(np.count_nonzero(way.gap)),
                of=way.gap.size,
                largest=float(np.abs(way.gap).max()) / (way.size or 1.0),
            )


def _is_smooth(side: Side) -> bool:
    """Return whether gradients of weights follow from the program: nothing is cut off or unknown.

    What comes of no weight, as positions computed in ``no_grad``, hands none on in any case.
    """
    lowered, values = side.lowered, side.program.values
    weights = (one.id for one in values if one.kind is LeafKind.PARAMETER)
    made = {lowered.terms[one] for one in weights if one in lowered.terms}
    for node in lowered.nodes:
        if not made.isdisjoint(node.operands):
            made.update(node.outputs)
    cut = {one.id for one in side.cuts}
    return not any(
        lowered.terms.get(value) in made
        for one in side.program.operators
        if one.phase is not Phase.UPDATE
        and (one.id in cut or one.no_grad or cuts(one) or isinstance(one.keywords.get(READ), float))
        for value in one.taken
    )


@dataclass(frozen=True, slots=True)
class _Way:
    """How the two gradients of a weight differ."""

    pair: LeafPair
    gap: Array
    """As the candidate's lies."""
    size: float
    """Root mean square of the reference's."""

    @property
    def direction(self) -> Array:
        """The difference, with which its own product is 1."""
        return self.gap / float(np.vdot(self.gap, self.gap))


def _differences(
    sides: tuple[Side, Side], leaves: Leaves, names: Collection[str]
) -> Iterator[_Way]:
    """Yield how gradients of weights differ."""
    known, found = sides
    for own, pair in leaves.pairs.items():
        value = found.program.values[own]
        if value.kind is not LeafKind.PARAMETER or value.name not in names:
            continue
        if "complex" in value.dtype:
            continue  # a direction of complex numbers has two parts
        gradient = found.recorded.gradient(own)
        parts = [known.recorded.gradient(one) for one in pair.reference]
        given = [one.astype(np.float64) for one in parts if one is not None]
        if gradient is None or len(given) != len(parts):
            continue
        wanted = pair.rule.apply(given, value.shape)
        gap = gradient - wanted
        if np.isfinite(gap).all() and gap.any():
            size = float(np.sqrt(np.mean(np.square(wanted))))
            yield _Way(pair, gap, size)


def _spread(
    sides: tuple[Side, Side], leaves: Leaves, results: Sequence[Sink], ways: Iterable[_Way]
) -> float:
    """Return how far apart the derivatives of both programs are along some ways together.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    directions: tuple[dict[int, Array], dict[int, Array]] = {}, {}
    for way in ways:
        shapes = [sides[0].program.values[one].shape for one in way.pair.reference]
        back = way.pair.rule.inverses(shapes, way.gap.shape)
        if back is None:
            continue
        directions[1][way.pair.candidate] = way.direction
        for one, rule, shape in zip(way.pair.reference, back, shapes, strict=True):
            directions[0][one] = rule.apply([way.direction], shape)
    given = leaves.of_reference(*sides), leaves.of_candidate(*sides)
    found = [
        _along(sides, which, given[which], directions[which], results, is_first=is_first)
        for which in (0, 1)
        for is_first in (False, True)
    ]
    known = [one for one in found if one is not None]
    return max(known) - min(known) if len(known) == len(found) else 0.0


def _along(
    sides: tuple[Side, Side],
    which: int,
    given: Mapping[int, Leaf],
    directions: Mapping[int, Array],
    results: Sequence[Sink],
    *,
    is_first: bool,
) -> float | None:
    """Return the product of the results' gradients with how they move; None if nobody knows."""
    sinks = [(sink, _arriving(sides[0], sink)) for sink in results if not sink.others]
    if all(gradient is None for _, gradient in sinks):
        sinks = [(sink, np.ones(()) if sink.is_loss else None) for sink, _ in sinks]
    seen = {
        sink.candidate if which else sink.reference: (sink, gradient)
        for sink, gradient in sinks
        if gradient is not None
    }
    moved = derivatives(
        sides[which].lowered, given, directions, [*seen], is_first=is_first, limits=LIMITS
    )
    if moved is None or not seen:
        return None
    total = 0.0
    for value, tangent in moved.items():
        sink, gradient = seen[value]
        dense = tangent.dense() if isinstance(tangent, Outer) else tangent
        if which and sink.rule is not None:
            gradient = sink.rule.apply([gradient], dense.shape)
        total += float(np.vdot(gradient, dense))
    return total if np.isfinite(total) else None


def _arriving(reference: Side, sink: Sink) -> Array | None:
    """Return the gradient that arrived at a result of the reference."""
    found = reference.recorded.gradient(sink.reference)
    return None if found is None else found.astype(np.float64)
