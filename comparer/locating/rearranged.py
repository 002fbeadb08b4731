"""Where the elements of a value are taken in another layout: transposed, flattened, split.

Code between two modules turns (batch, channel, time) to (batch, time, channel): the value that the
next module takes has another digest, and is the same.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Content, DumpError, Role

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from padiff.dumpfile import RecordInfo, StepFile

__all__ = ["Rearranged"]

_MOST_ELEMENTS = 1 << 22
"""Larger tensors are not looked into."""
_LEAST_ELEMENTS = 16
"""Fewer are met by accident."""


class Rearranged:
    """Finds what the calls of one side take that has just the elements of a value."""

    def __init__(self, file: StepFile) -> None:
        """Take the side."""
        self._file = file
        self._taken: dict[Hashable, list[RecordInfo]] | None = None

    def uses(self, record: RecordInfo) -> Iterable[int]:
        """Give ids of later inputs that hold the same elements in another order.

        Args:
            record: An output.
        """
        if self._taken is None:
            self._taken = defaultdict(list)
            for one in self._file.index.records:
                if one.role is Role.INPUT and (key := self._key(one)) is not None:
                    self._taken[key].append(one)
        own, key = None, self._key(record)
        for one in [] if key is None else self._taken.get(key, []):
            if one.order < record.order or one.value == record.value:
                continue
            if own is None:
                own = self._sorted(record)
            other = self._sorted(one)
            if own is not None and other is not None and np.array_equal(own, other):
                yield one.id

    def _key(self, record: RecordInfo) -> Hashable | None:
        """Give what no order of the elements changes; None for what tells nothing."""
        if record.value is None:
            return None
        value = self._file.index.values[record.value]
        statistics = value.statistics
        is_telling = statistics.minimum != statistics.maximum and not statistics.nonfinite
        is_fit = _LEAST_ELEMENTS <= value.size <= _MOST_ELEMENTS
        if not is_telling or not is_fit or value.content is not Content.FULL:
            return None
        return value.dtype, value.size, statistics.minimum, statistics.maximum, statistics.zeros

    def _sorted(self, record: RecordInfo) -> npt.NDArray[Any] | None:
        try:
            return np.sort(np.asarray(self._file.array(record)), axis=None)
        except DumpError:
            return None
