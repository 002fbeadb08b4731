"""What pairing needs to know of a dump: an index, and the elements of a record on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from padiff.dumpfile import Index, RecordInfo

Array = npt.NDArray[Any]


class Side(Protocol):
    """One step and rank of a dump; ``padiff.dumpfile.StepFile`` is one, tests build others."""

    @property
    def framework(self) -> str:
        """Name of the framework that recorded it, ``""`` if unknown."""

    @property
    def index(self) -> Index:
        """All modules, calls, records and values."""

    def array(self, record: RecordInfo) -> np.ndarray[Any, np.dtype[Any]]:
        """Give a record's elements, read-only, in its own shape and dtype.

        Raises:
            DumpFormatError: The elements are not in the file or cannot be read.
        """
