"""What operators drew, as leaves of a program: which elements a dropout kept, standard noise.

A recording holds what a dropout took and made, not what it drew. That follows from both, and where
both are zero from their gradients. What noise was before it was scaled and moved follows from what
was made. So a program gets one more leaf for each such operator, which
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

_SHAPES = frozenset({"input", "x", "shape", "size"})
"""Arguments of operators that draw which say of what shape."""

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
    is_dropout: bool
    drawing: _Drawing = field(repr=False)

    @cached_property
    def kept(self) -> _Kept:
        """Which elements it kept, or how much it drew."""
        return self.drawing.kept(self) if self.is_dropout else self.drawing.standard(self)

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
            is_dropout = table.draws(operator.name) == KEPT
            tells = _is_told if is_dropout else partial(_is_standard, table)
            if not (is_dropout or table.is_draw(operator.name)) or not tells(operator, recorded):
                continue
            made = values[operator.outputs[0]]
            dtype = "bool" if is_dropout else made.dtype
            leaf = Value(id=len(values), dtype=dtype, shape=made.shape, kind=LeafKind.RANDOM)
            values[made.id] = replace(made, kind=None)
            values.append(leaf)
            operators[place] = replace(
                operator,
                keywords={**operator.keywords, DRAWN: ValueRef(leaf.id)},
                random=False,
            )
            draws[leaf.id] = _Draw(operator, leaf.id, is_dropout, self)
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
        dropped = self._made_of(draw, 0.0, np.zeros(after.shape))
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
            is_open &= np.abs(self._made_of(draw, 1.0, before) - dropped) <= allowed
            kept |= is_open
        return _Kept(kept, is_open=not is_followed and bool(is_open.any()))

    def standard(self, draw: _Draw) -> _Kept:
        """Return what an operator drew before it was scaled and moved."""
        made = self._recorded(draw.operator.outputs[0])
        none, one = (self._made_of(draw, number) for number in (0.0, 1.0))
        drawn = np.divide(made - none, one - none, out=np.zeros_like(made), where=one != none)
        return _Kept(drawn, is_open=False)

    def _made_of(self, draw: _Draw, drawn: float, taken: Array | None = None) -> Array:
        """Execute an operator that draws the same for all elements."""
        made = self.recorded.program.values[draw.operator.outputs[0]]
        leaves: dict[int, Leaf] = {
            draw.leaf: np.full(made.shape, bool(drawn) if draw.is_dropout else drawn)
        }
        if taken is not None:
            leaves[draw.operator.taken[0]] = taken
        return execute(self.lowered, leaves, [made.id])[made.id]

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


def _is_standard(table: Table, operator: Operator, recorded: RecordedProgram) -> bool:
    """Return whether an operator drew what it made by numbers alone, and that was recorded."""
    if not operator.random or len(operator.outputs) != 1:
        return False
    made = recorded.program.values[operator.outputs[0]]
    given = table.named(operator.name, operator.positional, operator.keywords)
    by_numbers = not any(isinstance(one, ValueRef) and key not in _SHAPES for key, one in given)
    return made.dtype in UNIT_ROUNDOFF and by_numbers and recorded.has_elements(made.id)


def _is_told(operator: Operator, recorded: RecordedProgram) -> bool:
    """Return whether what an operator drew follows from what it took and made."""
    if not operator.random or len(operator.outputs) != 1:
        return False
    made = recorded.program.values[operator.outputs[0]]
    is_real = made.dtype in UNIT_ROUNDOFF and "complex" not in made.dtype
    is_plain = len(operator.taken) == 1 and made.id not in operator.taken
    return is_real and is_plain and recorded.has_elements(made.id)
