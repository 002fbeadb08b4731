"""What an optimizer does in one step: gradients it takes, learning rate, and what it leaves."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumpfile import JSON, LeafKind, Phase, Role, StepWriter, Stored

from .contents import store, store_array
from .followed import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from padiff.dumper.adapter import Adapter, Array, Handle, Tensor
    from padiff.dumper.trainer import Optimizer

    from .contents import Kept
    from .programrecorder import ProgramRecorder
    from .state import State

GRADIENT_NORM = "['gradient_norm']"


@dataclass(slots=True)
class Update:
    """One step's update, seen from the moment before it and after the step.

    Gradients are stored when an optimizer is about to use them, since scripts clear them
    afterwards and a gradient scaler divides them before. Everything else is read at the step's end.
    """

    adapter: Adapter
    writer: StepWriter
    state: State
    optimizers: Sequence[Optimizer] = ()
    guard: Callable[[Callable[..., None]], Callable[..., None]] = field(kw_only=True)
    """Makes a hook harmless."""
    is_stopped: bool = False
    """Whether events are ignored from here on."""
    seen: bool = False
    """Whether the parameters were about to be changed."""
    by_hand: bool = False
    """Whether the script changed the weights itself."""
    is_clipped: bool = False
    """Whether what the update takes is to be recorded beside the gradients themselves."""
    known: Callable[[], None] = field(default=lambda: None)
    """Called when an optimizer has become known: what it keeps belongs to the update."""
    rates: list[float] | None = None
    """Learning rates in force; None where nobody told."""
    _begun: set[int] = field(default_factory=set)
    """Identities of the optimizers that ``begins`` was called with."""
    _clipped: dict[Hashable, tuple[Kept, tuple[int, str] | None]] = field(default_factory=dict)
    """What the update takes, with the values of the program that it is."""
    _squares: dict[Hashable, float] = field(default_factory=dict)
    _handles: list[Handle] = field(default_factory=list)
    _program: ProgramRecorder | None = None
    _ends: dict[int, tuple[int, str]] = field(default_factory=dict)
    """The value of the program that a tensor holds at the end, by the tensor's identity."""

    def attach(self) -> None:
        """Wait for the optimizers."""
        trainer = self.adapter.trainer
        for optimizer in self.optimizers:

            def before(optimizer: Optimizer = optimizer) -> None:
                self.begins(optimizer)

            self._handles.append(trainer.hook_update(optimizer, self.guard(before)))

    def detach(self) -> None:
        """Take the hooks off the optimizers."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.known = _nothing  # it refers back

    def taken(self) -> Iterator[Taken]:
        """List the weights, their gradients, and what the optimizers keep of them, as of now."""
        trainer, names = self.adapter.trainer, self.state.names()
        for key, held in self.state.held.items():
            name = names.get(key, "")
            yield Taken(kind=LeafKind.PARAMETER, name=name, tensor=held.tensor)
            gradient = self.adapter.gradient(held.tensor) if held.is_trained else None
            if gradient is not None:
                yield Taken(
                    kind=LeafKind.GRADIENT,
                    name=name,
                    tensor=gradient,
                    is_passing=self.adapter.gradient(held.tensor) is not gradient,
                )
            for optimizer in self.optimizers:
                for part, kept in trainer.state_of(optimizer, held.tensor):
                    if self.adapter.is_tensor(kept):
                        yield Taken(kind=LeafKind.STATE, name=f"{name}[{part!r}]", tensor=kept)

    def ending(self, program: ProgramRecorder | None) -> None:
        """Look which values of the program the weights and all else hold that is recorded now."""
        self._program = program
        if program is None:
            return
        for tensor in self._left():
            end = program.end_of_step(tensor)
            if end is not None:
                self._ends[id(tensor)] = end

    def _left(self) -> Iterator[Tensor]:
        """Yield the tensors that are recorded as the step left them."""
        trainer = self.adapter.trainer
        for _, owner in self.state.owners():
            yield owner.held.tensor
            for optimizer in self.optimizers if owner.is_weight else ():
                for _, kept in trainer.state_of(optimizer, owner.held.tensor):
                    if self.adapter.is_tensor(kept):
                        yield kept
        for _, tensor in self.state.buffers():
            yield tensor

    def left_as(self, record: int, tensor: Tensor, stored: Stored) -> None:
        """State which value a record of the step's end holds."""
        if self._program is not None:
            self._program.add_end(record, self._ends.get(id(tensor)), stored)

    def gradients_ready(self, *, is_clipped: bool) -> None:
        """Store all gradients now; what comes until the update is the clip."""
        self._capture(None)
        self.is_clipped = is_clipped

    def begins(self, optimizer: Optimizer | None = None) -> None:
        """Store the gradients that an optimizer is about to take; None takes all of them."""
        if self.is_stopped or not self.state.is_recorded:
            return
        self.seen = True
        self.expect(optimizer)
        trainer, identity = self.adapter.trainer, self.adapter.identity
        if optimizer is None:
            self._capture(None)
            return
        self._begun.add(id(optimizer))
        trained = {identity(tensor) for tensor in trainer.trained(optimizer)}
        self._capture(trained, scale=trainer.gradient_scale(optimizer))
        self.rates = [*(self.rates or []), *trainer.learning_rates(optimizer)]
        held = [item.tensor for key, item in self.state.held.items() if key in trained]
        pairs = trainer.clipped(optimizer, held)
        if not pairs and self.is_clipped:
            grads = [(tensor, self.adapter.gradient(tensor)) for tensor in held]
            pairs = [(tensor, grad) for tensor, grad in grads if grad is not None]
        for tensor, gradient in pairs:
            taken = store(self.adapter, self.writer, gradient)
            self._clipped[identity(tensor)] = taken, self.state.value_of(gradient)

    def happened(self) -> None:
        """Report that the script has changed the weights itself since the last backward pass."""
        if self.state.is_recorded and not self.seen:
            self.seen = self.by_hand = True
            for key, array in self.state.keep_stashed(self.writer).items():
                self._squares[key] = _square(array)

    def ended(self, optimizer: Optimizer, *, is_changed: bool) -> None:
        """Store gradients that came during the update by calls of the optimizer itself."""
        self.expect(optimizer)
        if is_changed and self.state.is_recorded:
            if id(optimizer) not in self._begun:
                self.begins(optimizer)
            self._capture(None)

    def expect(self, optimizer: Optimizer | None) -> None:
        """Note an optimizer that was not known when the step began."""
        if optimizer is not None and not any(optimizer is known for known in self.optimizers):
            self.optimizers = (*self.optimizers, optimizer)
            self.known()

    def describe(self) -> list[JSON]:
        """Return the class of each optimizer, and its options with the weights that they are of."""
        told: list[JSON] = []
        names = self.state.names()
        for optimizer in self.optimizers:
            groups: dict[str, tuple[dict[str, JSON], list[JSON]]] = {}
            for parameter, options in self.adapter.trainer.options(optimizer):
                name = names.get(self.adapter.identity(parameter))
                if name is not None:
                    key = json.dumps(options, sort_keys=True)
                    groups.setdefault(key, (options, []))[1].append(name)
            kind = type(optimizer)
            told.append(
                {
                    "class": f"{kind.__module__}.{kind.__qualname__}",
                    "groups": [
                        {"options": options, "weights": weights}
                        for options, weights in groups.values()
                    ],
                }
            )
        return told

    def record(self, order: int) -> int:
        """Write what the update took and left, as it is now; give the number of records."""
        if not self.seen:
            return 0
        count = self._record_rates(order) + self._record_norm(order)
        count += self._record_clipped(order)
        return count + self._record_states(order) + self._record_tensors(order)

    def _capture(self, trained: set[Hashable] | None, *, scale: float = 1.0) -> None:
        for key, held in self.state.held.items():
            if trained is None or key in trained:
                array = self.state.capture(held, self.writer, scale=scale, is_read=True)
                if array is not None:
                    self._squares[key] = _square(array)

    def _record_rates(self, order: int) -> int:
        rates = self.rates or []
        if len(set(rates)) == 1:
            self._add_scalar(Role.LR, "", rates[0], order)
            return 1
        for place, rate in enumerate(rates):
            self._add_scalar(Role.LR, f"[{place}]", rate, order)
        return len(rates)

    def _record_norm(self, order: int) -> int:
        """Record the norm of all gradients; that of one process's parts of them says nothing."""
        gradients = (self.state.held[key].gradient for key in self._squares)
        if not self._squares or any(
            one and one.layout and one.layout.is_split for one in gradients
        ):
            return 0
        norm = math.sqrt(math.fsum(self._squares.values()))
        self._add_scalar(Role.NAMED, GRADIENT_NORM, norm, order)
        return 1

    def _record_clipped(self, order: int) -> int:
        count = 0
        for key, owner in self.state.owners():
            if key in self._clipped:
                taken, value = self._clipped[key]
                slot = f".{owner.name}"
                record = self._add(owner.module, Role.WEIGHT_GRAD, slot, order, taken)
                if self._program is not None:
                    self._program.add_end(record, value, taken.stored)
                count += 1
        return count

    def _record_states(self, order: int) -> int:
        trainer, count = self.adapter.trainer, 0
        for _, owner in self.state.owners():
            if not owner.is_weight:
                continue
            for optimizer in self.optimizers:
                for name, kept in trainer.state_of(optimizer, owner.held.tensor):
                    taken = self._kept(kept)
                    slot = f".{owner.name}[{name!r}]"
                    record = self._add(owner.module, Role.OPTIMIZER_STATE, slot, order, taken)
                    self.left_as(record, kept, taken.stored)
                    count += 1
        return count

    def _record_tensors(self, order: int) -> int:
        """Store weights and buffers after the update; tied weights once."""
        after: dict[Hashable, Kept] = {}
        count = 0
        for key, owner in self.state.owners():
            if not owner.is_weight:
                continue
            if key not in after:
                after[key] = store(self.adapter, self.writer, owner.held.tensor)
            record = self.writer.add_record(
                module=owner.module,
                call=None,
                phase=Phase.UPDATE,
                role=Role.WEIGHT,
                slot=f".{owner.name}",
                order=order,
                shape=after[key].shape,
                value=after[key].stored,
                requires_grad=owner.requires_grad,
                tensor=owner.held.number,
                layout=after[key].layout,
            )
            self.left_as(record, owner.held.tensor, after[key].stored)
            count += 1
        return count + self.state.record_buffers(
            self.writer, order, always=True, ended=self.left_as
        )

    def _kept(self, kept: Any) -> Kept:  # noqa: ANN401 - a tensor or number
        if not self.adapter.is_tensor(kept):
            return store_array(self.writer, np.asarray(kept))
        array = self.adapter.elements(kept)
        return store_array(self.writer, array, self.adapter.layout(kept))

    def _add_scalar(self, role: Role, slot: str, number: float, order: int) -> None:
        self._add(0, role, slot, order, store_array(self.writer, np.array(number, np.float64)))

    def _add(self, module: int, role: Role, slot: str, order: int, taken: Kept) -> int:
        return self.writer.add_record(
            module=module,
            call=None,
            phase=Phase.UPDATE,
            role=role,
            slot=slot,
            order=order,
            shape=taken.shape,
            value=taken.stored,
            layout=taken.layout,
        )


def _square(array: Array) -> float:
    """Return the sum of the squares of all elements, in float64."""
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return float(np.vdot(wide, wide).real)


def _nothing() -> None:
    """Tell nobody."""
