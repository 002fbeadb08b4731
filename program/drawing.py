"""What operators drew, as leaves of a program: which elements a dropout kept.

A recording holds what a dropout took and made, not what it drew. That follows from both, and where
both are zero from their gradients. So a program gets one more leaf for each such operator, which
takes it as an argument; what the operator makes is computed like anything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from padiff.dumpfile import DRAWN, DumpFormatError, LeafKind, ProgramError

from .execute import execute
from .graph import Operator, Value, ValueRef
from .lowering import KEPT, TABLES, lower
from .read import read_program
from .rounding import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from padiff.dumpfile import StepFile

    from .execute import Leaf
    from .graph import Program
    from .lowering import Lowered, Table
    from .primitives import Array
    from .read import RecordedProgram

Read: TypeAlias = "Callable[[StepFile], tuple[RecordedProgram, Lowered] | None]"
"""What ``read_lowered`` is."""

_ROUNDINGS = 2
"""By which what was dropped may be off, of its dtype: a constant is rounded and written."""


def drawing_operators(program: Program) -> dict[int, Operator]:
    """Return the operator that drew each leaf that follows from what it took and made, by id."""
    drawn = ((one.keywords.get(DRAWN), one) for one in program.operators)
    return {part.id: one for part, one in drawn if isinstance(part, ValueRef)}


def read_lowered(file: StepFile) -> tuple[RecordedProgram, Lowered] | None:
    """Read the program of a step with what its operators drew as leaves, and lower it.

    Returns:
        The program with its elements, and the same in primitives; None where none was recorded.

    Raises:
        LookupError: No table knows the framework.
        ProgramError: The program contradicts itself.
        DumpFormatError: The dump is damaged.
    """
    recorded = read_program(file) if file.has_program else None
    if recorded is None:
        return None
    drawing = _Drawing(recorded, TABLES[file.framework])
    return drawing.recorded, drawing.lowered


@dataclass(frozen=True, slots=True)
class _Kept:
    """Which elements an operator kept, and whether that is a guess for some of them."""

    elements: Array
    is_open: bool


@dataclass(eq=False)
class _Draw:
    """The leaf that one operator takes."""

    operator: Operator
    leaf: int
    drawing: _Drawing = field(repr=False)

    @cached_property
    def kept(self) -> _Kept:
        """Which elements it kept."""
        return self.drawing.kept(self)

    def elements(self) -> Array:
        """Return which elements the operator kept."""
        return self.kept.elements

    def is_open(self) -> bool:
        """Return whether some elements would be the same, kept or dropped, and nothing tells."""
        return self.kept.is_open


class _Drawing:
    """A recorded program, and what its operators drew."""

    def __init__(self, recorded: RecordedProgram, table: Table) -> None:
        program = recorded.program
        values, operators = list(program.values), list(program.operators)
        draws: dict[int, _Draw] = {}
        for place, operator in enumerate(operators):
            if not (table.draws(operator.name) == KEPT and _is_told(operator, recorded)):
                continue
            made = values[operator.outputs[0]]
            leaf = Value(id=len(values), dtype="bool", shape=made.shape, kind=LeafKind.RANDOM)
            values[made.id] = replace(made, kind=None)
            values.append(leaf)
            operators[place] = replace(
                operator,
                keywords={**operator.keywords, DRAWN: ValueRef(leaf.id)},
                random=False,
            )
            draws[leaf.id] = _Draw(operator, leaf.id, self)
        program = replace(program, values=tuple(values), operators=tuple(operators))
        self._table = table
        self.recorded = recorded.with_draws(program, draws) if draws else recorded

    @cached_property
    def lowered(self) -> Lowered:
        """The program in primitives."""
        return lower(self.recorded.program, self._table, contents=self.recorded.elements)

    @np.errstate(all="ignore")  # elements may be anything
    def kept(self, draw: _Draw) -> _Kept:
        """Return which elements an operator kept.

        What it made tells, but for elements that it would have made so in any case, such as zeros.
        Where it alone reads them, their gradient tells. What is open then counts as kept: that is
        the same for this side, and shows a fault of the other side before its dropout.
        """
        taken, made = draw.operator.taken[0], draw.operator.outputs[0]
        after = self._recorded(made)
        dropped = self._with_all_or_none(draw, np.zeros(after.shape), is_kept=False)
        unit = UNIT_ROUNDOFF[self.recorded.program.values[made].dtype]
        allowed = _ROUNDINGS * unit * np.abs(dropped)
        is_open = np.abs(after - dropped) <= allowed
        kept = ~is_open
        arrived, handed = self.recorded.gradient(made), self.recorded.gradient(taken)
        is_followed = self._readers[taken] == 1 and arrived is not None and handed is not None
        if is_followed:
            kept |= is_open & (handed != 0)
            is_open &= arrived == 0
        before = self._before(taken) if is_open.any() else None
        if before is not None:
            is_open &= (
                np.abs(self._with_all_or_none(draw, before, is_kept=True) - dropped) <= allowed
            )
            kept |= is_open
        return _Kept(kept, is_open=not is_followed and bool(is_open.any()))

    def _with_all_or_none(self, draw: _Draw, taken: Array, *, is_kept: bool) -> Array:
        """Execute an operator that keeps all elements or drops all."""
        kept = np.broadcast_to(np.bool_(is_kept), taken.shape)
        leaves: dict[int, Leaf] = {draw.operator.taken[0]: taken, draw.leaf: kept}
        made = draw.operator.outputs[0]
        return execute(self.lowered, leaves, [made])[made]

    def _recorded(self, value: int) -> Array:
        found = self.recorded.elements(value)
        if found is None:
            raise ProgramError(f"value {value} has no elements")
        return found.astype(np.float64)

    def _before(self, value: int) -> Array | None:
        """Return what an operator took, computed if it is not in the dump; None if it cannot be."""
        if self.recorded.has_elements(value):
            return self._recorded(value)
        known: Mapping[int, Leaf] = {
            one.id: partial(self._recorded, one.id)
            for one in self.recorded.program.values
            if one.id in self.lowered.terms and self.recorded.has_elements(one.id)
        }
        try:
            return execute(self.lowered, known, [value])[value]
        except (ProgramError, DumpFormatError):
            return None

    @cached_property
    def _readers(self) -> dict[int, int]:
        """How many operators read each value."""
        found: dict[int, int] = {}
        for operator in self.recorded.program.operators:
            for value in set(operator.taken):
                found[value] = found.get(value, 0) + 1
        return found


def _is_told(operator: Operator, recorded: RecordedProgram) -> bool:
    """Return whether what an operator drew follows from what it took and made."""
    if not operator.random or len(operator.outputs) != 1:
        return False
    made = recorded.program.values[operator.outputs[0]]
    is_real = made.dtype in UNIT_ROUNDOFF and "complex" not in made.dtype
    is_plain = len(operator.taken) == 1 and made.id not in operator.taken
    return is_real and is_plain and recorded.has_elements(made.id)
