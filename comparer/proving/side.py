"""One side of a proof: its program in primitives, and what its dump holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, ProgramError, Role
from padiff.program import TABLES, UNIT_ROUNDOFF, drawing_operators, lower, read_lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from padiff.dumpfile import StepFile
    from padiff.program import Argument, Lowered, Operator, Program, Read, RecordedProgram, Table
    from padiff.program.primitives import Array


@dataclass(frozen=True)
class Side:
    """A recorded program that can be executed."""

    file: StepFile
    recorded: RecordedProgram
    lowered: Lowered
    built: tuple[int, ...] = ()
    """Ids of operators of the construction that stand in front of the recorded ones, and make what
    were leaves."""

    @property
    def program(self) -> Program:
        """The operators and values as recorded."""
        return self.recorded.program

    @property
    def table(self) -> Table:
        """The rows of the framework's operators."""
        return TABLES[self.file.framework]

    @cached_property
    def construction(self) -> Side | None:
        """What ran while the model was built, as a side of its own; None if nobody looked."""
        built = self.recorded.construction
        if built is None:
            return None
        return Side(self.file, built, lower(built.program, self.table, contents=built.elements))

    def id_in_file(self, operator: int) -> int:
        """Return the id of an operator in the file: those of the construction stand last there."""
        count, built = len(self.built), self.built
        if operator >= count:
            return operator - count
        return len(self.program.operators) - count + built[operator]

    @cached_property
    def cuts(self) -> tuple[Operator, ...]:
        """Operators whose outcomes are taken as recorded: drawn ones, and those without a rule."""
        lowered = self.lowered
        known = lowered.opaque.keys() | lowered.random
        return tuple(one for one in self.program.operators if one.id in known)

    def drawn_by(self, operator: Operator) -> dict[str, Argument]:
        """Return the numbers and words that say how an operator draws, by name."""
        given = operator.name, operator.positional, operator.keywords
        values = self.program.values
        return (
            self.table.drawn_by(*given, lambda value: values[value].shape)
            if operator.random
            else {}
        )

    @cached_property
    def draws(self) -> dict[int, Operator]:
        """The operator that drew each leaf that says which elements were kept, by value id."""
        return drawing_operators(self.program)

    def form_of_draw(self, draw: int) -> tuple[str, tuple[int, ...]]:
        """Return of which distribution something was drawn, and its shape."""
        return self.table.draws(self.draws[draw].name), self.program.values[draw].shape

    @cached_property
    def read(self) -> set[int]:
        """The terms that something is computed from."""
        found = {term for node in self.lowered.nodes for term in node.operands}
        found.update(self.lowered.terms[value] for one in self.cuts for value in one.taken)
        return found

    @cached_property
    def read_forward(self) -> set[int]:
        """The terms that something of the forward pass or the loss is computed from."""
        late = {one.id for one in self.program.operators if one.phase is Phase.UPDATE}
        found = {
            term
            for node in self.lowered.nodes
            if node.operator not in late
            for term in node.operands
        }
        cuts = (one for one in self.cuts if one.id not in late)
        found.update(self.lowered.terms[value] for one in cuts for value in one.taken)
        return found

    def coarsest_before(self, values: Iterable[int]) -> float:
        """Return the largest unit roundoff of values and of all that they were made of."""
        open_, seen = list(values), set[int]()
        while open_:
            one = open_.pop()
            if one not in seen:
                seen.add(one)
                producer = self.program.values[one].producer
                open_ += () if producer is None else self.program.operators[producer].taken
        units = (UNIT_ROUNDOFF.get(self.program.values[one].dtype, 0.0) for one in seen)
        return max(units, default=0.0)

    @cached_property
    def parts(self) -> dict[tuple[int, str], str]:
        """What modules give among other things, such as ``output[1]``, by value and module."""
        index = self.file.index
        return {
            (value, index.modules[index.records[record].module].path): f"output{slot}"
            for record, value in self.recorded.borders.items()
            if index.records[record].role is Role.OUTPUT and (slot := index.records[record].slot)
        }

    def name_of_record(self, record: int) -> str:
        """Return the full name of a weight, buffer or moment that a record holds."""
        info = self.file.index.records[record]
        return f"{self.file.index.modules[info.module].path}{info.slot}".lstrip(".")

    def called(self, value: int) -> str:
        """Return the name of a leaf, or which operator of which module made a value."""
        one = self.program.values[value]
        if one.name or one.producer is None:
            return one.name or (one.kind.value if one.kind else "a value")
        operator = self.program.operators[one.producer]
        outputs = operator.outputs
        slot = f"[{outputs.index(value)}]" if len(outputs) > 1 else ""
        return f"{operator.name}{slot} of {self.recorded.module_of(operator)[0] or '(root)'}"

    def recorded_leaf(self, value: int) -> Callable[[], Array]:
        """Return a function that loads the recorded elements of a value."""

        def load() -> Array:
            found = self.recorded.elements(value)
            if found is None:
                raise ProgramError(f"value {value} has no elements in {str(self.file.path)!r}")
            return found

        return load


def read_side(file: StepFile, read: Read = read_lowered) -> Side | None:
    """Read and lower the program of a step; None where none was recorded.

    Raises:
        LookupError: No table knows the framework.
        ProgramError: The program contradicts itself.
        DumpFormatError: The dump is damaged.
    """
    found = read(file)
    return None if found is None else Side(file, *found)
