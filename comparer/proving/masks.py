"""Pair masks that are drawn by hand with what dropouts drew: values of zeros and ones.

One port calls a dropout, another one draws uniform numbers and asks which are above a share, or
rounds them down. What follows from draws alone and holds nothing but zeros and ones is a mask, and
the masks of both sides are partners in order. What a mask is drawn with shows how large a share of
ones it has: partners have the same, unless one says what is kept and the other what is not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import DumpFormatError, LeafKind, ProgramError
from padiff.program import UNIT_ROUNDOFF, execute, fitted

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from padiff.program import Leaf, Operator
    from padiff.program.primitives import Array

    from .side import Side

_UNIFORM = "uniform"
"""What operators draw that draw numbers of which none is more likely."""
_HALVINGS = 30
"""Until the number at which a mask turns is known to 1e-9 of the range."""


class Masks:
    """The masks that one side draws, of draws without a partner."""

    def __init__(self, side: Side, settled: Container[int]) -> None:
        """Find them."""
        self._side = side
        terms = side.lowered.terms
        self._draws = {
            terms[one.id]: one.id
            for one in side.program.values
            if one.kind is LeafKind.RANDOM
            and one.id not in settled
            and one.id in terms
            and side.recorded.has_elements(one.id)
        }
        self.arrays: dict[int, Array] = self._find() if self._draws else {}
        """What each holds, by value id, in order."""

    def _find(self) -> dict[int, Array]:
        """Return the first values on each way that hold zeros and ones alone."""
        side, terms = self._side, self._side.lowered.terms
        drawn = self._followed(set(self._draws), set())
        values = [one.id for one in side.program.values if terms.get(one.id) in drawn]
        leaves = {value: side.recorded_leaf(value) for value in self._draws.values()}
        try:
            made = execute(side.lowered, leaves, values)
        except (ProgramError, DumpFormatError):
            return {}
        found: dict[int, Array] = {}
        behind: set[int] = set()
        for value in values:
            array, term = made[value], terms[value]
            if term not in behind and bool(np.all((array == 0) | (array == 1))):
                found[value] = array
                behind |= self._followed({term}, set())
        return found

    def draw_of(self, mask: int) -> int | None:
        """Return the draw that a mask follows from, if it is one alone."""
        lowered = self._side.lowered
        wanted = lowered.terms[mask]
        behind = {
            term for place in lowered.behind([wanted]) for term in lowered.nodes[place].operands
        }
        draws = [value for term, value in self._draws.items() if term in behind | {wanted}]
        return draws[0] if len(draws) == 1 else None

    def drawn(self, mask: int) -> tuple[Operator, float] | None:
        """Return the operator that draws a mask, and the share of ones that it draws.

        None where a mask follows from several draws, or from one of which that is not known.
        """
        draw = self.draw_of(mask)
        if draw is None:
            return None
        makers = (one for one in self._side.program.operators if [*one.outputs] == [draw])
        operator = self._side.draws.get(draw) or next(makers, None)
        if operator is None:
            return None
        try:
            share = self._share(operator, mask)
        except (ProgramError, DumpFormatError):
            return None
        return None if share is None else (operator, share)

    def _share(self, operator: Operator, mask: int) -> float | None:
        """Return the share of ones; what ``bernoulli`` draws is a mask itself."""
        if mask in self._side.draws:  # a dropout, and what it kept
            given = operator.name, operator.positional, operator.keywords
            dropped = dict(self._side.table.named(*given)).get("p")
            return 1 - dropped if isinstance(dropped, float) else None
        if operator.name.rpartition(".")[2].strip("_") == "bernoulli":
            share = self._side.drawn_by(operator).get("p")
            if share is None:
                return self._constant(operator.taken[0])
            return float(share)  # type: ignore[arg-type]
        draw = self.draw_of(mask)
        is_uniform = self._side.table.draws(operator.name) == _UNIFORM
        return None if draw is None or not is_uniform else self._share_of_range(draw, mask)

    def _share_of_range(self, draw: int, mask: int) -> float | None:
        """Return the share of ones where a mask turns once while what is drawn goes from 0 to 1."""
        kept = [self._kept_at(draw, end, mask) for end in (0.0, 1.0)]
        if None in kept or kept[0] == kept[1]:
            return None
        begin, end = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = (begin + end) / 2
            if self._kept_at(draw, middle, mask) == kept[0]:
                begin = middle
            else:
                end = middle
        return begin if kept[0] else 1 - begin

    def _kept_at(self, draw: int, number: float, mask: int) -> float | None:
        """Return what a mask holds everywhere if a number is drawn everywhere."""
        shape = self._side.program.values[draw].shape
        return _only(self.made(mask, {draw: np.full(shape, number)}))

    def _constant(self, value: int) -> float | None:
        """Return the number that all elements of a value are, if it follows from numbers alone."""
        return _only(self.made(value, {}))

    def made(self, value: int, drawn: dict[int, Leaf]) -> Array:
        """Return what the program makes of what is drawn, in float64."""
        return execute(self._side.lowered, drawn, [value])[value]

    def _followed(self, begun: set[int], ends: Container[int]) -> set[int]:
        """Return terms and what follows from them and numbers alone, but not through the ends."""
        found, numbers = set(begun), set[int]()
        for node in self._side.lowered.nodes:
            if numbers.issuperset(node.operands):
                numbers.update(node.outputs)
            elif all(
                (term in found and term not in ends) or term in numbers for term in node.operands
            ):
                found.update(node.outputs)
        return found

    def covered(self) -> set[int]:
        """Return the draws that nothing takes but by way of a mask, by value id."""
        terms = self._side.lowered.terms
        ends = {terms[value] for value in self.arrays}
        found = set[int]()
        for term, value in self._draws.items():
            reached = self._followed({term}, ends) - ends
            taken = (
                node
                for node in self._side.lowered.nodes
                if not reached.isdisjoint(node.operands) and not reached.issuperset(node.outputs)
            )
            if all(ends.issuperset(node.outputs) for node in taken):
                found.add(value)
        return found


def pair_masks(known: Masks, found: Masks) -> dict[int, int]:
    """Return the masks of the reference by those of the candidate; none where counts differ."""
    if len(known.arrays) != len(found.arrays):
        return {}
    pairs = zip(known.arrays.items(), found.arrays.items(), strict=True)
    return {
        own: one
        for (one, array), (own, other) in pairs
        if _fits(array, other.shape)
    }  # fmt: skip


def drawn_in_two_ways(pairs: Iterable[tuple[int, int]], sides: tuple[Side, Side]) -> Iterator[int]:
    """Yield what the candidate draws of which two formulas make masks of the same share of ones.

    ``rand < p`` and ``floor(rand + p)``: not what is drawn is the same, but how many are kept.
    """
    uniform = [
        pair
        for pair in pairs
        if all(map(_is_uniform, sides, pair))
    ]  # fmt: skip
    if not uniform:
        return
    wanted = [{pair[which] for pair in uniform} for which in (0, 1)]
    both = tuple(
        Masks(side, {one.id for one in side.program.values} - draws)
        for side, draws in zip(sides, wanted, strict=True)
    )
    known, found = ({masks.draw_of(one): one for one in masks.arrays} for masks in both)
    covered = [
        masks.covered() & draws.keys() for masks, draws in zip(both, (known, found), strict=True)
    ]
    for one, own in uniform:
        if one not in covered[0] or own not in covered[1]:
            continue
        try:
            made = both[1].made(found[own], {own: sides[0].recorded_leaf(one)})
        except (ProgramError, DumpFormatError):
            continue
        if not np.array_equal(made, both[0].arrays[known[one]]):
            shares = both[0].drawn(known[one]), both[1].drawn(found[own])
            if shares[0] and shares[1] and is_same_number(shares[0][1], shares[1][1]):
                yield own


def _is_uniform(side: Side, draw: int) -> bool:
    return draw in side.draws and side.table.draws(side.draws[draw].name) == _UNIFORM


def are_turned(known: tuple[Operator, float] | None, found: tuple[Operator, float] | None) -> bool:
    """Return whether one mask says what is kept, and the other one what is not, by their shares."""
    if known is None or found is None or is_same_number(known[1], found[1]):
        return False
    return is_same_number(known[1], 1 - found[1])


def is_same_number(known: float, found: float) -> bool:
    """Return whether two settings of draws are one: a framework may keep a number in float32."""
    return math.isclose(known, found, rel_tol=UNIT_ROUNDOFF["float32"])


def _only(array: Array) -> float | None:
    """Return the number that all elements are, if there is one."""
    return float(array.flat[0]) if array.size and np.all(array == array.flat[0]) else None


def _fits(array: Array, shape: tuple[int, ...]) -> bool:
    """Return whether a mask can stand for one of another shape: it is the same along some axes."""
    try:
        other = fitted(array, shape)
        whole = np.broadcast_shapes(array.shape, shape)
    except ValueError:
        return False
    return np.array_equal(np.broadcast_to(array, whole), np.broadcast_to(other, whole))
