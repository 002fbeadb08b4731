"""What pairing needs to know of a dump: an index, and the elements of a record on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Index, RecordInfo, ValueInfo

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
        """Return a record's elements, read-only, in its own shape and dtype.

        Raises:
            DumpFormatError: The elements are not in the file or cannot be read.
        """


@runtime_checkable
class _InRows(Protocol):
    """A side that reads many small values at once: an opened file."""

    def rows(self, values: Sequence[ValueInfo]) -> Array:
        """Return the elements of values of one dtype and size as rows of a matrix."""


@runtime_checkable
class _KnowsUnsaved(Protocol):
    """A side that knows which buffers its framework saves: a live model, a dump of one."""

    @property
    def unsaved(self) -> frozenset[str]:
        """Return full names of buffers that are not saved with weights."""


@runtime_checkable
class _KnowsFolded(Protocol):
    """A side that knows which weights of the model it was exported from it lacks."""

    @property
    def folded(self) -> frozenset[str]:
        """Return full names of weights that an exporter folded into others, or left out."""


def folded_weights(side: Side) -> frozenset[str]:
    """Return the full names of the weights that the exporter of a side did not keep."""
    return side.folded if isinstance(side, _KnowsFolded) else frozenset()


def unsaved_records(side: Side) -> frozenset[int]:
    """Return the ids of the buffers that a constructor computes, and no checkpoint holds."""
    names = side.unsaved if isinstance(side, _KnowsUnsaved) else frozenset()
    if not names:
        return frozenset()
    modules = side.index.modules
    return frozenset(
        record.id
        for record in side.index.records
        if record.role is Role.BUFFER
        and f"{modules[record.module].path}{record.slot}".removeprefix(".") in names
    )


def rows_of(side: Side, records: Sequence[RecordInfo]) -> Array:
    """Return the elements of records of one dtype and size, all with a value, as rows.

    Raises:
        DumpFormatError: The elements are not in the file or cannot be read.
    """
    if isinstance(side, _InRows):
        values = side.index.values
        return side.rows([values[one.value] for one in records if one.value is not None])
    return np.stack([side.array(one).reshape(-1) for one in records])
