"""Checks of whole table columns, fast where all is well and exact where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from .strictjson import is_plain

INT_LIMIT = 2**62
"""Integers in an index lie below this, so that sums and products of two fit 128 bits anywhere."""

Cells = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What the cells of one column must be."""

    name: str
    expected: str
    """In words, for messages."""
    accepts: Callable[[Any], bool]
    """Whether one cell is right."""
    accepts_all: Callable[[Cells], bool] | None = None
    """The same for a whole column at once; may be wrong only by saying no."""

    def bad_rows(self, cells: Cells, *, most: int) -> list[int]:
        """Find the first rows whose cell is wrong."""
        if self.accepts_all is not None and self.accepts_all(cells):
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


def typed(name: str, *types: type) -> Column:
    """Describe a column whose cells have one of the given types exactly."""
    allowed = frozenset(types)
    return Column(
        name=name,
        expected=" or ".join(sorted(kind.__name__ for kind in allowed)),
        accepts=lambda cell: type(cell) in allowed,
        accepts_all=lambda cells: allowed.issuperset(map(type, cells)),
    )


def one_of(name: str, values: Iterable[str]) -> Column:
    """Describe a column of words from a closed set."""
    allowed = frozenset(values)
    return Column(
        name=name,
        expected=f"one of {', '.join(sorted(allowed))}",
        accepts=lambda cell: isinstance(cell, str) and cell in allowed,
        accepts_all=lambda cells: {str}.issuperset(map(type, cells)) and allowed.issuperset(cells),
    )


def shape(name: str) -> Column:
    """Describe a column of shapes."""

    def accepts(cell: object) -> bool:
        return type(cell) is list and all(type(n) is int and 0 <= n < INT_LIMIT for n in cell)

    def accepts_all(cells: Cells) -> bool:
        if not {list}.issuperset(map(type, cells)):
            return False
        sizes = list(chain.from_iterable(cells))
        return {int}.issuperset(map(type, sizes)) and (
            not sizes or (min(sizes) >= 0 and max(sizes) < INT_LIMIT)
        )

    return Column(name=name, expected="list of sizes", accepts=accepts, accepts_all=accepts_all)


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

    return Column(name=name, expected="number or null", accepts=accepts, accepts_all=accepts_all)


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
        kinds = set(map(type, chain.from_iterable(map(dict.values, cells))))
        return kinds <= ({int, bool, str, type(None)} if of is None else {of})

    return Column(name=name, expected="object", accepts=accepts, accepts_all=accepts_all)


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

    words = "[file, line, function] or null"
    return Column(name=name, expected=words, accepts=accepts, accepts_all=accepts_all)
