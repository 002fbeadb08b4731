"""The tables of an index, and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from .address import Phase, Role
from .columns import Cells, Column, integer, mapping, number, one_of, shape, source, strings, typed
from .digest import DIGEST_PATTERN
from .dtypes import DTYPE_NAMES
from .problem import Problem, ProblemKind
from .schema import JSON, Content

Row = Sequence[Any]
Table = list[Sequence[Any]]  # one sequence of cells for each column

_MOST_PROBLEMS = 10  # of one column
_DIGEST_LENGTH = 32
_HEXADECIMAL = b"0123456789abcdef"
_MOST_SHOWN = 60  # characters of a cell


def _are_digests(cells: Cells) -> bool:
    if not {str}.issuperset(map(type, cells)) or not {_DIGEST_LENGTH}.issuperset(map(len, cells)):
        return False
    joined = "".join(cells)
    return joined.isascii() and not joined.encode().translate(None, _HEXADECIMAL)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "modules": (
        typed("path", str),
        typed("class_name", str, shared=True),
        typed("class_path", str, shared=True),
        strings("bases"),
        integer("parent", optional=True),
        strings("aliases"),
        typed("training", bool),
        mapping("attributes"),
        source("source"),
    ),
    "calls": (
        integer("module"),
        integer("index"),
        integer("parent", optional=True),
        integer("start"),
        integer("end", optional=True),
        typed("training", bool),
        source("site"),
        mapping("literals"),
        mapping("containers", of=str),
    ),
    "values": (
        Column(
            name="digest",
            expected="32 hexadecimal digits",
            accepts=lambda cell: isinstance(cell, str) and bool(DIGEST_PATTERN.fullmatch(cell)),
            accepts_all=_are_digests,
        ),
        one_of("dtype", DTYPE_NAMES),
        integer("size"),
        number("minimum"),
        number("maximum"),
        number("mean"),
        number("l2"),
        integer("nan"),
        integer("posinf"),
        integer("neginf"),
        integer("zeros"),
        one_of("content", Content),
        typed("dataset", str, type(None), shared=True),
        integer("offset"),
    ),
    "records": (
        integer("module"),
        integer("call", optional=True),
        one_of("phase", Phase),
        one_of("role", Role),
        typed("slot", str, shared=True),
        integer("order"),
        shape("shape"),
        integer("value", optional=True),
        typed("requires_grad", bool),
        integer("tensor", optional=True),
    ),
}
"""The columns of each table, in the order in which they are written."""

SAMPLES = (integer("value"), integer("count", low=1), shape("shape"))
"""The columns of the table ``samples``, which is there if a value is of content ``sample``."""

OPTIONAL: dict[str, tuple[Column, ...]] = {
    "samples": SAMPLES,
    "draws": (integer("call", optional=True), integer("after"), strings("generators")),
    "recomputed": (integer("call"), integer("count", low=1)),
}
"""The columns of the tables that a file may lack."""


def _problem(loc: str, kind: ProblemKind, message: str) -> Problem:
    return Problem(loc=loc, kind=kind, message=message)


def read_head(document: JSON, problems: list[Problem]) -> tuple[int, int]:
    """Read step and rank, and see that nothing unknown is there."""
    if not isinstance(document, dict):
        problems.append(_problem("index", ProblemKind.TYPE, "expected an object"))
        return 0, 0
    problems.extend(
        _problem(name, ProblemKind.UNEXPECTED, "unknown key")
        for name in sorted(document.keys() - COLUMNS.keys() - OPTIONAL.keys() - {"step", "rank"})
    )
    found = []
    for name in ("step", "rank"):
        number_found = document.get(name)
        if type(number_found) is not int or number_found < 0:
            problems.append(_problem(name, ProblemKind.TYPE, "expected an integer >= 0"))
        found.append(number_found)
    return cast("tuple[int, int]", tuple(found))


def read_columns(name: str, table: JSON, problems: list[Problem]) -> Table:
    """Turn a table's rows into columns in the order of ``COLUMNS``, all checked and made."""
    columns = COLUMNS.get(name) or OPTIONAL[name]
    if not isinstance(table, dict) or table.keys() != {"columns", "rows"}:
        problems.append(_problem(name, ProblemKind.TYPE, "expected columns and rows"))
        return []
    names, rows = table["columns"], table["rows"]
    if not isinstance(names, list) or sorted(map(str, names)) != sorted(c.name for c in columns):
        found = f"expected the columns {', '.join(c.name for c in columns)}"
        problems.append(_problem(f"{name}.columns", ProblemKind.MISSING, found))
        return []
    if not isinstance(rows, list) or not {list}.issuperset(map(type, rows)):
        problems.append(_problem(f"{name}.rows", ProblemKind.TYPE, "expected a list of lists"))
        return []
    if not {len(columns)}.issuperset(map(len, cast("list[Row]", rows))):
        problems.append(_problem(f"{name}.rows", ProblemKind.SIZE, "a row has too few cells"))
        return []
    places = [names.index(column.name) for column in columns]
    # One pass for each column: zip(*rows) goes through all rows at once, three times as slowly.
    ordered: Table = [[row[place] for row in cast("list[Row]", rows)] for place in places]
    is_right = True
    for column, cells in zip(columns, ordered, strict=True):
        for row in column.bad_rows(cells, most=_MOST_PROBLEMS):
            message = f"expected {column.expected}, found {shown(cells[row])}"
            loc = f"{name}[{row}].{column.name}"
            problems.append(_problem(loc, ProblemKind.TYPE, message))
            is_right = False
    if not is_right:
        return ordered
    return [column.make(cells, {}) for column, cells in zip(columns, ordered, strict=True)]


def shown(cell: object) -> str:
    """Show a cell in a message, its beginning if it is long."""
    text = repr(cell)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."
