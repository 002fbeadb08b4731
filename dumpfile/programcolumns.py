"""The program of one step and rank as it lies on disk: flat columns that refer to each other.

::

    operators ──► arguments ──► values ◄── outputs        borders: record ──► value

Each column is one dataset below ``/program``, of the smallest integer dtype that holds it. Texts,
shapes and floating-point numbers stand once, in tables of their own, and columns hold their
positions there. ``docs/format.md`` is the specification.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .problem import Problem, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = [
    "LEAF_KINDS",
    "PROGRAM_COLUMNS",
    "Form",
    "LeafKind",
    "Mode",
    "ProgramColumns",
    "decode_program",
    "encode_program",
]

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


_TEXTS = ("string_bytes", "string_ends")
PROGRAM_COLUMNS: tuple[str, ...] = (
    *_TEXTS,
    *(item.name for item in fields(ProgramColumns) if item.name != "strings"),
)
"""Names of the datasets below ``/program``."""

_INTEGERS = tuple(np.dtype(name) for name in ("u1", "i1", "u2", "i2", "u4", "i4", "i8"))


def encode_program(columns: ProgramColumns) -> dict[str, Column]:
    """Return the datasets of a program by name, each of the smallest dtype that holds it."""
    encoded = [text.encode() for text in columns.strings]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    datasets: dict[str, Column] = {
        "string_bytes": np.frombuffer(b"".join(encoded), np.uint8),
        "string_ends": _narrowed(ends),
    }
    for name in PROGRAM_COLUMNS[len(_TEXTS) :]:
        column = getattr(columns, name)
        datasets[name] = column.astype("<f8") if name == "floats" else _narrowed(column)
    if not any(columns.strings[position] for position in set(columns.value_name.tolist())):
        datasets["value_name"] = np.zeros(0, np.uint8)
    return datasets


def _narrowed(column: Column) -> Column:
    """Return integers in the smallest dtype that holds them all."""
    wide = column.astype(np.int64)
    if not wide.size:
        return wide.astype(np.uint8)
    low, high = int(wide.min()), int(wide.max())
    fitting = (
        kind for kind in _INTEGERS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
    )
    return wide.astype(next(fitting).newbyteorder("<"))


def decode_program(
    read: Callable[[str], Column], limits: Mapping[str, int], sizes: Sequence[int] = ()
) -> tuple[ProgramColumns | None, list[Problem]]:
    """Read and check the columns of a program.

    Args:
        read: Returns a dataset by name: one-dimensional, ``floats`` of float64, others of integers.
        limits: How many ``calls``, ``records`` and ``contents`` the index has.
        sizes: How many elements each of the contents has; empty if that is not known.

    Returns:
        The program, or None and everything that is wrong with it.
    """
    problems: list[Problem] = []
    strings = _decode_strings(read(_TEXTS[0]), read(_TEXTS[1]), problems)
    columns = {
        name: read(name) if name == "floats" else read(name).astype(np.int64)
        for name in PROGRAM_COLUMNS[len(_TEXTS) :]
    }
    if problems:
        return None, problems
    if not columns["value_name"].size:
        columns["value_name"] = np.full(columns["value_dtype"].size, -1)
    program = ProgramColumns(strings=strings, **columns)
    _check_lengths(program, problems)
    if not problems:
        _check_ranges(program, limits, problems)
    if not problems and sizes:
        _check_sizes(program, sizes, problems)
    if not problems:
        _check_arguments(program, problems)
    if not problems:
        _check_construction(program, problems)
    return (None if problems else program), problems


def _problem(name: str, kind: ProblemKind, message: str) -> Problem:
    return Problem(loc=f"program.{name}", kind=kind, message=message)


def _decode_strings(raw: Column, ends: Column, problems: list[Problem]) -> tuple[str, ...]:
    ends = ends.astype(np.int64)
    last = int(ends[-1]) if ends.size else 0
    if (ends.size and (ends[0] < 0 or (np.diff(ends) < 0).any())) or last != raw.size:
        message = f"expected ascending ends up to {raw.size}"
        problems.append(_problem("string_ends", ProblemKind.SIZE, message))
        return ()
    data = raw.astype(np.uint8).tobytes()
    starts = [0, *ends[:-1].tolist()] if ends.size else []
    try:
        return tuple(data[a:b].decode() for a, b in zip(starts, ends.tolist(), strict=True))
    except UnicodeDecodeError:
        problems.append(_problem("string_bytes", ProblemKind.SYNTAX, "expected UTF-8"))
        return ()


_TABLES = ("site", "value", "operator", "argument", "border")


def _check_lengths(program: ProgramColumns, problems: list[Problem]) -> None:
    """Check that the columns of a table are of one length, and that counts add up."""
    for table in _TABLES:
        names = [name for name in PROGRAM_COLUMNS if name.startswith(f"{table}_")]
        lengths = {getattr(program, name).size for name in names}
        if len(lengths) > 1:
            message = f"expected columns of one length, found {sorted(lengths)}"
            problems.append(_problem(table, ProblemKind.SIZE, message))
    for counts, rows in (("operator_rows", "argument_form"), ("operator_outputs", "outputs")):
        count, found = getattr(program, counts), getattr(program, rows).size
        if (count < 0).any() or (count > found).any() or int(count.sum()) != found:
            message = f"expected counts that add up to {found}"
            problems.append(_problem(counts, ProblemKind.SIZE, message))
    ends, sizes = program.shape_ends, program.shape_sizes
    widths = np.diff(ends, prepend=0)
    if (widths < 0).any() or (widths > MOST_AXES).any() or (sizes < 0).any():
        message = f"expected shapes of at most {MOST_AXES} axes, none below 0"
        problems.append(_problem("shape_ends", ProblemKind.RANGE, message))
    elif (int(ends[-1]) if ends.size else 0) != sizes.size:
        message = f"expected shapes of {sizes.size} sizes in all"
        problems.append(_problem("shape_ends", ProblemKind.SIZE, message))


def _check_ranges(
    program: ProgramColumns, limits: Mapping[str, int], problems: list[Problem]
) -> None:
    """Check that each position lies within the table that it is a position in."""
    strings, values = len(program.strings), program.values
    bounds: dict[str, tuple[int, int]] = {
        "site_file": (0, strings),
        "site_line": (0, 1 << 31),
        "site_function": (0, strings),
        "value_dtype": (0, strings),
        "value_shape": (0, program.shape_ends.size),
        "value_kind": (0, len(LEAF_KINDS)),
        "value_name": (-1, strings),
        "value_content": (-1, limits["contents"]),
        "value_gradient": (-1, limits["contents"]),
        "operator_name": (0, strings),
        "operator_call": (-1, limits["calls"]),
        "operator_mode": (0, 1 << len(Mode)),
        "operator_site": (-1, program.site_file.size),
        "argument_key": (-1, strings),
        "argument_form": (0, len(Form)),
        "outputs": (0, values),
        "border_record": (0, limits["records"]),
        "border_value": (0, values),
    }
    for name, (low, high) in bounds.items():
        column = getattr(program, name)
        if column.size and not (low <= int(column.min()) and int(column.max()) < high):
            message = f"expected positions from {low} to below {high}"
            problems.append(_problem(name, ProblemKind.RANGE, message))


def _check_sizes(program: ProgramColumns, sizes: Sequence[int], problems: list[Problem]) -> None:
    """Check that what was stored of a value and its gradient has as many elements as its shape."""
    counts = [math.prod(program.shape(index)) for index in range(program.shape_ends.size)]
    shapes = program.value_shape.tolist()
    for name in ("value_content", "value_gradient"):
        for value, (row, shape) in enumerate(
            zip(getattr(program, name).tolist(), shapes, strict=True)
        ):
            if row >= 0 and sizes[row] != counts[shape]:
                message = f"expected {counts[shape]} elements of value {value}, found {sizes[row]}"
                problems.append(_problem(name, ProblemKind.SIZE, message))
                return


def _check_arguments(program: ProgramColumns, problems: list[Problem]) -> None:
    """Check what the numbers of arguments refer to, and how they are nested."""
    form, number = program.argument_form, program.argument_number
    tables = {
        Form.FLOAT: program.floats.size,
        Form.COMPLEX: program.floats.size - 1,
        Form.STRING: len(program.strings),
        Form.DTYPE: len(program.strings),
        Form.OPAQUE: len(program.strings),
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
