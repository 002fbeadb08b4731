"""Recorded programs as lists to read: each operator with what it took and what it made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.program import TABLES, Slice, ValueRef, read_program

if TYPE_CHECKING:
    from collections.abc import Collection

    from padiff.dumpfile import Statistics, StepFile
    from padiff.program import Argument, Operator, RecordedProgram, Site

_MOST = 3000
"""Operators that are listed: those of a model of some fifty layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What an operator made."""

    dtype: str
    shape: tuple[int, ...]
    statistics: Statistics | None
    """Of its elements as recorded; None where the dump keeps none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """An operator as it ran."""

    operator: int
    """Its id; those that ran while the model was built follow on the others."""
    name: str
    arguments: tuple[tuple[str, Argument], ...]
    """Those that are no defaults, with names where they have one. Values are named: a leaf by its
    path, another by ``%`` and the id of the operator that made it."""
    module: str | None
    """Path of the module in whose call it ran; None outside modules."""
    call: int
    """Which call of the module."""
    site: Site | None
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The program of one side."""

    operators: tuple[Listed, ...]
    left_out: int = 0
    """Operators that are not listed."""


def list_program(file: StepFile, wanted: Collection[int]) -> Listing:
    """List the program of a step; without operators where none was recorded.

    Args:
        file: The step.
        wanted: Ids of operators that are listed also where a program is too long to be listed.

    Raises:
        DumpFormatError: The dump is damaged.
        ProgramError: The program contradicts itself.
    """
    recorded = read_program(file) if file.framework in TABLES else None
    if recorded is None:
        return Listing(operators=())
    operators = recorded.program.operators
    kept = [one for one in operators if len(operators) <= _MOST or one.id in wanted]
    listed = [*map(_Lister(recorded, file).listed, kept)]
    if recorded.construction is not None:
        built = recorded.construction.program.operators
        lister = _Lister(recorded.construction, file, len(operators))
        listed += [lister.listed(one) for one in built if one.id + len(operators) in wanted]
    return Listing(operators=tuple(listed), left_out=len(operators) - len(kept))


class _Lister:
    def __init__(self, recorded: RecordedProgram, file: StepFile, first: int = 0) -> None:
        self.recorded, self.table, self.first = recorded, TABLES[file.framework], first

    def listed(self, operator: Operator) -> Listed:
        module, call = None, 0
        if operator.call is not None:
            found = self.recorded.index.calls[operator.call]
            module, call = self.recorded.index.modules[found.module].path, found.index
        arguments = self.table.distinct(operator.name, operator.positional, operator.keywords)
        return Listed(
            operator=operator.id + self.first,
            name=operator.name,
            arguments=tuple((name or "", self.named(value)) for name, value in arguments),
            module=module,
            call=call,
            site=operator.site,
            outputs=tuple(map(self.output, operator.outputs)),
        )

    def output(self, value: int) -> Output:
        one, info = self.recorded.program.values[value], self.recorded.info(value)
        statistics = None if info is None else info.statistics
        return Output(dtype=one.dtype, shape=one.shape, statistics=statistics)

    def named(self, argument: Argument) -> Argument:
        """Return an argument with names in the place of values."""
        if isinstance(argument, ValueRef):
            return self.name_of(argument.id)
        if isinstance(argument, tuple):
            return tuple(map(self.named, argument))
        if isinstance(argument, Slice):
            ends = (argument.start, argument.stop, argument.step)
            return Slice(*map(self.named, ends))
        return argument

    def name_of(self, value: int) -> str:
        one = self.recorded.program.values[value]
        if one.producer is None:
            return one.name or (one.kind.value if one.kind else f"value {value}")
        several = len(self.recorded.program.operators[one.producer].outputs) > 1
        return f"%{one.producer + self.first}" + (f".{one.slot}" if several else "")
