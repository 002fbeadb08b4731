"""An index with the text it was read from, so that equal tables of another are not read again.

Two runs of one model have the same modules, calls and records, and tell so in the same bytes; what
differs are the values. Such tables are the same objects in both indexes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mmap
    from collections.abc import Mapping

    from .indextables import Table
    from .indextext import RowsText
    from .schema import CallInfo, Index, ModuleInfo, RecordInfo, ValueInfo

__all__ = ["SHARED", "Rows", "WrittenIndex"]

Rows = (
    tuple["ModuleInfo", ...]
    | tuple["CallInfo", ...]
    | tuple["RecordInfo", ...]
    | tuple["ValueInfo", ...]
)

SHARED = {
    "modules": ("modules",),
    "calls": ("calls", "recomputed"),
    "values": ("values", "samples"),
    "records": ("records",),
}
"""The tables that become objects, each with all tables that the objects are made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenIndex:
    """An index that was read from text of the usual form."""

    index: Index
    holder: bytes | mmap.mmap
    """What holds the text."""
    start: int = 0
    """Where in it the text begins."""
    rows: RowsText
    """Where the rows of each table lie in the text."""

    def has(self, name: str, text: bytes, rows: RowsText, tables: Mapping[str, Table]) -> bool:
        """Tell whether a table of another text is this one's, and right there as it is here.

        Args:
            name: The table.
            text: The other text.
            rows: Where its rows lie.
            tables: What was read of the tables before this one.
        """
        return (
            name in SHARED
            and all(self._is_same(one, text, rows) for one in SHARED[name])
            and self._fits(name, tables)
        )

    def _is_same(self, name: str, text: bytes, rows: RowsText) -> bool:
        mine, other = self.rows.get(name), rows.get(name)
        if mine is None or other is None:
            return mine is other
        if mine.stop - mine.start != other.stop - other.start:
            return False
        return self.holder[self.start + mine.start : self.start + mine.stop] == text[other]

    def _fits(self, name: str, tables: Mapping[str, Table]) -> bool:
        """Tell whether all that the rows refer to is the same, as far as they were checked by it.

        Calls need a module of their number; records a call of their module and a value of their
        size as well.
        """
        if name in {"modules", "values"}:
            return True
        same = len(tables["modules"][0]) == len(self.index.modules)
        if name == "records":
            same = same and all(
                list(tables[other][column]) == list(self.table(other)[column])
                for other, column in (("calls", 0), ("values", 2))
            )
        return same

    def objects(self, name: str) -> Rows:
        """Give the rows of a table."""
        found: Rows = getattr(self.index, name)
        return found

    def table(self, name: str) -> Table:
        """Give the columns of a table that others refer to: the module of a call, a value's size.

        Columns that nothing refers to stay empty.
        """
        if name == "calls":
            return [[call.module for call in self.index.calls]]
        if name == "values":
            return [range(len(self.index.values)), (), [value.size for value in self.index.values]]
        return [range(len(self.objects(name)))]
