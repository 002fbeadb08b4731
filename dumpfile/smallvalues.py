"""Small values on their way to the file: copied one by one, measured together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .dtypes import numpy_dtype
from .schema import Content
from .statistics import statistics_of_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .schema import Statistics
    from .valuestore import Stored

__all__ = ["SmallValue", "SmallValues"]

_NO_STATISTICS = statistics_of_parts(np.empty(0), [0])[0]
_ROW_BYTES = 512  # what a waiting value costs beside its elements


@dataclass(slots=True)
class SmallValue:
    """One that waits."""

    stored: Stored
    start: int
    """Where its bytes begin among those of its dtype."""
    end: int


class SmallValues:
    """Distinct small values in the order in which they came.

    To measure one takes some twenty calls of numpy, each of which takes longer than its elements.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.rows: dict[tuple[str, str], SmallValue] = {}
        """By name of the dtype and digest."""
        self.kept: list[tuple[str, str]] = []
        """Those of which the elements are kept, in the order in which that was wanted."""
        self._keys: dict[Stored, tuple[str, str]] = {}
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
        start = len(waiting)
        waiting += data
        self.rows[key] = SmallValue(stored, start, len(waiting))
        self._keys[stored] = key
        if stored.content is Content.FULL:
            self.kept.append(key)
        self.size_bytes += len(data) + _ROW_BYTES

    def deepen(self, stored: Stored, content: Content) -> bool:
        """Keep more of a value.

        Args:
            stored: The value.
            content: How much of it to keep; more than until now.

        Returns:
            Whether the value is here.
        """
        key = self._keys.get(stored)
        if key is None:
            return False
        stored.content = content
        if content is Content.FULL:
            self.kept.append(key)
        return True

    def bytes_of(self, name: str, row: SmallValue) -> memoryview:
        """Return the elements of a value.

        Args:
            name: Of its dtype.
            row: The value.
        """
        return memoryview(self._data[name])[row.start : row.end]

    def measured(self) -> dict[tuple[str, str], Statistics]:
        """Return the statistics of each, without any numbers where only the digest is wanted."""
        found: dict[tuple[str, str], Statistics] = {}
        for name in self._data:
            found.update(self._measured(name))
        return found

    def _measured(self, name: str) -> Iterator[tuple[tuple[str, str], Statistics]]:
        """Yield the statistics of those of one dtype."""
        rows = [(key, row) for key, row in self.rows.items() if key[0] == name]
        wanted = [row.stored.content is not Content.DIGEST for _, row in rows]
        if not any(wanted):
            yield from ((key, _NO_STATISTICS) for key, _ in rows)
            return
        dtype = numpy_dtype(name)
        starts = [row.start // dtype.itemsize for _, row in rows]
        statistics = statistics_of_parts(np.frombuffer(self._data[name], dtype), starts)
        for (key, _), is_wanted, numbers in zip(rows, wanted, statistics, strict=True):
            yield key, numbers if is_wanted else _NO_STATISTICS
