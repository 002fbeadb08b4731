"""Copies of tensors, taken once for each content met.

A tensor is handed to the writer in the way that is cheapest where it lies.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import SMALL_BYTES

if TYPE_CHECKING:
    from collections.abc import Hashable

    from padiff.dumper.adapter import Adapter, Array, Tensor
    from padiff.dumpfile import Content, Layout, StepWriter, Stored

    from .gradients import Watched


KEPT_BYTES = 64 << 20
"""Contents are remembered until they sum up to this; more is only copied and hashed again."""


class Contents:
    """Stores tensors as they are now, and recognises content that was stored a moment ago.

    A module's input is nearly always an earlier output: copying it again would double the
    cost. The memory is bounded; what has been forgotten costs time, never correctness.
    """

    def __init__(
        self,
        adapter: Adapter,
        writer: StepWriter,
        *,
        limit: int = KEPT_BYTES,
        is_spread: bool = False,
    ) -> None:
        """Begin with none.

        Args:
            adapter: The model's framework.
            writer: Where they go.
            limit: Bytes up to which contents are remembered.
            is_spread: Whether several processes run: collectives then reduce gradients in place,
                and no version tells.
        """
        self._adapter, self._key = adapter, adapter.content_key
        self._is_spread = is_spread
        self._writer = writer
        self._limit = limit
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._kept_bytes = 0
        self._most: dict[Content | None, Content] = {}
        """How much the writer keeps where so much is wanted."""

    def store(self, tensor: Tensor, content: Content | None = None) -> Kept:
        """Store what the tensor holds at this moment.

        Args:
            tensor: What to store.
            content: How much of it to write, if the writer keeps so much; None as it does.
        """
        key = self._key(tensor)
        wanted = self._most.get(content)
        if wanted is None:
            wanted = self._most[content] = self._writer.at_most(content)
        known = None if key is None else self._kept.get(key)
        if known is not None and (known.tensor is tensor or self._is_true(known, key)):
            self._kept.move_to_end(key)
            is_enough = known.stored.content.rank >= wanted.rank
            if not is_enough and not self._writer.deepen(known.stored, wanted):
                known.stored = store(self._adapter, self._writer, tensor, wanted).stored
            return known
        fresh = store(self._adapter, self._writer, tensor, wanted)
        fresh.tensor = tensor
        if key is not None:
            self._kept[key] = fresh
            self._kept_bytes += fresh.size_bytes
            while self._kept_bytes > self._limit:
                _, oldest = self._kept.popitem(last=False)
                self._kept_bytes -= oldest.size_bytes
        return fresh

    def store_gradient(self, tensor: Tensor, content: Content | None = None) -> Kept:
        """Store a gradient, which may have been reduced in place since it was stored."""
        if self._is_spread:
            self.forget(tensor)
        return self.store(tensor, content)

    def _is_true(self, known: Kept, key: Hashable) -> bool:
        """Return whether a content still holds under its key; it is dropped if not.

        The tensor that was kept may have been given another storage (``x.data = y``): its old
        memory is then free to be used again under the very same key.
        """
        if self._key(known.tensor) == key:
            return True
        self._kept_bytes -= self._kept.pop(key).size_bytes
        return False

    def forget(self, tensor: Tensor) -> None:
        """Store a tensor anew next time, although its key may be what it was."""
        found = self._kept.pop(self._key(tensor), None)
        if found is not None:
            self._kept_bytes -= found.size_bytes

    def clear(self) -> None:
        """Forget everything, so that the tensors may die."""
        self._kept.clear()
        self._kept_bytes = 0


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
