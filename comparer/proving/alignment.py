"""Which executed values of the candidate are values of the reference: by their sketches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.program import execute

from .executed import LIMITS
from .sketches import Partners, Sketch, sketch_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from padiff.program import Leaf, Lowered
    from padiff.program.primitives import Array

    from .executed import Sink
    from .numbering import Numbering
    from .side import Side

__all__ = ["Alignment", "Likeness", "align"]

_MOST_BYTES = 1 << 18
"""Of a term that is kept: those of a thousand primitives are a quarter of a gigabyte."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """The reference's terms by the candidate's."""

    partners: dict[int, list[int]]
    """All that hold the same elements, in whatever layout."""
    same: dict[int, int]
    """One of the same shape whose elements lie in the same order."""
    executed: dict[int, Array]
    """The values that were wanted of the candidate."""


class Alignment:
    """The reference's program executed once, to find the partners of values in."""

    def __init__(
        self,
        reference: Lowered,
        leaves: Mapping[int, Leaf],
        wanted: Sequence[int],
        numbers: Sequence[int],
    ) -> None:
        """Execute the reference.

        Args:
            reference: Its program.
            leaves: What its leaves hold.
            wanted: Value ids; what they need is executed.
            numbers: Of its terms.

        Raises:
            ProgramError: Elements lack, or a limit is passed.
            DumpFormatError: Elements are damaged.
        """
        self._reference, self._leaves, self._wanted = reference, leaves, wanted
        self._kept: dict[int, Array] = {}
        self.executed: dict[int, Array]
        """The wanted values."""
        self._sketches, self.executed = _sketched(reference, leaves, wanted, {})
        self._terms = {numbers[term]: term for term in self._sketches}
        self._partners = Partners()
        for term, sketch in self._sketches.items():
            self._partners.add(reference.specs[term].count, sketch, term)
        self._partners.seal()

    def partners(
        self,
        candidate: Lowered,
        leaves: Mapping[int, Leaf],
        wanted: Sequence[int],
        numbers: Sequence[int],
    ) -> Likeness:
        """Execute the candidate, and find the reference's terms that its terms are like.

        Args:
            candidate: Its program.
            leaves: What its leaves hold.
            wanted: Value ids; what they need is executed.
            numbers: Of its terms; what is an expression of the reference is not looked at again.
        """
        known = {
            term: self._sketches[one]
            for term, number in enumerate(numbers)
            if (one := self._terms.get(number)) is not None
            and self._reference.specs[one] == candidate.specs[term]
        }
        sketches, executed = _sketched(candidate, leaves, wanted, known)
        found = Likeness({}, {}, executed)
        for term, sketch in sketches.items():
            others = self._partners.find(candidate.specs[term].count, sketch)
            if not others:
                continue
            found.partners[term] = others
            same = (
                one
                for one in others
                if self._reference.specs[one] == candidate.specs[term]
                and sketch.lies_like(self._sketches[one])
            )
            first = next(same, None)
            if first is not None:
                found.same[term] = first
        return found

    def arrays(self, terms: Collection[int]) -> dict[int, Array]:
        """Return the elements of terms of the reference that no leaf holds.

        The reference stays what it is, so that those of small terms are kept for the next time.
        """
        found = {term: self._kept[term] for term in terms if term in self._kept}

        def observe(term: int, array: Array) -> None:
            if term in terms:
                found[term] = array.copy()

        if len(found) < len(terms):
            execute(self._reference, self._leaves, self._wanted, limits=LIMITS, observe=observe)
            small = (one for one in found.items() if one[1].nbytes <= _MOST_BYTES)
            self._kept.update(small)
        return found


def align(
    sides: tuple[Side, Side],
    given: tuple[Mapping[int, Leaf], Mapping[int, Leaf]],
    numbering: Numbering,
    sinks: Sequence[Sink],
) -> tuple[Alignment, Likeness]:
    """Execute both programs, and find the values that are like each other.

    Args:
        sides: The reference and the candidate.
        given: What their leaves hold.
        numbering: Of their terms.
        sinks: Results; what they need is executed.

    Raises:
        ProgramError: Elements lack, or a limit is passed.
        DumpFormatError: Elements are damaged.
    """
    known, found = [sink.reference for sink in sinks], [sink.candidate for sink in sinks]
    alignment = Alignment(sides[0].lowered, given[0], known, numbering.reference)
    return alignment, alignment.partners(sides[1].lowered, given[1], found, numbering.candidate)


def _sketched(
    lowered: Lowered,
    leaves: Mapping[int, Leaf],
    wanted: Sequence[int],
    known: Mapping[int, Sketch],
) -> tuple[dict[int, Sketch], dict[int, Array]]:
    """Return the sketches of all that wanted values need, those known as is, and these values."""
    found: dict[int, Sketch] = {}

    def observe(term: int, array: Array) -> None:
        found[term] = known[term] if term in known else sketch_of(array)

    return found, execute(lowered, leaves, wanted, limits=LIMITS, observe=observe)
