"""Number the terms of two programs: equal numbers are the same expression of the same leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from padiff.pairing import IDENTITY
from padiff.program import Expressions, Image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from padiff.program import Lowered

    from .executed import Sink
    from .leaves import Leaves
    from .side import Side

    Join: TypeAlias = Callable[[int, Sequence[int]], int | None]


class Numbering(Expressions):
    """One number for each expression that two programs compute."""

    def __init__(
        self, reference: Side, candidate: Side, leaves: Leaves, *, is_strict: bool = True
    ) -> None:
        """Number the terms of both programs.

        Args:
            reference: One side.
            candidate: The other.
            leaves: Of both.
            is_strict: Whether equal numbers are a proof. Else what kernels put in the place of the
                smallest exponentials makes no other expression: good enough to look for causes.
        """
        super().__init__()
        self.is_strict = is_strict
        if is_strict:
            self.left_out = frozenset({"held"})
        known = {
            term: self.new(("leaf", value)) for term, value in reference.lowered.leaves.items()
        }
        self.reference: Sequence[int] = self.number(reference.lowered, known)
        """By term."""
        self._expressions = frozenset(self.reference)
        self._leaves: dict[int, int] = {}
        """The numbers of the candidate's leaves, and of what holds the same as a value of the
        reference, by value id."""
        for value, made in leaves.computed.items():
            number = self.reference[reference.lowered.terms[made.value]]
            shapes = (
                reference.program.values[made.value].shape,
                candidate.program.values[value].shape,
            )
            is_same = shapes[0] == shapes[1] and made.formula == Image(0).formula
            form = "fitted", number, made.formula, made.laid, shapes[1]
            self._leaves[value] = number if is_same else self.new(form)
        for value in candidate.lowered.leaves.values():
            pair = leaves.pairs.get(value)
            if value in leaves.computed:
                continue
            if pair is None:
                self._leaves[value] = self.new(("own", value))
            else:
                parts = tuple(known[reference.lowered.terms[one]] for one in pair.reference)
                shape = candidate.program.values[value].shape
                self._leaves[value] = self._turned(parts, pair.rule, shape)
        self.candidate: Sequence[int] = self.of_candidate(candidate.lowered, {})
        """By term."""

    @property
    def both(self) -> tuple[Sequence[int], Sequence[int]]:
        """The numbers of the reference's terms and of the candidate's."""
        return self.reference, self.candidate

    def is_of_reference(self, number: int) -> bool:
        """Return whether the reference computes an expression."""
        return number in self._expressions

    def is_same(self, sides: tuple[Side, Side], sink: Sink) -> bool:
        """Return whether two values that lie alike are the same expression."""
        reference, candidate = (side.lowered.terms for side in sides)
        return (
            sink.is_plain
            and self.reference[reference[sink.reference]]
            == self.candidate[candidate[sink.candidate]]
        )

    def of_candidate(
        self, lowered: Lowered, given: Mapping[int, int], *, join: Join | None = None
    ) -> list[int]:
        """Return the numbers of the candidate's terms if some are known to be something else.

        Args:
            lowered: The candidate's program, or an edited one with more leaves.
            given: Numbers of its new leaves, by term.
            join: Asked of each term that is no expression of the reference, with the numbers so
                far: the number of a term of the reference that holds the same, or None.
                Nothing is asked without it.
        """
        known = {
            lowered.terms[value]: number
            for value, number in self._leaves.items()
            if value in lowered.terms
        }
        if join is None:
            return self.number(lowered, {**known, **given})

        def others(term: int, found: Sequence[int]) -> int | None:
            return None if found[term] in self._expressions else join(term, found)

        return self.number(lowered, {**known, **given}, others)

    def of_reference(self, lowered: Lowered) -> list[int]:
        """Return the numbers of the reference's terms in a program with leaves of its own."""
        leaves = {term: self.new(("leaf", value)) for term, value in lowered.leaves.items()}
        return self.number(lowered, leaves)

    def _turned(self, parts: tuple[int, ...], rule: object, shape: tuple[int, ...]) -> int:
        """Return the number of a leaf that is made of others by a layout rule."""
        text = str(rule)
        if rule == IDENTITY and len(parts) == 1:
            return parts[0]
        if text == "transpose" and len(parts) == 1:
            return self.transposed(parts[0])
        return self.new(("rule", text, parts, shape))
