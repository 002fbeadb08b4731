"""The index of a file as JSON text: four tables, each with named columns and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .bulk import collector_paused
from .indexrelations import check_events, check_references, check_samples
from .indexrows import (
    build_index,
    call_row,
    draw_rows,
    module_row,
    recomputed_rows,
    sample_rows,
    value_row,
)
from .indextables import COLUMNS, OPTIONAL, Row, Table, read_columns, read_head
from .indextext import find_tables, read_rows
from .problem import Problem, ProblemKind
from .strictjson import StrictJSONError, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .indexlike import Rows, WrittenIndex
    from .indextext import RowsText
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


def decode_index(
    text: bytes, *, like: WrittenIndex | None = None
) -> tuple[Index | None, list[Problem], RowsText]:
    """Read an index and check everything that can be checked without the elements.

    Args:
        text: All of it.
        like: An index that this one may be like: what is the same text becomes the same objects.

    Returns:
        The index, None if there are problems; the problems, whose ``loc`` is like
        ``records[12].shape``; and where in the text the rows of each table lie, nothing if it is
        not as ``encode_index`` writes it.
    """
    with collector_paused():
        found = _decode_text(text, like)
        if found is not None:
            return found[0], [], found[1]
        problems: list[Problem] = []
        index = _decode_document(text, problems)
        return index, problems, {}


def _decode_text(text: bytes, like: WrittenIndex | None) -> tuple[Index, RowsText] | None:
    """Read an index as ``encode_index`` writes it; None if it is not, or anything is wrong."""
    found = find_tables(text)
    if found is None:
        return None
    head, rows = found
    tables: dict[str, Table] = {}
    shared: dict[str, Rows] = {}
    for name, place in rows.items():
        if like is not None and like.has(name, text, rows, tables):
            shared[name] = like.objects(name)
            tables[name] = like.table(name)
            continue
        table = read_rows(name, text[place])
        if table is None:
            return None
        tables[name] = table
    index = _related(head, tables, [], shared)
    return None if index is None else (index, rows)


def _decode_document(data: bytes, problems: list[Problem]) -> Index | None:
    """Read an index as any JSON, and find out all that is wrong with it."""
    try:
        document = from_json(data)
    except StrictJSONError as error:
        problems.append(Problem(loc="index", kind=ProblemKind.SYNTAX, message=str(error)))
        return None
    head = read_head(document, problems)
    if problems or not isinstance(document, dict):
        return None
    names = (*COLUMNS, *(name for name in OPTIONAL if name in document))
    tables = {name: read_columns(name, document.pop(name, None), problems) for name in names}
    return None if problems else _related(head, tables, problems, {})


def _related(
    head: tuple[int, int],
    tables: dict[str, Table],
    problems: list[Problem],
    shared: Mapping[str, Rows],
) -> Index | None:
    """Make an index of tables if their rows say of each other what is so.

    Args:
        head: Step and rank.
        tables: Checked columns; of those in ``shared`` only what others refer to.
        problems: Gets what is wrong.
        shared: Rows that are objects already, and were checked.
    """
    has_draws = "draws" in tables
    whole: dict[str, Table] = {name: [()] * len(OPTIONAL[name]) for name in OPTIONAL}
    whole |= tables
    check_references(whole, problems, known=shared.keys())
    if "values" not in shared:
        check_samples(whole["samples"], whole["values"], problems)
    check_events(whole, problems)
    return None if problems else build_index(head, whole, shared, has_draws=has_draws)
