"""Small values on their way to the file: copied one by one, measured together."""

from __future__ import annotations

from collections import defaultdict
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

_NO_STATISTICS = statistics_of_parts(np.empty(0), [0])[0]
_ROW_BYTES = 512  # what a waiting value costs beside its elements


class SmallValues:
    """Distinct small values in the order in which they came.

    To measure one takes some twenty calls of numpy, each of which takes longer than its elements.
    Rows are numbers in flat lists, which no garbage collection looks into.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.stored: list[Stored] = []
        """What becomes of each row."""
        self.names: list[str] = []
        """The dtype of each row."""
        self.data: list[bytes] = []
        """The elements of each row."""
        self.kept: list[int] = []
        """Of which the elements are kept, in the order in which that was wanted."""
        self.size_bytes = 0
        """What they take while they wait."""

    def add(self, stored: Stored, name: str, data: bytes) -> None:
        """Take a value in."""
        stored.row = len(self.stored)
        self.stored.append(stored)
        self.names.append(name)
        self.data.append(data)
        if stored.content is Content.FULL:
            self.kept.append(stored.row)
        self.size_bytes += len(data) + _ROW_BYTES

    def deepen(self, stored: Stored, content: Content) -> bool:
        """Keep more of a value.

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

    def measured(self) -> list[Statistics]:
        """Return the statistics of each row, without numbers where only the digest is wanted."""
        found = [_NO_STATISTICS] * len(self.stored)
        rows_of = defaultdict(list)
        for row, name in enumerate(self.names):
            rows_of[name].append(row)
        for name, rows in rows_of.items():
            for row, statistics in zip(rows, self._measured(name, rows), strict=False):
                found[row] = statistics
        return found

    def _measured(self, name: str, rows: list[int]) -> Iterable[Statistics]:
        """Return the statistics of those of one dtype."""
        wanted = [self.stored[row].content is not Content.DIGEST for row in rows]
        if not any(wanted):
            return repeat(_NO_STATISTICS)
        parts = [self.data[row] for row in rows]
        ends = np.cumsum([len(part) for part in parts]) // numpy_dtype(name).itemsize
        together = np.frombuffer(b"".join(parts), numpy_dtype(name))
        statistics = statistics_of_parts(together, [0, *ends[:-1].tolist()])
        pairs = zip(wanted, statistics, strict=True)
        return [numbers if is_wanted else _NO_STATISTICS for is_wanted, numbers in pairs]
