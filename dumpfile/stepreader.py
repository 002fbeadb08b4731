"""What readers of a dump ask of one step: the file of a rank has it, and so have several as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from .schema import Index, RecordInfo, ValueInfo


class StepReader(Protocol):
    """One step, open for reading. ``StepFile`` is one."""

    @property
    def path(self) -> Path:
        """Where it is, for messages."""

    @property
    def framework(self) -> str:
        """Name of the framework that recorded it, ``""`` if unknown."""

    @property
    def unsaved(self) -> frozenset[str]:
        """Full names of buffers that the framework does not save with weights."""

    @property
    def has_program(self) -> bool:
        """Whether the program that ran was recorded."""

    @property
    def index(self) -> Index:
        """All modules, calls, records and values."""

    def array(self, record: RecordInfo) -> npt.NDArray[Any]:
        """Return a record's elements, read-only, in its own shape and dtype.

        Raises:
            DumpFormatError: The elements are not in the file, damaged, or cannot be read.
        """

    def value_array(self, value: ValueInfo) -> npt.NDArray[Any]:
        """Return a value's elements, read-only, in one dimension."""

    def rows(self, values: Sequence[ValueInfo]) -> npt.NDArray[Any]:
        """Return the elements of values of one dtype and size as rows of a matrix."""

    def sample(self, value: ValueInfo) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """Return positions and elements of a sampled value."""

    def fetch(self, values: Iterable[ValueInfo], *, is_plan: bool = False) -> None:
        """See that the elements of values are at hand before they are read."""

    def release_pages(self) -> None:
        """Let the system take back the memory of all that was read; arrays stay valid."""
