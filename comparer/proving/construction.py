"""Buffers and constants that were computed while the model was built, as part of its program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.auditing import Answers, KnownProgram, Measured, measure_value
from padiff.dumpfile import DumpFormatError, ProgramError
from padiff.program import lower

from .side import Side

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .leaves import LeafPair


def with_tables(
    sides: tuple[Side, Side], lone: tuple[set[int], set[int]], differing: Iterable[LeafPair]
) -> tuple[Side, Side]:
    """Return sides that compute leaves as their constructors did, where the dumps say how.

    One port keeps the tables of a rotary embedding, the other one computes them in each call. And
    where two tables differ, what computed them tells why. What the constructor computes must be
    what the leaf holds, but for rounding.
    """
    known, found = _Tables(sides[0]), _Tables(sides[1])
    for one, leaves in zip((known, found), lone, strict=True):
        one.take(leaves)
    for pair in differing:
        if known.can_take(pair.reference) and found.can_take([pair.candidate]):
            known.take(pair.reference)
            found.take([pair.candidate])
    return known.computed(), found.computed()


class _Tables:
    """The leaves of one side that its constructor computed."""

    def __init__(self, side: Side) -> None:
        self._side, self._built = side, side.construction
        self._made: dict[int, int] = {}
        """The value of the construction that became each leaf that is taken, by the leaf's id."""
        built = self._built
        self._known = None if built is None else KnownProgram(built.recorded, built.lowered)
        self._answers = Answers[Measured]()

    def can_take(self, leaves: Iterable[int]) -> bool:
        """Return whether operators that were recorded make what leaves hold."""
        values = [self._value(leaf) for leaf in leaves]
        return all(value is not None and self._is_computed(value) for value in values)

    def take(self, leaves: Iterable[int]) -> None:
        """Take those of some leaves that operators make."""
        for leaf in sorted(leaves):
            value = self._value(leaf)
            if value is not None and self._is_computed(value):
                self._made[leaf] = value

    def _value(self, leaf: int) -> int | None:
        """Return the value of the construction that became a leaf: both hold the same elements."""
        row = self._side.recorded.row(leaf)
        if self._built is None or row is None:
            return None
        shape, recorded = self._side.program.values[leaf].shape, self._built.recorded
        values = recorded.program.values
        same = (one for one in values if recorded.row(one.id) == row and one.shape == shape)
        return next((one.id for one in same), None)

    def _is_computed(self, value: int) -> bool:
        """Return whether operators compute what a value holds, from what is known."""
        known = self._known
        assert known is not None
        lowered = known.lowered
        terms = {lowered.terms[value]} if value in lowered.terms else set[int]()
        for place in lowered.behind(terms):
            terms.update(lowered.nodes[place].operands)
        ends = [lowered.leaves[term] for term in terms if term in lowered.leaves]
        if not terms or not all(map(known.recorded.has_elements, ends)):
            return False
        try:
            found = measure_value(known, known.program.values[value], self._answers)
        except (ProgramError, DumpFormatError):
            return False
        return found is not None and found.is_sound

    def computed(self) -> Side:
        """Return the side with the operators that make what was taken."""
        side, built = self._side, self._built
        if built is None or not self._made:
            return side
        behind = built.program.behind(self._made.values())
        every = built.program.operators
        operators = tuple(one.id for one in every if not behind.isdisjoint(one.outputs))
        recorded = side.recorded.with_built(self._made, operators)
        lowered = lower(recorded.program, side.table, contents=recorded.elements)
        return Side(side.file, recorded, lowered, operators)
