"""Gradients of activations: one hook for each distinct tensor, however often it is met.

Calls run again inside the backward pass where activations are checkpointed. They are not recorded
again, but counted for the call that they repeat. Where the first run built no graph (torch's
reentrant checkpoints, Paddle's ``recompute``), the gradients of inner activations exist in the
second run alone: they are recorded for the call that is repeated.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from padiff.dumpfile import Layout, Phase, Role, StepWriter, Stored, digest_of

from .callstack import CallStack, OpenCall

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType

    from padiff.dumper.adapter import Adapter, Handle, Tensor

    from .contents import Kept
    from .nested import Flat


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
        """Wait for nothing yet."""
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
        """Wait for a tensor's gradient; a tensor met again waits by the hook it has."""
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


_PARTNERS = {Role.INPUT: Role.GRAD_INPUT, Role.OUTPUT: Role.GRAD_OUTPUT}


@dataclass(slots=True)
class _Run(threading.local):
    """The repetition that is running in a thread."""

    known: dict[Hashable, tuple[Tensor, Watched]] = field(default_factory=dict)
    ended: OpenCall | None = None
    """The call whose repetition was the last to return."""


class Recomputed:
    """Knows which recorded call each repeated one is.

    Inside a repeated call that is by the order of its inner calls. Which call of a module is
    repeated from outside is told by its inputs; where those agree, it is the last one, since the
    backward pass goes from the end.
    """

    def __init__(
        self,
        adapter: Adapter,
        writer: StepWriter,
        gradients: Gradients,
        calls: Sequence[OpenCall],
    ) -> None:
        """Know nothing of any repetition yet."""
        self._adapter, self._writer = adapter, writer
        self._gradients, self._calls = gradients, calls
        self._inputs: defaultdict[int, dict[str, Stored]] = defaultdict(dict)
        self._stack = CallStack()
        self._run = _Run()
        self._seen = 0
        self._inside: defaultdict[tuple[int | None, int], list[OpenCall]] = defaultdict(list)
        self._of_module: defaultdict[int, list[OpenCall]] = defaultdict(list)
        self._without: dict[tuple[int, Role, str], tuple[int, ...]] = {}
        self.count = 0
        """Calls that ran again."""
        self.outermost: dict[int, None] = {}
        """Modules that were checkpointed."""

    def expect(
        self, call: OpenCall, role: Role, slot: str, content: Kept, *, in_graph: bool
    ) -> None:
        """Note a tensor of a recorded call, and whether its gradient is awaited already."""
        if role is Role.INPUT:
            self._inputs[call.id][slot] = content.stored
        if not in_graph:
            self._without[call.id, role, slot] = content.shape

    def begin(self, module: int, frame: FrameType | None, flat: Flat) -> OpenCall | None:
        """Note that a module is called inside the backward pass; give the call it repeats."""
        self.count += 1
        self._look_at_new_calls()
        around = self._stack.parent(frame)
        if around is None:
            self.outermost.setdefault(module)
            self._run.known.clear()
            choice = _fresh(self._of_module[module])
            call = self._alike(choice, flat) if len(choice) > 1 else next(iter(choice), None)
        else:
            call = next(iter(_fresh(self._inside[around.id, module])), None)
        if call is not None:
            call.recomputed += 1
            self._stack.push(call, frame)
        return call

    def end(self, module: int) -> OpenCall | None:
        """Note that it returned; give the call it repeated."""
        self._run.ended = self._stack.pop(module)
        return self._run.ended

    @property
    def ended(self) -> OpenCall | None:
        """Return the call whose repetition was the last to return in this thread."""
        return self._run.ended

    def watch(self, call: OpenCall, flat: Flat, role: Role) -> None:
        """Wait for the gradients that the first run could not get."""
        for slot, tensor in flat.tensors:
            shape = self._without.get((call.id, role, slot))
            if shape is None or not self._adapter.requires_grad(tensor):
                continue
            if tuple(self._adapter.local(tensor).shape) != shape:
                continue  # another call's: one that repeats itself with other sizes
            del self._without[call.id, role, slot]
            target = Target(
                module=call.module, call=call.id, role=_PARTNERS[role], slot=slot, shape=shape
            )
            self._gradients.watch(tensor, self._run.known, target)

    def clear(self) -> None:
        """Let go of every tensor and frame."""
        self._stack.clear()
        self._run = _Run()

    def _alike(self, choice: Sequence[OpenCall], flat: Flat) -> OpenCall | None:
        """Return the last call whose inputs were these."""
        self._writer.flush()
        found = {
            slot: digest_of(self._adapter.elements(tensor))
            for slot, tensor in flat.tensors
            if self._adapter.is_floating(tensor)
        }
        for call in reversed(choice):
            inputs = self._inputs[call.id].items()
            known = {slot: stored.info and stored.info.digest for slot, stored in inputs}
            if known == found:
                return call
        return None

    def _look_at_new_calls(self) -> None:
        for call in self._calls[self._seen :]:
            self._inside[call.parent, call.module].append(call)
            self._of_module[call.module].append(call)
        self._seen = len(self._calls)


def _fresh(calls: Sequence[OpenCall]) -> list[OpenCall]:
    """Return those that ran again least often: another backward pass begins anew."""
    least = min((call.recomputed for call in calls), default=0)
    return [call for call in calls if call.recomputed == least]
