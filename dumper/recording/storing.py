"""Hand a tensor to the writer, in the way that is cheapest where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import SMALL_BYTES

if TYPE_CHECKING:
    from collections.abc import Hashable

    from padiff.dumper.adapter import Adapter, Array, Tensor
    from padiff.dumpfile import Content, Layout, StepWriter, Stored

    from .gradients import Watched

__all__ = ["Kept", "store", "store_array"]


@dataclass(slots=True, eq=False)
class Kept:
    """A tensor that was handed to the writer; not frozen, as that takes longer to make."""

    stored: Stored
    shape: tuple[int, ...]
    size_bytes: int
    layout: Layout | None = None
    """How the tensor lies over processes, if it does."""
    tensor: Any = None
    """A tensor with this content, kept alive so that its key stays true; None if nobody asks."""
    _watched: dict[Hashable, tuple[Any, Watched]] | None = None

    @property
    def watched(self) -> dict[Hashable, tuple[Any, Watched]]:
        """Tensor objects with this content and the gradient expected by each, by identity."""
        if self._watched is None:  # most contents never have any
            self._watched = {}
        return self._watched


def store(
    adapter: Adapter, writer: StepWriter, tensor: Tensor, content: Content | None = None
) -> Kept:
    """Store what a tensor holds at this moment.

    From a GPU the elements may still be on their way when this returns.

    Args:
        adapter: The tensor's framework.
        writer: Where it goes.
        tensor: What to store.
        content: How much of it to write; None as the writer does.
    """
    small_bytes = getattr(adapter, "small_bytes", None)  # adapters of others may lack it
    small = None if small_bytes is None else small_bytes(tensor, SMALL_BYTES)
    if small is not None:
        data, name, shape = small
        return Kept(writer.store_bytes(data, name, shape, content), shape, len(data))
    transfer = adapter.transfer(tensor)
    if transfer is None:
        array = adapter.elements(tensor)
        stored = writer.store(array, content=content)
    else:
        array = transfer.array
        stored = writer.store(array, content=content, arrival=transfer.wait)
    return Kept(stored, array.shape, array.nbytes, adapter.layout(tensor))


def store_array(writer: StepWriter, array: Array, layout: Layout | None = None) -> Kept:
    """Store elements that were read already.

    Args:
        writer: Where they go.
        array: What they are.
        layout: How their tensor lies over processes, if it does.
    """
    return Kept(writer.store(array), array.shape, array.nbytes, layout)
