"""A recorded program with what is known of its values: what can be computed from what."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from padiff.dumpfile import LeafKind, Phase
from padiff.program import UNIT_ROUNDOFF, Rounding, execute

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from padiff.dumpfile import Index
    from padiff.program import Lowered, Node, Operator, RecordedProgram, Value
    from padiff.program.primitives import Array

__all__ = ["KnownProgram"]


class KnownProgram:
    """Executes slices of a program between values whose elements are in the dump."""

    def __init__(self, recorded: RecordedProgram, lowered: Lowered, index: Index) -> None:
        """Look which elements there are.

        Args:
            recorded: The program with its elements.
            lowered: The same in primitives.
            index: That of the step.
        """
        self.recorded, self.lowered, self.index = recorded, lowered, index
        self.program = recorded.program
        self._wide: dict[int, Array] = {}
        self._last_behind: tuple[int, set[int]] = (-1, set())

    @cached_property
    def known(self) -> dict[int, int]:
        """The value whose recorded elements are taken for each term, where there are any."""
        found: dict[int, int] = {}
        for value in self.program.values:
            if value.id in self.lowered.terms and self.recorded.has_elements(value.id):
                found.setdefault(self.lowered.terms[value.id], value.id)
        return found

    @cached_property
    def units(self) -> dict[int, float]:
        """The unit roundoff of each operator: that of the coarsest dtype that it makes or takes."""
        return {one.id: self._unit(one) for one in self.program.operators}

    @cached_property
    def readers(self) -> dict[int, list[Operator]]:
        """The operators of the forward pass and the loss that read each value."""
        found: dict[int, list[Operator]] = {}
        for operator in self.program.operators:
            if operator.phase is not Phase.UPDATE and operator.outputs:
                for value in dict.fromkeys(operator.taken):
                    found.setdefault(value, []).append(operator)
        return found

    def elements(self, value: int) -> Array:
        """Return recorded elements in float64, or as they are if they are no real numbers."""
        wide = self._wide.get(value)
        if wide is None:
            found = self.recorded.elements(value)
            if found is None:
                raise LookupError(f"value {value} has no elements")
            is_plain = found.dtype.kind in "biuc"
            with np.errstate(invalid="ignore"):  # memory that nobody wrote holds signalling nans
                wide = self._wide[value] = found if is_plain else found.astype(np.float64)
        return wide

    def nodes_behind(self, value: int) -> list[Node]:
        """Return the primitives from known values, without this one's own, to a value."""
        own = self.lowered.terms[value]
        producers, nodes = self.lowered.producers, self.lowered.nodes
        open_, places = [own], set[int]()
        while open_:
            term = open_.pop()
            place = producers.get(term)
            if place is None or place in places or (term in self.known and term != own):
                continue
            places.add(place)
            open_ += nodes[place].operands
        return [nodes[place] for place in sorted(places)]

    def compute(
        self,
        value: int,
        nodes: Sequence[Node],
        *,
        seed: int | None = None,
    ) -> Array:
        """Execute what makes a value from known values.

        Args:
            value: Its id.
            nodes: What ``nodes_behind`` returned.
            seed: Of the random errors to make; None makes none.

        Raises:
            ProgramError: Elements lack, or the program cannot be executed.
            DumpFormatError: Elements are damaged.
        """
        own = self.lowered.terms[value]
        taken = {one for node in nodes for one in node.operands} - {own}
        leaves = {
            self.known[one]: self.elements(self.known[one]) for one in taken & set(self.known)
        }
        rounding = None if seed is None else Rounding(self.units, seed=seed)
        return execute(self.lowered, leaves, [value], rounding=rounding)[value]

    def changed(
        self,
        wanted: int,
        value: int,
        elements: Array,
        held: Collection[int],
        *,
        seed: int | None = None,
    ) -> Array:
        """Execute what makes a value from another one that is changed.

        Args:
            wanted: Id of the value to compute.
            value: Id of the value that is changed.
            elements: What it holds instead.
            held: Ids of values that stay as recorded although they are computed from it.
            seed: Of the random errors to make; None makes none.
        """
        terms = self.lowered.terms
        moved = self._behind(terms[value]) - {terms[one] for one in held if one != wanted}
        leaves = {one: self.elements(one) for term, one in self.known.items() if term not in moved}
        rounding = None if seed is None else Rounding(self.units, seed=seed)
        return execute(self.lowered, {**leaves, value: elements}, [wanted], rounding=rounding)[
            wanted
        ]

    def _behind(self, term: int) -> set[int]:
        """Return a term and all that are computed from it."""
        if self._last_behind[0] != term:
            found = {term}
            for node in self.lowered.nodes:
                if not found.isdisjoint(node.operands):
                    found.update(node.outputs)
            self._last_behind = term, found
        return self._last_behind[1]

    def producer(self, value: Value) -> Operator | None:
        """Return the operator that made a value, None for a leaf."""
        return None if value.producer is None else self.program.operators[value.producer]

    def _unit(self, operator: Operator) -> float:
        made = [self.program.values[one].dtype for one in operator.outputs]
        units = [UNIT_ROUNDOFF[dtype] for dtype in made if dtype in UNIT_ROUNDOFF]
        unit = max(units, default=0.0)
        # What judges float64 rounds as much itself.
        return 2 * unit if unit == UNIT_ROUNDOFF["float64"] else unit

    @cached_property
    def holes(self) -> int:
        """How many floating-point values came from nowhere."""
        return sum(one.kind is LeafKind.HOLE for one in self.program.values)
