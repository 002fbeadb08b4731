"""Small values on their way to the file: copied one by one, measured together."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from .dtypes import numpy_dtype
from .schema import Content
from .statistics import statistics_of_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .schema import Statistics
    from .valuestore import Stored

__all__ = ["SmallValues"]

_NO_STATISTICS = statistics_of_parts(np.empty(0), [0])[0]
_ROW_BYTES = 512  # what a waiting value costs beside its elements


class SmallValues:
    """Distinct small values in the order in which they came.

    To measure one takes some twenty calls of numpy, each of which takes longer than its elements.
    Rows are numbers in flat lists, which no garbage collection looks into.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.rows: dict[tuple[str, str], int] = {}
        """By name of the dtype and digest."""
        self.stored: list[Stored] = []
        """What becomes of each row."""
        self.kept: list[int] = []
        """Of which the elements are kept, in the order in which that was wanted."""
        self._starts: list[int] = []
        """Where the bytes of each row begin among those of its dtype."""
        self._ends: list[int] = []
        self._data: dict[str, bytearray] = {}
        self.size_bytes = 0
        """What they take while they wait."""

    def add(self, key: tuple[str, str], stored: Stored, data: bytes) -> None:
        """Take a value in.

        Args:
            key: Name of the dtype, and digest; none that is here.
            stored: What becomes of it. Of its content more may be wanted before it is written.
            data: Its elements, little-endian.
        """
        waiting = self._data.get(key[0])
        if waiting is None:
            waiting = self._data[key[0]] = bytearray()
        self._starts.append(len(waiting))
        waiting += data
        self._ends.append(len(waiting))
        stored.row = self.rows[key] = len(self.stored)
        self.stored.append(stored)
        if stored.content is Content.FULL:
            self.kept.append(stored.row)
        self.size_bytes += len(data) + _ROW_BYTES

    def deepen(self, stored: Stored, content: Content) -> bool:
        """Keep more of a value.

        Args:
            stored: The value.
            content: How much of it to keep; more than until now.

        Returns:
            Whether the value is here.
        """
        row = stored.row
        if not 0 <= row < len(self.stored) or self.stored[row] is not stored:
            return False
        stored.content = content
        if content is Content.FULL:
            self.kept.append(row)
        return True

    def bytes_of(self, name: str, row: int) -> memoryview:
        """Return the elements of a value.

        Args:
            name: Of its dtype.
            row: The value.
        """
        return memoryview(self._data[name])[self._starts[row] : self._ends[row]]

    def size(self, name: str, row: int) -> int:
        """Return the number of elements of a value.

        Args:
            name: Of its dtype.
            row: The value.
        """
        return (self._ends[row] - self._starts[row]) // numpy_dtype(name).itemsize

    def measured(self) -> list[Statistics]:
        """Return the statistics of each row, without numbers where only the digest is wanted."""
        found = [_NO_STATISTICS] * len(self.stored)
        for name in self._data:
            rows = [row for (other, _), row in self.rows.items() if other == name]
            for row, statistics in zip(rows, self._measured(name, rows), strict=False):
                found[row] = statistics
        return found

    def _measured(self, name: str, rows: list[int]) -> Iterable[Statistics]:
        """Return the statistics of those of one dtype."""
        wanted = [self.stored[row].content is not Content.DIGEST for row in rows]
        if not any(wanted):
            return repeat(_NO_STATISTICS)
        dtype = numpy_dtype(name)
        starts = [self._starts[row] // dtype.itemsize for row in rows]
        statistics = statistics_of_parts(np.frombuffer(self._data[name], dtype), starts)
        pairs = zip(wanted, statistics, strict=True)
        return [numbers if is_wanted else _NO_STATISTICS for is_wanted, numbers in pairs]
