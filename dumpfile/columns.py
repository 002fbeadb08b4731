"""Columns of an index: what a cell must be, and what the objects make of it.

A right column is checked as a whole, at next to no cost; only a wrong one is walked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from .dtypes import MOST_AXES
from .schema import SourceLine
from .strictjson import is_plain

INT_LIMIT = 2**62
"""Integers in an index lie below this, so that sums and products of two fit 128 bits anywhere."""

Cells = Sequence[Any]
Known = dict[Any, Any]
"""What equal cells of a column were made into before."""


def _as_they_are(cells: Cells, known: Known) -> Cells:
    del known
    return cells


def _shared(cells: Cells, known: Known) -> Cells:
    """Let equal cells, of which there are few distinct ones, be one object."""
    return list(map(known.setdefault, cells, cells))


def _is_float(value: object) -> bool:
    return type(value) is float


def _tuples(cells: Cells, known: Known) -> Cells:
    return _shared(list(map(tuple, cells)), known)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What the cells of one column must be."""

    name: str
    expected: str
    """In words, for messages."""
    accepts: Callable[[Any], bool]
    """Whether one cell is right."""
    accepts_all: Callable[[Cells], bool]
    """The same for a whole column at once; may be wrong only by saying no."""
    make: Callable[[Cells, Known], Cells] = _as_they_are
    """Turn right cells into what the objects hold."""

    def is_right(self, cells: Cells) -> bool:
        """Tell whether all cells are right."""
        return self.accepts_all(cells) or all(map(self.accepts, cells))

    def bad_rows(self, cells: Cells, *, most: int) -> list[int]:
        """Find the first rows whose cell is wrong."""
        if self.accepts_all(cells):
            return []
        return [row for row, cell in enumerate(cells) if not self.accepts(cell)][:most]


def integer(name: str, *, low: int = 0, optional: bool = False) -> Column:
    """Describe a column of integers from ``low`` up, with nulls if optional."""

    def accepts(cell: object) -> bool:
        return (optional and cell is None) or (type(cell) is int and low <= cell < INT_LIMIT)

    def accepts_all(cells: Cells) -> bool:
        types = set(map(type, cells))
        if optional and type(None) in types:
            types.discard(type(None))
            cells = [cell for cell in cells if cell is not None]
        return types <= {int} and (not cells or (min(cells) >= low and max(cells) < INT_LIMIT))

    words = f"integer >= {low}" + (" or null" if optional else "")
    return Column(name=name, expected=words, accepts=accepts, accepts_all=accepts_all)


def typed(name: str, *types: type, shared: bool = False) -> Column:
    """Describe a column whose cells have one of the given types exactly.

    Args:
        name: Its name.
        types: Strings, booleans, or null.
        shared: Whether many cells are equal.
    """
    allowed = frozenset(types)
    return Column(
        name=name,
        expected=" or ".join(sorted(kind.__name__ for kind in allowed)),
        accepts=lambda cell: type(cell) in allowed,
        accepts_all=lambda cells: allowed.issuperset(map(type, cells)),
        make=_shared if shared else _as_they_are,
    )


def one_of(name: str, values: Iterable[str]) -> Column:
    """Describe a column of words from a closed set, which become its members."""
    members = {str(value): value for value in values}

    def accepts_all(cells: Cells) -> bool:
        return {str}.issuperset(map(type, cells)) and members.keys() >= set(cells)

    return Column(
        name=name,
        expected=f"one of {', '.join(sorted(members))}",
        accepts=lambda cell: isinstance(cell, str) and cell in members,
        accepts_all=accepts_all,
        make=lambda cells, _: list(map(members.__getitem__, cells)),
    )


def shape(name: str) -> Column:
    """Describe a column of shapes."""

    def accepts(cell: object) -> bool:
        return (
            type(cell) is list
            and len(cell) <= MOST_AXES
            and all(type(n) is int and 0 <= n < INT_LIMIT for n in cell)
        )

    def accepts_all(cells: Cells) -> bool:
        if not {list}.issuperset(map(type, cells)):
            return False
        if not {int}.issuperset(map(type, chain.from_iterable(cells))):
            return False
        distinct = set(map(tuple, cells))
        if max(map(len, distinct), default=0) > MOST_AXES:
            return False
        return all(0 <= size < INT_LIMIT for dims in distinct for size in dims)

    return Column(
        name=name,
        expected=f"list of at most {MOST_AXES} sizes",
        accepts=accepts,
        accepts_all=accepts_all,
        make=_tuples,
    )


def number(name: str) -> Column:
    """Describe a column of finite numbers, nulls and the strings ``inf`` and ``-inf``."""

    def accepts(cell: object) -> bool:
        return (
            cell is None
            or (type(cell) is float and is_plain(cell))
            or (type(cell) is int and abs(cell) < 2**1023)
            or (type(cell) is str and cell in {"inf", "-inf"})
        )

    def accepts_all(cells: Cells) -> bool:
        return {float, type(None)}.issuperset(map(type, cells)) and (
            float("inf") not in cells and float("-inf") not in cells
        )

    def make(cells: Cells, _: Known) -> Cells:
        if {float, type(None)}.issuperset(map(type, cells)):
            return cells
        return [None if cell is None else float(cell) for cell in cells]

    return Column(
        name=name, expected="number or null", accepts=accepts, accepts_all=accepts_all, make=make
    )


def strings(name: str) -> Column:
    """Describe a column of lists of strings."""
    return Column(
        name=name,
        expected="list of strings",
        accepts=lambda cell: type(cell) is list and all(type(item) is str for item in cell),
        accepts_all=lambda cells: (
            {list}.issuperset(map(type, cells))
            and {str}.issuperset(map(type, chain.from_iterable(cells)))
        ),
        make=_tuples,
    )


def mapping(name: str, *, of: type | None = None) -> Column:
    """Describe a column of JSON objects, whose values have the given type if one is given."""

    def accepts(cell: object) -> bool:
        if type(cell) is not dict or not is_plain(cell):
            return False
        return of is None or all(type(item) is of for item in cell.values())

    def accepts_all(cells: Cells) -> bool:
        if not {dict}.issuperset(map(type, cells)):
            return False
        values = list(chain.from_iterable(map(dict.values, cells)))
        kinds = set(map(type, values))
        if of is not None:
            return kinds <= {of}
        return kinds <= {int, bool, str, type(None), float} and (
            float not in kinds or all(map(math.isfinite, filter(_is_float, values)))
        )

    def make(cells: Cells, known: Known) -> Cells:
        empty = known.setdefault("empty", {})
        return [cell or empty for cell in cells]

    return Column(name=name, expected="object", accepts=accepts, accepts_all=accepts_all, make=make)


def source(name: str) -> Column:
    """Describe a column of source lines: null or ``[file, line, function]``."""

    def accepts(cell: object) -> bool:
        if cell is None:
            return True
        if type(cell) is not list or [type(part) for part in cell] != [str, int, str]:
            return False
        line: int = cell[1]
        return 0 <= line < INT_LIMIT

    def accepts_all(cells: Cells) -> bool:
        lines = [cell for cell in cells if cell is not None]
        if not ({list}.issuperset(map(type, lines)) and {3}.issuperset(map(len, lines))):
            return False
        files, numbers, functions = zip(*lines, strict=True) if lines else ((), (), ())
        return (
            {str}.issuperset(map(type, files + functions))
            and {int}.issuperset(map(type, numbers))
            and (not numbers or (min(numbers) >= 0 and max(numbers) < INT_LIMIT))
        )

    return Column(
        name=name,
        expected="[file, line, function] or null",
        accepts=accepts,
        accepts_all=accepts_all,
        make=_lines,
    )


def _lines(cells: Cells, known: Known) -> Cells:
    """Make source lines; those of one place are one object."""
    found: list[SourceLine | None] = []
    for cell in cells:
        if cell is None:
            found.append(None)
            continue
        key = tuple(cell)
        line = known.get(key)
        if line is None:
            line = known[key] = SourceLine(file=key[0], line=key[1], function=key[2])
        found.append(line)
    return found
