"""Gradients of activations: one hook for each distinct tensor, however often it is met."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from padiff.dumpfile import Layout, Phase, Role, StepWriter, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Adapter, Handle, Tensor

    from .storing import Kept

__all__ = ["Gradients", "Target", "Watched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place in the dump that waits for a gradient."""

    module: int
    call: int
    role: Role
    slot: str
    shape: tuple[int, ...]


@dataclass(slots=True)
class Watched:
    """A tensor whose gradient is awaited. Holds no tensor: its hook refers to it."""

    targets: list[Target] = field(default_factory=list)
    arrivals: int = 0


class Gradients:
    """Waits for the gradients of one step's activations and writes them as they arrive."""

    def __init__(
        self,
        adapter: Adapter,
        writer: StepWriter,
        lock: AbstractContextManager[object],
        next_order: Callable[[], int],
        store: Callable[[Tensor], Kept],
        guard: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        """Wait for nothing yet.

        Args:
            adapter: The model's framework.
            writer: Where gradients go.
            lock: Held while one is written; they come in the framework's threads.
            next_order: Gives the next place in the execution order.
            store: Stores a gradient.
            guard: Makes a hook harmless.
        """
        self._adapter, self._writer = adapter, writer
        self._lock, self._next, self._store = lock, next_order, store
        self._guard = guard
        self._watched: list[Watched] = []
        self._handles: list[Handle] = []
        self._is_closed = False
        self.records = 0
        self.repeated = 0
        """Gradients that arrived again for a tensor, and are not recorded."""

    @property
    def arrived(self) -> bool:
        """Return whether any gradient arrived."""
        return any(item.arrivals for item in self._watched)

    def watch(
        self, tensor: Tensor, known: dict[Hashable, tuple[Tensor, Watched]], target: Target
    ) -> None:
        """Wait for a tensor's gradient; a tensor met again waits by the hook it has.

        Args:
            tensor: Requires a gradient.
            known: The tensors that are watched, alive so that no identity is used again, by that.
            target: Where its gradient goes.
        """
        identity = self._adapter.identity(tensor)
        _, watched = known.get(identity, (None, None))
        if watched is None or watched.arrivals:
            watched = Watched()
            known[identity] = tensor, watched
            self._watched.append(watched)
            arrived = self._guard(partial(self._arrived, watched))
            self._handles.append(self._adapter.hook_gradient(tensor, arrived))
        watched.targets.append(target)

    def record_absent(self) -> None:
        """Record that the gradients never came for which nothing arrived."""
        order = self._next()
        for watched in self._watched:
            if not watched.arrivals:
                for target in watched.targets:
                    self._add(target, order, target.shape, None, None)

    def stop(self) -> None:
        """Ignore what arrives from here on."""
        self._is_closed = True

    def detach(self) -> None:
        """Take the hooks off; what arrives from here on is ignored."""
        self.stop()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _arrived(self, watched: Watched, gradient: Tensor) -> None:
        if self._is_closed:
            return
        with self._lock:
            watched.arrivals += 1
            if watched.arrivals > 1:
                self.repeated += 1
                return
            taken = self._store(gradient)
            order = self._next()
            for target in watched.targets:
                layout = self._adapter.layout(gradient)
                self._add(target, order, taken.shape, taken.stored, layout)

    def _add(
        self,
        target: Target,
        order: int,
        shape: tuple[int, ...],
        stored: Stored | None,
        layout: Layout | None,
    ) -> None:
        self._writer.add_record(
            module=target.module,
            call=target.call,
            phase=Phase.BACKWARD,
            role=target.role,
            slot=target.slot,
            order=order,
            shape=shape,
            value=stored,
            layout=layout,
        )
        self.records += 1
