"""Reads the text of an index as this package writes it, table by table and piece by piece.

Parsing a whole index at once makes millions of small objects, most of which are equal to others,
and holds all of them until the last column is made. Here some thousand rows become columns while
they are in the processor's cache, and what is equal becomes one object.

Nothing is taken on trust: the text is that of an index if it is the frame that ``encode_index``
writes with rows between, and each piece of rows between two commas is an array by itself. What is
anything else, or wrong in any way, is left to the reader of whole documents.
"""

from __future__ import annotations

import re
from itertools import chain, pairwise
from typing import TYPE_CHECKING, cast

from .indextables import COLUMNS, OPTIONAL
from .strictjson import StrictJSONError, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .columns import Cells, Known
    from .indextables import Table
    from .schema import JSON

__all__ = ["RowsText", "find_tables", "read_rows"]

_PIECE_BYTES = 1 << 16
"""Some thousand rows: the objects of them fit a second-level cache."""

_MOST_TRIES = 16

_HEAD = re.compile(rb'\{"step":(0|[1-9][0-9]{0,17}),"rank":(0|[1-9][0-9]{0,17}),')

RowsText = dict[str, slice]
"""Where the rows of each table lie within the text of an index, without the outer brackets."""


def _frame(name: str) -> bytes:
    """Give what stands before the rows of a table."""
    columns: list[JSON] = [column.name for column in (COLUMNS.get(name) or OPTIONAL[name])]
    return f'"{name}":{{"columns":{to_json(columns)},"rows":['.encode()


def find_tables(text: bytes) -> tuple[tuple[int, int], RowsText] | None:
    """Find step, rank and the rows of all tables; None where the text is not as it is written.

    A string may hold what looks like a frame; the rows before it then do not end as they must.
    """
    head = _HEAD.match(text)
    if head is None:
        return None
    starts: list[tuple[str, int, int]] = []
    place = head.end()
    for name in (*COLUMNS, *OPTIONAL):
        frame = _frame(name)
        found = text.find(frame, place)
        if found < 0 and name in OPTIONAL:
            continue
        if found < 0 or (not starts and found != place):
            return None
        place = found + len(frame)
        starts.append((name, found, place))
    rows: RowsText = {}
    for (name, _, begin), (following, after, _) in pairwise([*starts, ("", len(text), 0)]):
        closing = b"]}," if following else b"]}}"
        end = after - len(closing)
        if end < begin or text[end:after] != closing:
            return None
        rows[name] = slice(begin, end)
    return (int(head[1]), int(head[2])), rows


def read_rows(name: str, text: bytes) -> Table | None:
    """Read rows into checked columns; None where they are not all right.

    Args:
        name: The table.
        text: Its rows, without the brackets around all of them.
    """
    columns = COLUMNS.get(name) or OPTIONAL[name]
    table: list[list[object]] = [[] for _ in columns]
    known: list[Known] = [{} for _ in columns]
    try:
        for rows in _pieces(text):
            if not _are_rows(rows, len(columns)):
                return None
            flat = list(chain.from_iterable(rows))
            for place, column in enumerate(columns):
                cells = flat[place :: len(columns)]
                if not column.is_right(cells):
                    return None
                table[place] += column.make(cells, known[place])
    except StrictJSONError:
        return None
    return cast("Table", table)


def _are_rows(rows: list[Cells], width: int) -> bool:
    return {list}.issuperset(map(type, rows)) and {width}.issuperset(map(len, rows))


def _pieces(text: bytes) -> Iterator[list[Cells]]:
    """Cut rows between two of them and parse each piece as an array.

    What is cut elsewhere, inside a string or a list, is no JSON, and goes on to the next place to
    cut. Arrays with commas between are the array of all their elements.

    Raises:
        StrictJSONError: There is no such place nearby, or it is something else.
    """
    start = end = tries = 0
    while start < len(text):
        cut = text.find(b"],[", max(end, start + _PIECE_BYTES))
        end = len(text) if cut < 0 else cut + 1
        try:
            rows = from_json(b"[%b]" % text[start:end])
        except StrictJSONError:
            tries += 1
            if end == len(text) or tries == _MOST_TRIES:
                raise
            continue
        yield cast("list[Cells]", rows)
        start, tries = end + 1, 0
