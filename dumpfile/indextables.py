"""The tables of an index: their columns, and what rows must say about each other."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

from .address import CALL_ROLES, Phase, Role
from .columns import Cells, Column, integer, mapping, number, one_of, shape, source, strings, typed
from .digest import DIGEST_PATTERN
from .dtypes import DTYPE_NAMES
from .problem import Problem, ProblemKind
from .sampling import LARGEST_SAMPLE, LARGEST_SIZE, is_sampled
from .schema import JSON, Content

Row = Sequence[Any]
Table = list[Sequence[Any]]  # one sequence of cells for each column

_MOST_PROBLEMS = 10  # of one column
_DIGEST_LENGTH = 32
_HEXADECIMAL = re.compile("[0-9a-f]*")
_MOST_SHOWN = 60  # characters of a cell


def _are_digests(cells: Cells) -> bool:
    return (
        {str}.issuperset(map(type, cells))
        and {_DIGEST_LENGTH}.issuperset(map(len, cells))
        and _HEXADECIMAL.fullmatch("".join(cells)) is not None
    )


COLUMNS: dict[str, tuple[Column, ...]] = {
    "modules": (
        typed("path", str),
        typed("class_name", str),
        typed("class_path", str),
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
        typed("dataset", str, type(None)),
        integer("offset"),
    ),
    "records": (
        integer("module"),
        integer("call", optional=True),
        one_of("phase", Phase),
        one_of("role", Role),
        typed("slot", str),
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
    """Turn a table's rows into columns in the order of ``COLUMNS``, all checked."""
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
    for column, cells in zip(columns, ordered, strict=True):
        for row in column.bad_rows(cells, most=_MOST_PROBLEMS):
            message = f"expected {column.expected}, found {_shown(cells[row])}"
            loc = f"{name}[{row}].{column.name}"
            problems.append(_problem(loc, ProblemKind.TYPE, message))
    return ordered


def _shown(cell: object) -> str:
    text = repr(cell)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."


# -- what rows say about each other


def check_references(tables: dict[str, Table], problems: list[Problem]) -> None:
    """Check what rows say about rows of other tables; every cell by itself is right already."""
    length = {name: len(table[0]) for name, table in tables.items()}
    for table, column, target in (
        ("calls", 0, "modules"),
        ("records", 0, "modules"),
        ("records", 1, "calls"),
        ("records", 7, "values"),
    ):
        cells = tables[table][column]
        limit = length[target]
        if max((cell for cell in cells if cell is not None), default=-1) < limit:
            continue
        for row, cell in enumerate(cells):
            if cell is not None and cell >= limit:
                loc = f"{table}[{row}].{COLUMNS[table][column].name}"
                message = f"expected one of {limit} {target}, found {cell}"
                problems.append(_problem(loc, ProblemKind.REFERENCE, message))
    _check_parents("modules", tables["modules"][4], problems)
    _check_parents("calls", tables["calls"][2], problems)
    if not problems:
        _check_order(tables, problems)
        _check_records(tables, problems)
        _check_addresses(tables["records"], problems)
        _check_values(tables["values"], problems)
        if not problems:
            _check_overlaps(tables["values"], tables.get("samples", []), problems)


def _check_parents(table: str, parents: Sequence[Any], problems: list[Problem]) -> None:
    for row, parent in enumerate(parents):
        if parent is not None and parent >= row:
            message = f"expected an earlier row, found {parent}"
            problems.append(_problem(f"{table}[{row}].parent", ProblemKind.REFERENCE, message))


def _check_order(tables: dict[str, Table], problems: list[Problem]) -> None:
    paths, calls = tables["modules"][0], tables["calls"]
    if len(set(paths)) != len(paths):
        message = "a module path stands there twice"
        problems.append(_problem("modules", ProblemKind.UNEXPECTED, message))
    if len(set(zip(calls[0], calls[1], strict=True))) != len(calls[0]):
        message = "a module has two calls of the same index"
        problems.append(_problem("calls", ProblemKind.UNEXPECTED, message))
    if any(later <= earlier for earlier, later in pairwise(calls[3])):
        message = "expected calls to stand in the order of their start"
        problems.append(_problem("calls", ProblemKind.RANGE, message))


def _check_records(tables: dict[str, Table], problems: list[Problem]) -> None:
    sizes = tables["values"][2]
    call_modules = tables["calls"][0]
    modules, calls, _, roles, _, _, shapes, values, _, _ = tables["records"]
    prod = math.prod
    call_roles: frozenset[str] = frozenset(CALL_ROLES)
    for row, (module, call, role, dims, value) in enumerate(
        zip(modules, calls, roles, shapes, values, strict=True)
    ):
        if value is not None and prod(dims) != sizes[value]:
            message = f"expected {sizes[value]} elements, found shape {_shown(dims)}"
            problems.append(_problem(f"records[{row}].shape", ProblemKind.SIZE, message))
        if (call is None) is (role in call_roles):
            message = f"role {role} {'needs a' if call is None else 'has no'} call"
            problems.append(_problem(f"records[{row}].call", ProblemKind.REFERENCE, message))
        elif call is not None and call_modules[call] != module:
            message = f"expected the call's module {call_modules[call]}, found {module}"
            problems.append(_problem(f"records[{row}].module", ProblemKind.REFERENCE, message))


def _check_addresses(records: Table, problems: list[Problem]) -> None:
    modules, calls, phases, roles, slots = records[:5]
    addresses = list(zip(modules, calls, phases, roles, slots, strict=True))
    if len(set(addresses)) == len(addresses):
        return
    seen: dict[tuple[Any, ...], int] = {}
    for row, address in enumerate(addresses):
        first = seen.setdefault(address, row)
        if first != row:
            message = f"the same address as records[{first}]"
            problems.append(_problem(f"records[{row}]", ProblemKind.UNEXPECTED, message))


def _check_overlaps(values: Table, samples: Table, problems: list[Problem]) -> None:
    """Check that no two values share elements; writers put them one after the other."""
    counts = dict(zip(samples[0], samples[1], strict=True)) if samples else {}
    places = sorted(
        (dataset, offset, min(size, counts.get(row, size)), row)
        for row, (size, dataset, offset) in enumerate(
            zip(values[2], values[12], values[13], strict=True)
        )
        if dataset is not None
    )
    for (dataset, offset, size, row), after in pairwise(places):
        if after[0] == dataset and offset + size > after[1]:
            message = f"its elements overlap with those of values[{row}]"
            problems.append(_problem(f"values[{after[3]}].offset", ProblemKind.RANGE, message))


def _check_values(table: Table, problems: list[Problem]) -> None:
    sizes, contents, datasets = table[2], table[11], table[12]
    with_elements = {Content.FULL.value, Content.SAMPLE.value}
    for row, (size, content, dataset) in enumerate(zip(sizes, contents, datasets, strict=True)):
        if (dataset is not None) is not (content in with_elements and size > 0):
            message = f"content {content} of {size} elements, but dataset {_shown(dataset)}"
            problems.append(_problem(f"values[{row}].dataset", ProblemKind.MISSING, message))


def check_events(tables: dict[str, Table], problems: list[Problem]) -> None:
    """Check that draws and recomputations are of calls that are there, each call's told once."""
    calls = len(tables["calls"][0])
    for name in ("draws", "recomputed"):
        for row, call in enumerate(tables[name][0]):
            if call is not None and call >= calls:
                message = f"expected one of {calls} calls, found {call}"
                loc = f"{name}[{row}].call"
                problems.append(_problem(loc, ProblemKind.REFERENCE, message))
    repeated = tables["recomputed"][0]
    if len(set(repeated)) != len(repeated):
        message = "a call stands there twice"
        problems.append(_problem("recomputed", ProblemKind.UNEXPECTED, message))


def check_samples(samples: Table, values: Table, problems: list[Problem]) -> None:
    """Check that each sampled value, and no other, has a row that fits its size."""
    sizes = values[2]
    sampled = {row for row, content in enumerate(values[11]) if content == Content.SAMPLE.value}
    for row, (value, count, dims) in enumerate(zip(*samples, strict=True)):
        loc = f"samples[{row}]"
        if value not in sampled:
            message = f"expected a value of content sample, once, found {value}"
            problems.append(_problem(f"{loc}.value", ProblemKind.REFERENCE, message))
            continue
        sampled.remove(value)
        size = sizes[value]
        if math.prod(dims) != size:
            message = f"expected {size} elements, found shape {_shown(dims)}"
            problems.append(_problem(f"{loc}.shape", ProblemKind.SIZE, message))
        if count > LARGEST_SAMPLE or size > LARGEST_SIZE or not is_sampled(size, count):
            message = f"{count} positions of {size} elements are no sample"
            problems.append(_problem(f"{loc}.count", ProblemKind.RANGE, message))
    problems.extend(
        _problem(f"values[{row}]", ProblemKind.MISSING, "expected a row of samples, found none")
        for row in sorted(sampled)
    )
