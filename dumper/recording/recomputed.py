"""Calls that run again inside the backward pass: activation checkpointing.

They are not recorded again, but counted for the call that they repeat. Where the first run built no
graph (torch's reentrant checkpoints, Paddle's ``recompute``), the gradients of inner activations
exist in the second run alone: they are recorded for the call that is repeated.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.dumpfile import Role, digest_of

from .callstack import CallStack, OpenCall
from .gradients import Gradients, Target, Watched

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from types import FrameType

    from padiff.dumper.adapter import Adapter, Tensor
    from padiff.dumpfile import StepWriter, Stored

    from .nested import Flat
    from .storing import Kept

__all__ = ["Recomputed"]

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
        """Know nothing of any repetition yet.

        Args:
            adapter: The model's framework.
            writer: Knows the digests of what was stored.
            gradients: Waits for gradients.
            calls: All calls recorded so far; grows.
        """
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
        """Note that a module is called inside the backward pass; give the call it repeats.

        Args:
            module: Which one.
            frame: What runs the call.
            flat: Its arguments.
        """
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
