"""Typed columns of the tables in a step file, and the pools that they refer to.

A table is one dataset whose fields are columns: integers of the smallest size that holds them,
``float64``, or digests. Texts, lists of integers and source lines stand once in a file, in pools,
and columns hold their positions there. -1 stands for "none".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from .dtypes import MOST_AXES, Array
from .problem import Problem, ProblemKind
from .schema import JSON, SourceLine
from .strictjson import StrictJSONError, from_json, is_plain, plain, to_json

Cells = Sequence[Any]
Table = dict[str, Array]
"""The columns of a table by name, integers as int64."""

INT_LIMIT = 2**62
"""Integers lie below this, so that the sum of two fits 64 bits."""

_MOST_PROBLEMS = 10  # of one column
_MOST_SHOWN = 60  # characters of a cell
_INTEGERS = tuple(np.dtype(name) for name in ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<i8"))

POOLS = ("string_bytes", "string_ends", "list_items", "list_ends", "sites")
"""The datasets of the pools."""


def shown(cell: object) -> str:
    """Return a cell as a message shows it, its beginning if it is long."""
    text = repr(cell)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."


# -- tables as datasets


def narrowed(column: Array) -> Array:
    """Return integers in the smallest dtype that holds them all; others as they are."""
    if column.dtype.kind not in "iu" or column.ndim > 1:
        return column
    low, high = (int(column.min()), int(column.max())) if column.size else (0, 0)
    fitting = (
        kind for kind in _INTEGERS if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max
    )
    return column.astype(next(fitting))


def pack(columns: Mapping[str, Array]) -> Array:
    """Return a table as one array with a field for each column, none wider than it must be."""
    fitting = {name: narrowed(column) for name, column in columns.items()}
    kinds = [(name, column.dtype, column.shape[1:]) for name, column in fitting.items()]
    table = np.empty(len(next(iter(fitting.values()))), np.dtype(kinds))
    for name, column in fitting.items():
        table[name] = column
    return table


def unpack(
    name: str, table: Array, columns: Iterable[Column], problems: list[Problem]
) -> Table | None:
    """Return the columns of a table; None if they are others than expected.

    Args:
        name: The table, for messages.
        table: As ``pack`` makes it.
        columns: What it must hold.
        problems: Gets what is wrong.
    """
    names = [column.name for column in columns]
    if set(table.dtype.names or ()) != set(names):
        message = f"expected the columns {', '.join(names)}"
        problems.append(Problem(loc=f"{name}.columns", kind=ProblemKind.MISSING, message=message))
        return None
    found: Table = {}
    for column in columns:
        cells = table[column.name]
        kind = "16 bytes" if cells.ndim > 1 else _DTYPE_WORDS[cells.dtype.kind]
        expected = _DTYPES.get(column.kind, "integers")
        if kind != expected:
            message = f"expected {expected}, found {kind}"
            loc = f"{name}.{column.name}"
            problems.append(Problem(loc=loc, kind=ProblemKind.TYPE, message=message))
            return None
        found[column.name] = cells.astype(np.int64 if kind == "integers" else cells.dtype)
    return found


def length_of(table: Mapping[str, Array]) -> int:
    """Return how many rows a table has."""
    return len(next(iter(table.values())))


# -- pools


@dataclass(slots=True)
class PoolsBuilder:
    """Gives each distinct text, list of integers and source line its position."""

    _strings: dict[str, int] = field(default_factory=dict)
    _lists: dict[tuple[int, ...], int] = field(default_factory=dict)
    _sites: dict[tuple[int, int, int], int] = field(default_factory=dict)

    def text(self, text: str) -> int:
        """Return the position of a text."""
        return self._strings.setdefault(text, len(self._strings))

    def numbers(self, numbers: Iterable[int]) -> int:
        """Return the position of a list of integers."""
        return self._lists.setdefault(tuple(numbers), len(self._lists))

    def site(self, file: int, line: int, function: int) -> int:
        """Return the position of a source line; file and function are positions of texts."""
        return self._sites.setdefault((file, line, function), len(self._sites))

    def datasets(self) -> dict[str, Array]:
        """Return the datasets of all that was given a position."""
        encoded = [text.encode(errors="surrogatepass") for text in self._strings]
        items = np.array([item for one in self._lists for item in one], np.int64)
        sites = np.array([*self._sites], np.int64).reshape(-1, 3)
        return {
            "string_bytes": np.frombuffer(b"".join(encoded), np.uint8),
            "string_ends": narrowed(np.cumsum([*map(len, encoded)], dtype=np.int64)),
            "list_items": narrowed(items),
            "list_ends": narrowed(np.cumsum([*map(len, self._lists)], dtype=np.int64)),
            "sites": pack({one.name: sites[:, at] for at, one in enumerate(_SITES)}),
        }


@dataclass(frozen=True, kw_only=True)
class Pools:
    """The texts, lists and source lines of a file; texts are distinct."""

    strings: tuple[str, ...]
    list_items: Array
    list_ends: Array
    sites: Table
    json: dict[int, JSON] = field(default_factory=dict)
    """Texts that were parsed, by position."""

    @cached_property
    def lists(self) -> list[tuple[int, ...]]:
        """The lists of integers."""
        items, ends = self.list_items.tolist(), self.list_ends.tolist()
        return [tuple(items[start:end]) for start, end in pairwise([0, *ends])]

    @cached_property
    def lines(self) -> list[SourceLine]:
        """The source lines."""
        rows = zip(*(self.sites[one.name].tolist() for one in _SITES), strict=True)
        return [
            SourceLine(file=self.strings[file], line=line, function=self.strings[function])
            for file, line, function in rows
        ]

    @cached_property
    def rows(self) -> dict[str, int]:
        """How many there are of each."""
        counts = len(self.strings), self.list_ends.size, self.sites["line"].size
        return dict(zip(("strings", "lists", "sites"), counts, strict=True))

    @cached_property
    def list_counts(self) -> Array:
        """How many elements each list has as a shape; ``INT_LIMIT`` stands for any more."""
        counts = [INT_LIMIT if len(one) > MOST_AXES else math.prod(one) for one in self.lists]
        return np.array([min(max(count, 0), INT_LIMIT) for count in counts], np.int64)


def read_pools(datasets: Mapping[str, Array], problems: list[Problem]) -> Pools | None:
    """Read the pools of a file and check them; None if something is wrong."""
    before = len(problems)
    for name in POOLS[:-1]:
        if datasets[name].dtype.kind not in "iu" or datasets[name].ndim > 1:
            message = f"expected integers, found {datasets[name].dtype}"
            problems.append(Problem(loc=name, kind=ProblemKind.TYPE, message=message))
            return None
    strings = _read_strings(datasets["string_bytes"], datasets["string_ends"], problems)
    items, ends = (datasets[name].astype(np.int64) for name in ("list_items", "list_ends"))
    _check_ends("list_ends", ends, items.size, problems)
    sites = unpack("sites", datasets["sites"], _SITES, problems)
    if len(problems) > before or sites is None:
        return None
    pools = Pools(strings=strings, list_items=items, list_ends=ends, sites=sites)
    check_table("sites", _SITES, sites, pools, {}, problems)
    return None if len(problems) > before else pools


def _check_ends(name: str, ends: Array, size: int, problems: list[Problem]) -> bool:
    last = int(ends[-1]) if ends.size else 0
    is_right = last == size and bool((ends[1:] >= ends[:-1]).all() and (ends[:1] >= 0).all())
    if not is_right:
        message = f"expected ascending ends up to {size}"
        problems.append(Problem(loc=name, kind=ProblemKind.SIZE, message=message))
    return is_right


def _read_strings(raw: Array, ends: Array, problems: list[Problem]) -> tuple[str, ...]:
    """Decode the texts, which must be distinct."""
    ends = ends.astype(np.int64)
    if not _check_ends("string_ends", ends, raw.size, problems):
        return ()
    if np.count_nonzero(np.diff(ends, prepend=0) == 0) > 1:  # before each becomes an object
        problems.append(_twice())
        return ()
    data = raw.astype(np.uint8).tobytes()
    try:
        whole: str | bytes = data.decode() if data.isascii() else data
        parts = [whole[start:end] for start, end in pairwise([0, *ends.tolist()])]
        strings = tuple(
            one if isinstance(one, str) else one.decode(errors="surrogatepass") for one in parts
        )
    except UnicodeDecodeError as error:
        problems.append(
            Problem(loc="string_bytes", kind=ProblemKind.SYNTAX, message=f"expected UTF-8: {error}")
        )
        return ()
    if len(set(strings)) != len(strings):
        problems.append(_twice())
    return strings


def _twice() -> Problem:
    message = "expected distinct texts, found one twice"
    return Problem(loc="string_ends", kind=ProblemKind.UNEXPECTED, message=message)


# -- columns


class Kind(Enum):
    """What the cells of a column are."""

    INTEGER = "integer"
    FLAG = "0 or 1"
    """A boolean."""
    ROW = "row"
    """A row of another table."""
    TEXT = "text"
    WORD = "word"
    """A text of a closed set, which becomes its member."""
    MAPPED = "the JSON text of an object"
    """A JSON object as text; -1 is an empty one."""
    NUMBERS = "list of integers >= 0"
    TEXTS = "list of texts"
    LINE = "source line"
    NUMBER = "number"
    """A float64; nan stands for None."""
    DIGEST = "16 bytes"


_POOL_OF = {
    **dict.fromkeys((Kind.TEXT, Kind.WORD, Kind.MAPPED), "strings"),
    **dict.fromkeys((Kind.NUMBERS, Kind.TEXTS), "lists"),
    Kind.LINE: "sites",
}
"""The pool that cells of a kind are positions in."""
_DTYPES = {Kind.NUMBER: "float64", Kind.DIGEST: "16 bytes"}
"""What the dtype of cells is in words, where they are no integers."""
_DTYPE_WORDS = {"i": "integers", "u": "integers", "f": "float64"}


@dataclass(frozen=True, slots=True)
class Column:
    """What a column of a table holds."""

    name: str
    kind: Kind
    _: KW_ONLY
    optional: bool = False
    """Whether -1 is right, and stands for None."""
    table: str = ""
    """The table that a row is of."""
    low: int = 0
    """The least integer."""
    limit: int = INT_LIMIT
    """What integers are below."""
    words: tuple[str, ...] = ()
    """The closed set."""
    of: type | None = None
    """What all values of an object are, if of one type."""
    most: int | None = None
    """How long a list may be."""

    @property
    def expected(self) -> str:
        """What a cell must be, in words."""
        words = self.kind.value
        if self.kind is Kind.INTEGER:
            limit = "" if self.limit >= INT_LIMIT else f" and < {self.limit}"
            words = f"integer >= {self.low}{limit}"
        elif self.kind is Kind.WORD:
            words = f"one of {', '.join(sorted(self.words))}"
        elif self.kind in _REFERRING:
            words = f"one of the {_POOL_OF.get(self.kind, self.table)}"
        elif self.most is not None:
            words = f"list of at most {self.most} sizes"
        return f"{words} or -1" if self.optional else words

    def right_cells(self, cells: Array, pools: Pools, rows: Mapping[str, int]) -> Array:
        """Return which cells are right.

        Args:
            cells: The column.
            pools: The pools of the file.
            rows: How many rows each table has.
        """
        if self.kind in _DTYPES:
            return np.ones(len(cells), np.bool_)
        low, limit = self.low, 2 if self.kind is Kind.FLAG else self.limit
        pool = _POOL_OF.get(self.kind, self.table)
        if pool:
            limit = {**pools.rows, **rows}[pool]
        right: Array = (cells >= low) & (cells < limit)
        if self.kind in _ALLOWED:
            allowed = np.zeros(limit + 1, np.bool_)
            allowed[cells[right]] = True
            used = np.flatnonzero(allowed).tolist()
            allowed[used] = _ALLOWED[self.kind](self, used, pools)
            right = allowed[np.where(right, cells, -1)]
        return right | (cells == -1) if self.optional or self.kind in _OFTEN_NONE else right

    def encode(self, cells: Cells, pools: PoolsBuilder) -> Array:
        """Return the column that holds cells as row objects have them."""
        if self.kind is Kind.NUMBER:
            return np.array(cells, np.float64)  # None becomes nan
        if self.kind is Kind.DIGEST:
            return np.frombuffer(bytes.fromhex("".join(cells)), np.uint8).reshape(-1, 16)
        place = _PLACES.get(self.kind)
        if place is not None and self.kind in _REPEATING:
            places = {cell: place(pools, cell) for cell in dict.fromkeys(cells) if cell is not None}
            cells = [-1 if cell is None else places[cell] for cell in cells]
        elif place is not None:
            cells = [-1 if cell is None else place(pools, cell) for cell in cells]
        elif self.optional:
            cells = [-1 if cell is None else cell for cell in cells]
        return np.array(cells, np.int64)

    def decode(self, column: Array, pools: Pools) -> Cells:
        """Return the cells as row objects have them; all of them are right."""
        if self.kind is Kind.DIGEST:
            text = column.tobytes().hex()
            return [text[start : start + 32] for start in range(0, len(text), 32)]
        if self.kind is Kind.FLAG:
            column = column.astype(np.bool_)
        cells: list[Any] = column.tolist()
        if self.kind is Kind.NUMBER and np.isnan(column).any():
            return [cell if cell == cell else None for cell in cells]  # noqa: PLR0124
        objects = _OBJECTS.get(self.kind)
        if objects is not None:
            return list(map(objects(self, pools, set(cells)).__getitem__, cells))
        return [None if cell < 0 else cell for cell in cells] if self.optional else cells


_REFERRING = frozenset({Kind.ROW, Kind.TEXT, Kind.LINE})
"""Kinds of which any row or position that is there is right."""
_OFTEN_NONE = frozenset({Kind.LINE, Kind.MAPPED})
"""Kinds that are always optional."""


def _known_words(column: Column, used: Sequence[int], pools: Pools) -> list[bool]:
    return [pools.strings[position] in column.words for position in used]


def _are_objects(column: Column, used: Sequence[int], pools: Pools) -> list[bool]:
    """Return which texts are those of JSON objects; these are parsed."""
    return [_is_object(column, position, pools) for position in used]


def _is_object(column: Column, position: int, pools: Pools) -> bool:
    try:
        found = pools.json[position] = from_json(pools.strings[position].encode())
    except (StrictJSONError, UnicodeEncodeError):
        return False
    if not isinstance(found, dict) or not is_plain(found):
        return False
    return column.of is None or all(type(item) is column.of for item in found.values())


def _are_numbers(column: Column, used: Sequence[int], pools: Pools) -> list[bool]:
    most = len(pools.list_items) if column.most is None else column.most
    limit = len(pools.strings) if column.kind is Kind.TEXTS else INT_LIMIT
    lists = [pools.lists[position] for position in used]
    return [len(one) <= most and all(0 <= item < limit for item in one) for one in lists]


_ALLOWED: dict[Kind, Callable[[Column, Sequence[int], Pools], list[bool]]] = {
    Kind.WORD: _known_words,
    Kind.MAPPED: _are_objects,
    Kind.NUMBERS: _are_numbers,
    Kind.TEXTS: _are_numbers,
}
"""Which of the positions that are used hold what the column needs."""

_PLACES: dict[Kind, Callable[[PoolsBuilder, Any], int]] = {
    Kind.TEXT: PoolsBuilder.text,
    Kind.WORD: PoolsBuilder.text,
    Kind.MAPPED: lambda pools, cell: pools.text(to_json(plain(dict(cell)))) if cell else -1,
    Kind.NUMBERS: PoolsBuilder.numbers,
    Kind.TEXTS: lambda pools, cell: pools.numbers([*map(pools.text, cell)]),
    Kind.LINE: lambda pools, cell: pools.site(
        pools.text(cell.file), cell.line, pools.text(cell.function)
    ),
}
"""The position of a cell as row objects have it."""
_REPEATING = frozenset({Kind.TEXT, Kind.WORD})
"""Kinds of which few distinct cells are in a column."""

_OBJECTS: dict[Kind, Callable[[Column, Pools, set[int]], Mapping[int, Any]]] = {
    Kind.TEXT: lambda _, pools, used: (
        {-1: None} | {at: pools.strings[at] for at in used if at >= 0}
    ),
    Kind.WORD: lambda column, pools, used: {
        at: column.words[column.words.index(pools.strings[at])] for at in used
    },
    Kind.MAPPED: lambda _, pools, used: {-1: {}} | {at: pools.json[at] for at in used if at >= 0},
    Kind.NUMBERS: lambda _, pools, used: {at: pools.lists[at] for at in used},
    Kind.TEXTS: lambda _, pools, used: {
        at: tuple([pools.strings[text] for text in pools.lists[at]]) for at in used
    },
    Kind.LINE: lambda _, pools, used: {-1: None} | {at: pools.lines[at] for at in used if at >= 0},
}
"""What row objects have of the positions that are used."""


def encode_table(
    columns: Iterable[Column], cells: Mapping[str, Cells], pools: PoolsBuilder
) -> Array:
    """Return a table as a dataset holds it, of the cells that row objects have."""
    return pack({column.name: column.encode(cells[column.name], pools) for column in columns})


def check_table(
    name: str,
    columns: Iterable[Column],
    table: Table,
    pools: Pools,
    rows: Mapping[str, int],
    problems: list[Problem],
) -> None:
    """Check each cell of a table by itself.

    Args:
        name: The table.
        columns: What it must hold.
        table: What it holds.
        pools: The pools of the file.
        rows: How many rows each table has.
        problems: Gets what is wrong.
    """
    for column in columns:
        right = column.right_cells(table[column.name], pools, rows)
        kind = ProblemKind.REFERENCE if column.kind in _REFERRING else ProblemKind.TYPE
        for row in [] if right.all() else np.flatnonzero(~right)[:_MOST_PROBLEMS].tolist():
            found = int(table[column.name][row])
            pool = {"strings": pools.strings, "lists": pools.lists}.get(
                _POOL_OF.get(column.kind, "")
            )
            is_there = pool is not None and 0 <= found < len(pool)
            cell = shown(pool[found] if pool is not None and is_there else found)
            message = f"expected {column.expected}, found {cell}"
            loc = f"{name}[{row}].{column.name}"
            problems.append(Problem(loc=loc, kind=kind, message=message))


_SITES = (
    Column("file", Kind.TEXT),
    Column("line", Kind.INTEGER),
    Column("function", Kind.TEXT),
)
