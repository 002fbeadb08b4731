"""Read the program of a step as a graph, and hand out the elements that its dump holds."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from padiff.dumpfile import (
    LEAF_KINDS,
    Content,
    DumpError,
    Form,
    LeafKind,
    Mode,
    Phase,
    ProgramError,
    Role,
    StepFile,
    is_floating,
    numpy_dtype,
    renumbered,
)

from .graph import Argument, Dtype, Opaque, Operator, Program, Site, Slice, Value, ValueRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from padiff.dumpfile import Index, ProgramColumns, RecordInfo, ValueInfo

    from .primitives import Array

Column: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"


class Draw(Protocol):
    """What an operator drew: a leaf whose elements follow from others."""

    def elements(self) -> Array:
        """Return them."""

    def is_open(self) -> bool:
        """Return whether nothing tells what some of them are."""


class RecordedProgram:
    """A program with what its dump holds of each value."""

    def __init__(
        self,
        program: Program,
        columns: ProgramColumns,
        file: StepFile,
        *,
        first: int = 0,
        construction: RecordedProgram | None = None,
    ) -> None:
        """Join a program with the open file that it was read from.

        Args:
            program: The operators and values.
            columns: In which they lie.
            file: Of the step.
            first: Where its values begin in the columns.
            construction: How buffers and constants were made while the model was built.
        """
        self.program, self.construction = program, construction
        self._columns, self._file, self._first = columns, file, first
        self._draws: Mapping[int, Draw] = {}
        """Leaves that are no rows of the columns, by id."""
        self._rows: Mapping[int, int] = {}
        """Where in the columns values lie that were added."""
        self._same: Mapping[int, int] = {}
        """The value that stands for each of several that hold the same."""

    def with_draws(self, program: Program, draws: Mapping[int, Draw]) -> RecordedProgram:
        """Return the program with more leaves.

        Args:
            program: With them among its values.
            draws: What they hold, by id.
        """
        found = self.with_program(program)
        found._draws = draws
        return found

    def with_program(self, program: Program) -> RecordedProgram:
        """Return another program of the same values."""
        found = RecordedProgram(
            program, self._columns, self._file, first=self._first, construction=self.construction
        )
        found._draws, found._rows, found._same = self._draws, self._rows, self._same
        return found

    def with_built(self, made: Mapping[int, int], operators: Sequence[int]) -> RecordedProgram:
        """Return the program with operators of the construction in front, which make leaves.

        They count as part of the call that first reads what is made of theirs.

        Args:
            made: The value of the construction that became each leaf, by the leaf's id.
            operators: Ids of all operators of the construction behind these, ascending.
        """
        construction = self.construction
        assert construction is not None
        built, first = construction.program, len(self.program.values)
        numbers: dict[int, int] = {}
        for leaf, value in made.items():
            numbers.setdefault(value, leaf)
        same = {leaf: numbers[value] for leaf, value in made.items()}
        rows: dict[int, int] = {}

        def number(value: int) -> int:
            if value not in numbers:
                numbers[value] = first + len(rows)
                rows[numbers[value]] = value + construction._first
            return numbers[value]

        count = len(operators)
        rest = [
            _renumbered(one, one.id + count, lambda value: same.get(value, value))
            for one in self.program.operators
        ]
        front = [
            _renumbered(built.operators[one], place, number) for place, one in enumerate(operators)
        ]
        values = {
            one.id: one if one.producer is None else replace(one, producer=one.producer + count)
            for one in self.program.values
        }
        makers = {operator: place for place, operator in enumerate(operators)}
        for value, id_ in numbers.items():
            one = built.values[value]
            maker = None if one.producer is None else makers[one.producer]
            name = values[id_].name if id_ in values else ""
            values[id_] = replace(one, id=id_, producer=maker, name=name)
        program = replace(
            self.program,
            values=tuple(values[id_] for id_ in sorted(values)),
            operators=(*_in_calls(front, rest), *rest),
        )
        found = self.with_program(program)
        found._rows, found._same = rows, same
        return found

    @cached_property
    def computed_names(self) -> frozenset[str]:
        """The names of weights and buffers that hold what the constructor computed from numbers.

        What was drawn is none, nor what came from outside with more than one element.
        """
        if self.construction is None:
            return frozenset()
        program = self.construction.program
        known = {
            one.id for one in program.values
            if one.kind is LeafKind.CONSTANT and prod(one.shape) == 1
        }  # fmt: skip
        for operator in program.operators:
            if not operator.random and known.issuperset(operator.taken):
                known.update(operator.outputs)
        return frozenset(one.name for one in program.values if one.name and one.id in known)

    @property
    def index(self) -> Index:
        """The index of the step: modules, calls, records."""
        return self._file.index

    def module_of(self, operator: Operator) -> tuple[str, str]:
        """Return path and class of the module in whose call an operator ran; empty if in none."""
        if operator.call is None:
            return "", ""
        module = self.index.modules[self.index.calls[operator.call].module]
        return module.path, module.class_name

    @cached_property
    def records(self) -> dict[int, RecordInfo]:
        """The first record that holds each value of the program, where one does."""
        found: dict[int, RecordInfo] = {}
        for record, value in self.borders.items():
            found.setdefault(value, self.index.records[record])
        return found

    def has_elements(self, value: int) -> bool:
        """Return whether the dump holds all elements of a value."""
        return value in self._draws or self._info(self._columns.value_content, value) is not None

    def is_open(self, value: int) -> bool:
        """Return whether a leaf was drawn and nothing tells what some of its elements are."""
        return value in self._draws and self._draws[value].is_open()

    def has_gradient(self, value: int) -> bool:
        """Return whether the dump holds all elements of a value's total gradient."""
        return self._info(self._columns.value_gradient, value) is not None

    @cached_property
    def borders(self) -> dict[int, int]:
        """The value that each record of the step holds, by the record's id.

        A loss that a script adds up behind the backward passes is none: nobody recorded of what.
        """
        columns, first = self._columns, self._first
        pairs = zip(columns.border_record.tolist(), columns.border_value.tolist(), strict=True)
        same, records, values = self._same, self.index.records, self.program.values
        read = {value for one in self.program.operators for value in one.taken}
        found = {
            record: same.get(value - first, value - first)
            for record, value in pairs
            if value >= first
        }
        return {
            record: value
            for record, value in found.items()
            if records[record].role is not Role.LOSS or values[value].kind is None or value in read
        }

    def row(self, value: int) -> int | None:
        """Return the row of the step's stored values that holds a value; None if none does."""
        return self._row(self._columns.value_content, value)

    def gradient_row(self, value: int) -> int | None:
        """Return the row of the step's stored values that holds a value's total gradient."""
        return self._row(self._columns.value_gradient, value)

    def _row(self, column: Column, value: int) -> int | None:
        if value in self._draws:
            return None
        row = int(column[self._rows.get(value, value + self._first)])
        return None if row < 0 else row

    def info(self, value: int) -> ValueInfo | None:
        """Return what the dump says of a value's elements; None if it says nothing."""
        row = self.row(value)
        return None if row is None else self._file.index.values[row]

    def gradient_info(self, value: int) -> ValueInfo | None:
        """Return what the dump says of a value's total gradient; None if none arrived."""
        row = self.gradient_row(value)
        return None if row is None else self._file.index.values[row]

    def got_gradient(self, value: int) -> bool:
        """Return whether a gradient arrived for a value, whatever the dump holds of it."""
        return self.gradient_row(value) is not None

    def elements(self, value: int) -> Array | None:
        """Return the elements of a value in its recorded dtype and shape, None where they lack.

        Raises:
            DumpFormatError: They are damaged.
        """
        if value in self._draws:
            return self._draws[value].elements()
        return self._elements(self._columns.value_content, value)

    def gradient(self, value: int) -> Array | None:
        """Return the elements of a value's total gradient, None where none is in the dump.

        Raises:
            DumpFormatError: They are damaged.
        """
        return self._elements(self._columns.value_gradient, value)

    def is_finite(self, value: int, *, gradient: bool = False) -> bool:
        """Return whether the dump holds a value, or its gradient, and nothing in it is inf or nan.

        By the statistics, without a look at the elements.
        """
        column = self._columns.value_gradient if gradient else self._columns.value_content
        info = self._info(column, value)
        return info is not None and not info.statistics.nonfinite

    def has_zero_gradient(self, value: int) -> bool:
        """Return whether statistics tell that all elements of a value's gradient are zero."""
        info = self.gradient_info(value)
        return info is not None and _is_constant(info) and info.statistics.minimum == 0

    def _elements(self, column: Column, value: int) -> Array | None:
        info = self._info(column, value)
        if info is None:
            return None
        shape = self.program.values[value].shape
        if info.content is Content.FULL:
            return self._file.value_array(info).reshape(shape)
        return np.full(shape, info.statistics.minimum, numpy_dtype(info.dtype))

    def _info(self, column: Column, value: int) -> ValueInfo | None:
        row = self._row(column, value)
        info = None if row is None else self._file.index.values[row]
        if info is None or info.content is Content.FULL:
            return info
        # Of a leaf that several backward passes reach, a summary is that of one of them.
        is_leaf = self.program.values[value].kind is not None
        is_summed = column is self._columns.value_gradient and is_leaf
        return info if _is_constant(info) and not is_summed else None


def _in_calls(built: Sequence[Operator], rest: Sequence[Operator]) -> list[Operator]:
    """Return operators of a construction as parts of the calls that first read what they lead to.

    Args:
        built: These operators, in order.
        rest: Those that ran afterwards, in order.
    """
    calls: dict[int, int | None] = {}
    for one in reversed(rest):
        calls.update(dict.fromkeys(one.taken, one.call))
    found: list[Operator] = []
    for one in reversed(built):
        call = next((calls[value] for value in one.outputs if value in calls), None)
        calls.update(dict.fromkeys(one.taken, call))
        found.append(replace(one, call=call))
    return found[::-1]


def _renumbered(operator: Operator, id_: int, number: Callable[[int], int]) -> Operator:
    """Return an operator with another id, and other ids of what it takes and makes."""
    return replace(
        operator,
        id=id_,
        positional=tuple(renumbered(each, number) for each in operator.positional),
        keywords={key: renumbered(each, number) for key, each in operator.keywords.items()},
        outputs=tuple(map(number, operator.outputs)),
    )


def _is_constant(info: ValueInfo) -> bool:
    """Return whether statistics tell all elements: they are one number."""
    told = info.statistics
    is_real = is_floating(info.dtype) and "complex" not in info.dtype
    return (
        is_real and told.minimum is not None and told.minimum == told.maximum and not told.nonfinite
    )


def program_of(side: object) -> RecordedProgram | None:
    """Return the recorded program; None for what is no dump, or has none that can be read."""
    if not isinstance(side, StepFile):
        return None
    try:
        return read_program(side)
    except (DumpError, ProgramError):
        return None


def read_program(file: StepFile) -> RecordedProgram | None:
    """Read the program of a step and rank.

    Returns:
        None where none was recorded.

    Raises:
        DumpFormatError: The program has problems.
    """
    columns = file.program()
    if columns is None:
        return None
    producers = _producers(columns)
    sites = [
        Site(file=columns.strings[path], line=line, function=columns.strings[function])
        for path, line, function in zip(
            columns.site_file.tolist(),
            columns.site_line.tolist(),
            columns.site_function.tolist(),
            strict=True,
        )
    ]
    values = tuple(_values(columns, producers, _names(columns, file)))
    operators = tuple(_operators(columns, sites))
    ends = columns.construction
    program = Program(
        framework=file.framework,
        values=values[: ends[1]],
        operators=operators[: ends[0]],
        outputs=tuple(_results(columns, file)),
    )
    construction = None
    if ends[0] < len(operators):
        built = _built(program, values, operators, columns)
        construction = RecordedProgram(built, columns, file, first=ends[1])
    return RecordedProgram(program, columns, file, construction=construction)


def _built(
    program: Program,
    values: Sequence[Value],
    operators: Sequence[Operator],
    columns: ProgramColumns,
) -> Program:
    """Return the program that ran while the model was built, its ids counted from 0.

    A value that holds what a buffer holds has its name.
    """
    before, first = columns.construction
    names = {
        (int(columns.value_content[one.id]), one.shape): one.name
        for one in reversed(program.values)
        if one.kind is LeafKind.BUFFER
    }

    def own(value: int) -> int:
        return value - first

    return Program(
        framework=program.framework,
        values=tuple(
            replace(
                one,
                id=own(one.id),
                name=names.get((int(columns.value_content[one.id]), one.shape), ""),
                producer=None if one.producer is None else one.producer - before,
            )
            for one in values[first:]
        ),
        operators=tuple(_renumbered(one, one.id - before, own) for one in operators[before:]),
    )


def _producers(columns: ProgramColumns) -> dict[int, tuple[int, int]]:
    """Return the operator and slot that made each value; leaves have none."""
    found: dict[int, tuple[int, int]] = {}
    kinds = columns.value_kind.tolist()
    outputs = iter(columns.outputs.tolist())
    for operator, count in enumerate(columns.operator_outputs.tolist()):
        for slot in range(count):
            value = next(outputs)
            if kinds[value] == 0 or LEAF_KINDS[kinds[value]] == "random":
                found.setdefault(value, (operator, slot))
    return found


def _names(columns: ProgramColumns, file: StepFile) -> dict[int, str]:
    """Return the names of weights and buffers, which are those of their records."""
    index, found = file.index, dict[int, str]()
    borders = zip(columns.border_record.tolist(), columns.border_value.tolist(), strict=True)
    for record, value in borders:
        info = index.records[record]
        if info.role in {Role.WEIGHT, Role.BUFFER}:
            found.setdefault(value, f"{index.modules[info.module].path}{info.slot}".lstrip("."))
    return found


def _values(
    columns: ProgramColumns, producers: dict[int, tuple[int, int]], names: dict[int, str]
) -> Iterator[Value]:
    shapes = [columns.shape(index) for index in range(columns.shape_ends.size)]
    for value in range(columns.values):
        operator, slot = producers.get(value, (None, 0))
        yield Value(
            id=value,
            dtype=columns.strings[int(columns.value_dtype[value])],
            shape=shapes[int(columns.value_shape[value])],
            kind=LEAF_KINDS[int(columns.value_kind[value])],
            name=_text(columns, int(columns.value_name[value])) or names.get(value, ""),
            producer=operator,
            slot=slot,
        )


def _text(columns: ProgramColumns, position: int) -> str:
    return "" if position < 0 else columns.strings[position]


def _operators(columns: ProgramColumns, sites: list[Site]) -> Iterator[Operator]:
    reader = _ArgumentReader(columns)
    made = 0
    outputs = columns.outputs.tolist()
    rows_of_all = zip(
        columns.operator_name.tolist(),
        columns.operator_call.tolist(),
        columns.operator_mode.tolist(),
        columns.operator_site.tolist(),
        columns.operator_rows.tolist(),
        columns.operator_outputs.tolist(),
        strict=True,
    )
    for operator, (name, call, mode, site, own, count) in enumerate(rows_of_all):
        rows = reader.take(own)
        yield Operator(
            id=operator,
            name=columns.strings[name],
            positional=tuple(argument for key, argument in rows if key is None),
            keywords={key: argument for key, argument in rows if key is not None},
            outputs=tuple(outputs[made : made + count]),
            call=None if call < 0 else call,
            phase=Phase.UPDATE if mode & Mode.UPDATE else Phase.FORWARD,
            in_place=bool(mode & Mode.IN_PLACE),
            random=bool(mode & Mode.RANDOM),
            autocast=_autocast(mode),
            no_grad=bool(mode & Mode.NO_GRAD),
            spread=bool(mode & Mode.SPREAD),
            site=None if site < 0 else sites[site],
        )
        made += count


def _autocast(mode: int) -> str | None:
    if mode & Mode.FLOAT16:
        return "float16"
    return "bfloat16" if mode & Mode.BFLOAT16 else None


def _results(columns: ProgramColumns, file: StepFile) -> Iterator[int]:
    """Yield the values that the root's calls returned, in the order of their records."""
    index = file.index
    borders = zip(columns.border_record.tolist(), columns.border_value.tolist(), strict=True)
    for record, value in borders:
        info = index.records[record]
        if info.role is Role.OUTPUT and info.call is not None and not info.module:
            yield value


class _ArgumentReader:
    """Makes arguments of rows that were checked, one operator after the other."""

    def __init__(self, columns: ProgramColumns) -> None:
        self._strings, self._floats = columns.strings, columns.floats
        self._rows = zip(
            columns.argument_key.tolist(),
            columns.argument_form.tolist(),
            columns.argument_number.tolist(),
            strict=True,
        )
        self._left = 0

    def take(self, count: int) -> list[tuple[str | None, Argument]]:
        """Return the arguments that the next rows spell, each with its keyword."""
        self._left = count
        found = []
        while self._left:
            found.append(self._next())
        return found

    def _next(self) -> tuple[str | None, Argument]:
        key, form, number = next(self._rows)
        self._left -= 1
        return (None if key < 0 else self._strings[key]), self._argument(Form(form), number)

    def _argument(self, form: Form, number: int) -> Argument:
        if form is Form.SLICE:
            start, stop, step = (self._next()[1] for _ in range(3))
            return Slice(start=start, stop=stop, step=step)
        if form is Form.TUPLE:
            return tuple(self._next()[1] for _ in range(number))
        if form is Form.MAPPING:
            parts = [self._next() for _ in range(number)]
            return {key or "": part for key, part in parts}
        return self._single(form, number)

    def _single(self, form: Form, number: int) -> Argument:
        if form in _CONSTANTS:
            return _CONSTANTS[form]
        if form is Form.VALUE:
            return ValueRef(id=number)
        if form in (Form.STRING, Form.DTYPE, Form.OPAQUE):
            return self._text(form, self._strings[number])
        return self._number(form, number)

    def _number(self, form: Form, number: int) -> Argument:
        if form is Form.INT:
            return number
        real = float(self._floats[number])
        return real if form is Form.FLOAT else complex(real, self._floats[number + 1])

    @staticmethod
    def _text(form: Form, text: str) -> Argument:
        if form is Form.STRING:
            return text
        return Dtype(name=text) if form is Form.DTYPE else Opaque(text=text)


_CONSTANTS: dict[Form, Argument] = {
    Form.NONE: None,
    Form.FALSE: False,
    Form.TRUE: True,
    Form.ELLIPSIS: ...,
}
