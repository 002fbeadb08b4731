"""The index of a file as JSON text: four tables, each with named columns and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .bulk import collector_paused
from .indexrows import (
    build_index,
    call_row,
    draw_rows,
    module_row,
    recomputed_rows,
    sample_rows,
    value_row,
)
from .indextables import (
    COLUMNS,
    OPTIONAL,
    Row,
    check_events,
    check_references,
    check_samples,
    read_columns,
    read_head,
)
from .problem import Problem, ProblemKind
from .strictjson import StrictJSONError, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .schema import JSON, CallInfo, Draw, Index, ModuleInfo, ValueInfo


def encode_index(
    *,
    step: int,
    rank: int,
    modules: Iterable[ModuleInfo],
    calls: Iterable[CallInfo],
    values: Iterable[ValueInfo],
    records: Iterable[Row],
    draws: Iterable[Draw] | None = None,
) -> bytes:
    """Write an index.

    Args:
        step: Iteration.
        rank: Index of the process.
        modules: Rows of the table.
        calls: Rows of the table.
        values: Rows of the table.
        records: Cells in the order of ``COLUMNS["records"]``.
        draws: Rows of the table; None leaves it out, since nobody looked.
    """
    values, calls = tuple(values), tuple(calls)
    rows = {
        "modules": [module_row(module) for module in modules],
        "calls": [call_row(call) for call in calls],
        "values": [value_row(value) for value in values],
        "records": list(records),
    }
    document: dict[str, Any] = {"step": step, "rank": rank}
    for table, columns in COLUMNS.items():
        document[table] = {"columns": [column.name for column in columns], "rows": rows[table]}
    optional = {
        "samples": sample_rows(values) or None,
        "draws": None if draws is None else draw_rows(draws),
        "recomputed": recomputed_rows(calls) or None,
    }
    for table, given in optional.items():
        if given is not None:
            names = [column.name for column in OPTIONAL[table]]
            document[table] = {"columns": names, "rows": given}
    return to_json(cast("JSON", document)).encode()


def decode_index(data: bytes) -> tuple[Index | None, list[Problem]]:
    """Read an index and check everything that can be checked without the elements.

    Returns:
        The index, None if there are problems, and the problems; ``loc`` is like
        ``records[12].shape``.
    """
    with collector_paused():
        problems: list[Problem] = []
        index = _decode(data, problems)
        return index, problems


def _decode(data: bytes, problems: list[Problem]) -> Index | None:
    try:
        document = from_json(data)
    except StrictJSONError as error:
        problems.append(Problem(loc="index", kind=ProblemKind.SYNTAX, message=str(error)))
        return None
    head = read_head(document, problems)
    if problems or not isinstance(document, dict):
        return None
    tables = {name: read_columns(name, document.pop(name, None), problems) for name in COLUMNS}
    has_draws = "draws" in document
    for name, columns in OPTIONAL.items():
        if name in document:
            tables[name] = read_columns(name, document.pop(name), problems)
        else:
            tables[name] = [[] for _ in columns]
    if not problems:
        check_references(tables, problems)
        check_samples(tables["samples"], tables["values"], problems)
        check_events(tables, problems)
    return None if problems else build_index(head, tables, has_draws=has_draws)
