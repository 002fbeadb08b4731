"""Hand a tensor to the writer, in the way that is cheapest where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from padiff.dumper.adapter import Adapter, Tensor
    from padiff.dumpfile import StepWriter, Stored

__all__ = ["Taken", "store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A tensor that was handed to the writer."""

    stored: Stored
    shape: tuple[int, ...]
    size_bytes: int


def store(adapter: Adapter, writer: StepWriter, tensor: Tensor) -> Taken:
    """Store what a tensor holds at this moment.

    From a GPU the elements may still be on their way when this returns.
    """
    transfer = adapter.transfer(tensor)
    if transfer is None:
        array = adapter.elements(tensor)
        stored = writer.store(array)
    else:
        array = transfer.array
        stored = writer.store(array, arrival=transfer.wait)
    return Taken(stored=stored, shape=tuple(array.shape), size_bytes=array.nbytes)
