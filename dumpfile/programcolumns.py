"""The program of one step and rank as it lies on disk: flat columns that refer to each other.

::

    operators ──► arguments ──► values ◄── outputs        borders: record ──► value

Each table is one dataset below ``/program``. Texts, shapes and source lines stand in the pools of
the file, floating-point numbers in a table of their own, and columns hold their positions there.
``docs/format.md`` is the specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .columns import Column as TableColumn
from .columns import Kind, check_table, length_of, pack, unpack
from .problem import Problem, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .columns import Pools, PoolsBuilder, Table

Column = npt.NDArray[Any]

MOST_ARGUMENT_DEPTH = 32
"""Containers inside an argument that are nested deeper are refused; frameworks stay below 6."""
MOST_AXES = 64
"""Of a value: numpy's own limit."""


class LeafKind(StrEnum):
    """Where a value comes from that no recorded operator made."""

    INPUT = "input"
    """The model was called with it."""
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    """Made before the recording, or from numbers in the user's code."""
    RANDOM = "random"
    """The outcome of an operator that draws random numbers."""
    HOLE = "hole"
    """A floating-point value that came from nowhere: something that computes was not recorded."""
    GRADIENT = "gradient"
    """What the update took of a parameter's gradient, before it was clipped; has its name."""
    STATE = "state"
    """What an optimizer had kept of a parameter before the update."""


LEAF_KINDS: tuple[LeafKind | None, ...] = (None, *LeafKind)
"""What ``value_kind`` holds positions of; None stands for a value that an operator made."""


class Mode(IntEnum):
    """Bits of ``operator_mode``."""

    IN_PLACE = 1
    """It changed one of its inputs; the changed tensor is its output."""
    RANDOM = 2
    """It drew random numbers."""
    UPDATE = 4
    """It belongs to the update of the weights, not to the forward pass or the loss."""
    FLOAT16 = 8
    """Autocast to float16 was on."""
    BFLOAT16 = 16
    """Autocast to bfloat16 was on."""
    NO_GRAD = 32
    """The framework built no graph."""
    CONSTRUCTION = 64
    """It ran while the model was built, and says how a buffer or constant was computed."""
    SPREAD = 128
    """Tensors that it took or made are spread over processes: arguments are those of the whole
    tensors, values are this process's parts."""


class Form(IntEnum):
    """What a row of ``arguments`` is; ``argument_number`` holds what the comment says."""

    NONE = 0
    FALSE = 1
    TRUE = 2
    INT = 3  # the number
    FLOAT = 4  # position in ``floats``
    COMPLEX = 5  # position in ``floats`` of the real part; the imaginary one follows it
    STRING = 6  # position in ``strings``
    ELLIPSIS = 7
    VALUE = 8  # id of the value
    DTYPE = 9  # position in ``strings``
    OPAQUE = 10  # position in ``strings``
    SLICE = 11  # the next three rows, with what is inside them, are start, stop and step
    TUPLE = 12  # how many of the next rows, without what is inside those, are its parts
    MAPPING = 13  # the same; each part has its key in ``argument_key``


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramColumns:
    """All columns of a program; integers unless said otherwise. -1 stands for "none"."""

    strings: tuple[str, ...]
    floats: Column
    """float64."""
    shape_sizes: Column
    """Sizes of the axes of all shapes, one shape after the other."""
    shape_ends: Column
    """Where each shape ends in ``shape_sizes``."""
    site_file: Column
    """Position in ``strings``; ``site_function`` too."""
    site_line: Column
    site_function: Column
    value_dtype: Column
    """Position in ``strings``."""
    value_shape: Column
    """Position in the table of shapes."""
    value_kind: Column
    """Position in ``LEAF_KINDS``."""
    value_name: Column
    """Position in ``strings``, or -1; of most values nothing: a weight is named by its record."""
    value_content: Column
    """Id of the ``ValueInfo`` that holds digest and statistics, perhaps elements; -1 if none."""
    value_gradient: Column
    """The same of its total gradient; -1 if none arrived."""
    operator_name: Column
    """Position in ``strings``: the framework's own name, ``torch.nn.functional.linear``."""
    operator_call: Column
    """Id of the module call that it ran in, -1 outside any."""
    operator_mode: Column
    """Sum of ``Mode`` bits."""
    operator_site: Column
    """Position in the table of sites, -1 if unknown."""
    operator_rows: Column
    """How many rows of ``arguments`` are its own, in the order of the operators."""
    operator_outputs: Column
    """How many of ``outputs`` are its own, in the order of the operators."""
    argument_key: Column
    """Position in ``strings`` of the keyword; -1 for a positional argument or a part of a tuple."""
    argument_form: Column
    """See ``Form``."""
    argument_number: Column
    outputs: Column
    """Ids of values. One that an earlier operator made, or a leaf, was handed through."""
    border_record: Column
    """Id of a record that holds a value of the program, and in ``border_value`` of which one."""
    border_value: Column

    @property
    def values(self) -> int:
        """Count the values."""
        return int(self.value_dtype.size)

    @property
    def operators(self) -> int:
        """Count the operators."""
        return int(self.operator_name.size)

    @property
    def construction(self) -> tuple[int, int]:
        """The first operator that ran while the model was built, and the first value of those.

        Both are counts of all where none was recorded.
        """
        built = np.flatnonzero(self.operator_mode & Mode.CONSTRUCTION)
        if not built.size:
            return self.operators, self.values
        first = int(built[0])
        rows, made = int(self.operator_rows[:first].sum()), int(self.operator_outputs[:first].sum())
        taken = self.argument_number[rows:][self.argument_form[rows:] == Form.VALUE]
        used = np.concatenate([taken, self.outputs[made:]])
        return first, int(used.min(initial=self.values))

    def shape(self, index: int) -> tuple[int, ...]:
        """Return one of the shapes."""
        start = int(self.shape_ends[index - 1]) if index else 0
        return tuple(int(size) for size in self.shape_sizes[start : int(self.shape_ends[index])])


_VALUES = "values of the program"
PROGRAM_TABLES: dict[str, tuple[TableColumn, ...]] = {
    "floats": (TableColumn("number", Kind.NUMBER),),
    "values": (
        TableColumn("dtype", Kind.TEXT),
        TableColumn("shape", Kind.NUMBERS, most=MOST_AXES),
        TableColumn("kind", Kind.INTEGER, limit=len(LEAF_KINDS)),
        TableColumn("name", Kind.TEXT, optional=True),
        TableColumn("content", Kind.ROW, table="values", optional=True),
        TableColumn("gradient", Kind.ROW, table="values", optional=True),
    ),
    "operators": (
        TableColumn("name", Kind.TEXT),
        TableColumn("call", Kind.ROW, table="calls", optional=True),
        TableColumn("mode", Kind.INTEGER, limit=1 << len(Mode)),
        TableColumn("site", Kind.LINE),
        TableColumn("rows", Kind.INTEGER),
        TableColumn("outputs", Kind.INTEGER),
    ),
    "arguments": (
        TableColumn("key", Kind.TEXT, optional=True),
        TableColumn("form", Kind.INTEGER, limit=len(Form)),
        TableColumn("number", Kind.INTEGER, low=-(1 << 63), limit=1 << 63),
    ),
    "outputs": (TableColumn("value", Kind.ROW, table=_VALUES),),
    "borders": (
        TableColumn("record", Kind.ROW, table="records"),
        TableColumn("value", Kind.ROW, table=_VALUES),
    ),
}
"""The columns of each table of a program."""

_TEXT_FORMS = (Form.STRING, Form.DTYPE, Form.OPAQUE)
_WHOLE = {"floats": "floats", "outputs": "outputs"}
"""Tables of one column that have a field of ``ProgramColumns`` to themselves."""


def _field(table: str, column: str) -> str:
    """Return the field of ``ProgramColumns`` that holds a column."""
    return _WHOLE.get(table, f"{table.removesuffix('s')}_{column}")


def encode_program(columns: ProgramColumns, pools: PoolsBuilder) -> dict[str, Column]:
    """Return the datasets of a program by name."""
    texts = _positions([pools.text(text) for text in columns.strings])
    shapes = [pools.numbers(columns.shape(index)) for index in range(columns.shape_ends.size)]
    files, functions = texts[columns.site_file], texts[columns.site_function]
    lines = columns.site_line.tolist()
    sites = [
        pools.site(*site) for site in zip(files.tolist(), lines, functions.tolist(), strict=True)
    ]
    moved = {Kind.TEXT: texts, Kind.NUMBERS: _positions(shapes), Kind.LINE: _positions(sites)}
    datasets: dict[str, Column] = {}
    for table, own in PROGRAM_TABLES.items():
        cells = {column.name: getattr(columns, _field(table, column.name)) for column in own}
        for column in own:
            if column.kind in moved:
                cells[column.name] = moved[column.kind][cells[column.name]]
        if table == "arguments":
            is_text = np.logical_or.reduce([cells["form"] == form for form in _TEXT_FORMS])
            cells["number"] = cells["number"].astype(np.int64)
            cells["number"][is_text] = texts[cells["number"][is_text]]
        datasets[table] = pack(cells)
    return datasets


def _positions(positions: Sequence[int]) -> Column:
    """Return where each position of one pool is in another; -1 stays."""
    return np.array([*positions, -1], np.int64)


def decode_program(
    datasets: Mapping[str, Column], index: Mapping[str, Table], pools: Pools
) -> tuple[ProgramColumns | None, list[Problem]]:
    """Read and check the tables of a program.

    Returns:
        The program, or None and everything that is wrong with it.
    """
    problems: list[Problem] = []
    if datasets.keys() != PROGRAM_TABLES.keys():
        message = f"expected the datasets {', '.join(PROGRAM_TABLES)}"
        return None, [Problem(loc="program", kind=ProblemKind.MISSING, message=message)]
    tables: dict[str, Table] = {}
    for name, columns in PROGRAM_TABLES.items():
        table = unpack(f"program.{name}", datasets[name], columns, problems)
        if table is not None:
            tables[name] = table
    if problems:
        return None, problems
    rows = {name: length_of(table) for name, table in index.items()}
    rows[_VALUES] = length_of(tables["values"])
    for name, columns in PROGRAM_TABLES.items():
        check_table(f"program.{name}", columns, tables[name], pools, rows, problems)
    if problems:
        return None, problems
    program = ProgramColumns(
        strings=pools.strings,
        shape_sizes=pools.list_items,
        shape_ends=pools.list_ends,
        site_file=pools.sites["file"],
        site_line=pools.sites["line"],
        site_function=pools.sites["function"],
        **{
            _field(table, name): column
            for table, columns in tables.items()
            for name, column in columns.items()
        },
    )
    _check_counts(program, problems)
    _check_sizes(program, index["values"]["size"], pools, problems)
    for check in (_check_arguments, _check_construction):
        if not problems:
            check(program, problems)
    return (None if problems else program), problems


def _problem(name: str, kind: ProblemKind, message: str) -> Problem:
    return Problem(loc=f"program.{name}", kind=kind, message=message)


def _check_counts(program: ProgramColumns, problems: list[Problem]) -> None:
    """Check that the counts of arguments and outputs add up."""
    for counts, rows in (("operator_rows", "argument_form"), ("operator_outputs", "outputs")):
        count, found = getattr(program, counts), getattr(program, rows).size
        if (count > found).any() or int(count.sum()) != found:
            message = f"expected counts that add up to {found}"
            problems.append(_problem(counts, ProblemKind.SIZE, message))


def _check_sizes(
    program: ProgramColumns, sizes: Column, pools: Pools, problems: list[Problem]
) -> None:
    """Check that what was stored of a value and its gradient has as many elements as its shape."""
    counts = np.append(pools.list_counts, -1)[program.value_shape]
    for name in ("value_content", "value_gradient"):
        row = getattr(program, name)
        found = np.append(sizes, -1)[row]
        for value in np.flatnonzero((row >= 0) & (found != counts))[:1]:
            message = f"expected {counts[value]} elements of value {value}, found {found[value]}"
            problems.append(_problem(name, ProblemKind.SIZE, message))


def _check_arguments(program: ProgramColumns, problems: list[Problem]) -> None:
    """Check what the numbers of arguments refer to, and how they are nested."""
    form, number = program.argument_form, program.argument_number
    tables = {
        Form.FLOAT: program.floats.size,
        Form.COMPLEX: program.floats.size - 1,
        **dict.fromkeys(_TEXT_FORMS, len(program.strings)),
        Form.VALUE: program.values,
        Form.TUPLE: form.size,
        Form.MAPPING: form.size,
    }
    for kind, size in tables.items():
        chosen = number[form == kind]
        if chosen.size and not (chosen.min() >= 0 and int(chosen.max()) < size):
            message = f"expected positions of {kind.name.lower()} from 0 to below {size}"
            problems.append(_problem("argument_number", ProblemKind.RANGE, message))
    if not problems:
        _check_nesting(program, problems)


def _check_nesting(program: ProgramColumns, problems: list[Problem]) -> None:
    """Check that each operator's arguments are whole trees of values that are there by then.

    An operator takes leaves and what operators before it made: a program has no cycle.
    """
    forms, numbers = program.argument_form.tolist(), program.argument_number.tolist()
    outputs = program.outputs.tolist()
    is_there = [kind != 0 for kind in program.value_kind.tolist()]
    row = made = 0
    counts = zip(program.operator_rows.tolist(), program.operator_outputs.tolist(), strict=True)
    for operator, (rows, count) in enumerate(counts):
        own = list(zip(forms[row : row + rows], numbers[row : row + rows], strict=True))
        trouble = _nesting_trouble(own) or _order_trouble(own, is_there)
        if trouble:
            message = f"operator {operator} {trouble}"
            problems.append(_problem("argument_number", ProblemKind.REFERENCE, message))
            return
        for value in outputs[made : made + count]:
            is_there[value] = True
        row, made = row + rows, made + count
    if not all(is_there):
        message = f"value {is_there.index(False)} is no leaf and no operator makes it"
        problems.append(_problem("value_kind", ProblemKind.REFERENCE, message))


def _check_construction(program: ProgramColumns, problems: list[Problem]) -> None:
    """Check that what ran while the model was built stands last, with values of its own."""
    operators, values = program.construction
    is_built = (program.operator_mode & Mode.CONSTRUCTION) != 0
    rows, made = (
        int(counts[:operators].sum())
        for counts in (program.operator_rows, program.operator_outputs)
    )
    is_value = program.argument_form[:rows] == Form.VALUE
    used = (
        program.argument_number[:rows][is_value],
        program.outputs[:made],
        program.border_value,
    )
    if not is_built[operators:].all() or any((one >= values).any() for one in used):
        message = "expected operators of the construction last, with values that no other has"
        problems.append(_problem("operator_mode", ProblemKind.REFERENCE, message))


def _nesting_trouble(rows: Sequence[tuple[int, int]]) -> str:
    """Return what is wrong with the trees that an operator's (form, number) rows spell."""
    open_parts: list[int] = []
    for form, number in rows:
        while open_parts and not open_parts[-1]:
            open_parts.pop()
        if open_parts:
            open_parts[-1] -= 1
        if form in (Form.TUPLE, Form.MAPPING, Form.SLICE):
            open_parts.append(3 if form == Form.SLICE else number)
        if len(open_parts) > MOST_ARGUMENT_DEPTH:
            return "has arguments that are nested too deeply"
    return "has an argument whose parts are not all there" if any(open_parts) else ""


def _order_trouble(rows: Sequence[tuple[int, int]], is_there: Sequence[bool]) -> str:
    """Return what is wrong with the values that an operator takes."""
    for form, number in rows:
        if form == Form.VALUE and not is_there[number]:
            return f"takes value {number}, which is made later or never"
    return ""
