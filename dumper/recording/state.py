"""Weights, buffers and weight gradients of the recorded modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.dumpfile import LeafKind, Phase, RecordError, Role, StepWriter, Stored, digest_of

from .contents import Kept, store, store_array

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from padiff.dumper.adapter import Adapter, Array, Handle, NamedTensor, Tensor
    from padiff.dumpfile import Layout

    from .programrecorder import ProgramRecorder
    from .tree import TreeNode


@dataclass(frozen=True, slots=True)
class Read:
    """The elements of a gradient that may be gone when it is stored."""

    array: Array
    layout: Layout | None


@dataclass(slots=True)
class Held:
    """One distinct parameter or buffer; tied ones are held once."""

    number: int
    tensor: Tensor
    taken: Kept
    """What it held when it was recorded."""
    is_trained: bool = False
    """Whether it is a weight that requires a gradient."""
    arrivals: int = 0
    total: str = ""
    """The digest of the sum of all gradients that arrived; empty where only one did."""
    value: tuple[int, str] | None = None
    """The value of the program that it is, with its digest."""
    gradient: Kept | None = None
    """May lie otherwise over processes than the weight."""
    gradient_value: tuple[int, str] | None = None
    """The value of the program that it is, with its digest; None where no operator took it."""
    handed: Read | None = None
    """The first gradient that the script was handed while the weight had none of its own."""


@dataclass(slots=True, kw_only=True)
class Owner:
    """A place where a module owns such a tensor."""

    module: int
    name: str
    is_weight: bool
    requires_grad: bool
    held: Held


@dataclass(slots=True)
class State:
    """What the modules own, recorded before the first call; its gradients, after the last."""

    adapter: Adapter
    nodes: Sequence[TreeNode]
    guard: Callable[[Callable[..., None]], Callable[..., None]] = field(kw_only=True)
    """Makes a hook harmless."""
    is_stopped: bool = False
    """Whether events are ignored from here on."""
    _earlier: Held | None = None
    """The first weight that had a gradient before recording began."""
    _is_added_to: bool = True
    """Whether that was still there when its own came."""
    cleared: int = 0
    """Weights whose gradient arrived but was gone at the end."""
    zeroed: bool = False
    """Whether gradients arrived and all of them were zero at the end."""
    held: dict[Hashable, Held] = field(default_factory=dict)
    """All distinct parameters and buffers, by identity."""
    is_recorded: bool = False
    stashed: dict[Hashable, Read] = field(default_factory=dict)
    """Gradients as they were after the last backward pass, where the script may clear them."""
    _owners: list[Owner] = field(default_factory=list)
    _handles: list[Handle] = field(default_factory=list)
    taken: int = 0
    """Weights whose gradient is the one that the script was handed, as they have no own."""
    _nonzero: bool = False
    """Whether any stored gradient has an element other than zero."""
    _program: ProgramRecorder | None = None

    @property
    def stale(self) -> bool:
        """Return whether recorded gradients contain what came before recording began."""
        return self._earlier is not None and self._is_added_to

    @property
    def arrived(self) -> bool:
        """Return whether any weight got a gradient."""
        return any(held.arrivals for held in self.held.values())

    def names(self) -> dict[Hashable, str]:
        """Return the full name of each weight and buffer by its identity; a tied one's first."""
        paths = {node.info.id: node.info.path for node in self.nodes}
        found: dict[Hashable, str] = {}
        for key, owner in self.owners():
            found.setdefault(key, f"{paths[owner.module]}.{owner.name}".lstrip("."))
        return found

    def notes(self) -> list[str]:
        """State what a reader should know about the weight gradients."""
        notes = []
        if self.stale:
            notes.append(
                "some weights had a gradient before recording began: their recorded gradients "
                "may contain it"
            )
        if self.cleared:
            notes.append(
                f"{self.cleared} weights got a gradient that was cleared before the recording "
                "ended: it is recorded as absent"
            )
        if self.taken:
            notes.append(
                f"{self.taken} weights have no gradient of their own: recorded is the first that "
                "the script was given of them (autograd.grad)"
            )
        if self.zeroed:
            notes.append(
                "every weight gradient is zero although gradients arrived: were they cleared "
                "before the recording ended?"
            )
        return notes

    def record(
        self,
        writer: StepWriter,
        order: int,
        *,
        backward: bool,
        program: ProgramRecorder | None = None,
    ) -> int:
        """Store all weights and buffers as they are now; give the number of records."""
        self.is_recorded, self._program = True, program
        if backward:
            self._handles.append(self.adapter.watch.handed(self.guard(self._handed)))
        for node in self.nodes:
            for item in self.adapter.own_tensors(node.module):
                held = self._hold(item, writer, backward=backward)
                owner = Owner(
                    module=node.info.id,
                    name=item.name,
                    is_weight=item.is_weight,
                    requires_grad=self.adapter.requires_grad(item.tensor),
                    held=held,
                )
                self._owners.append(owner)
                record = writer.add_record(
                    module=owner.module,
                    call=None,
                    phase=Phase.FORWARD,
                    role=Role.WEIGHT if item.is_weight else Role.BUFFER,
                    slot=f".{item.name}",
                    order=order,
                    shape=held.taken.shape,
                    value=held.taken.stored,
                    layout=held.taken.layout,
                    requires_grad=owner.requires_grad,
                    tensor=held.number,
                )
                if program is not None:
                    kind = LeafKind.PARAMETER if item.is_weight else LeafKind.BUFFER
                    name = f"{node.info.path}.{item.name}".lstrip(".")
                    program.border(record, item.tensor, held.taken.stored, kind, name=name)
                    held.value = program.end_of(item.tensor)
        return len(self._owners)

    def record_gradients(
        self, writer: StepWriter, order: int, *, may_be_cleared: bool = False
    ) -> int:
        """Store the gradient of every weight that requires one; give the number of records.

        Args:
            writer: Where they go.
            order: Their place in the execution order.
            may_be_cleared: Whether all may be gone, since an optimizer that was waited for did
                not use them.

        Raises:
            RecordError: Gradients arrived, but every one had been cleared.
        """
        owners = [owner for owner in self._owners if owner.is_weight and owner.requires_grad]
        present = self._store_gradients(owners, writer)
        if self.cleared and not present and not may_be_cleared:
            raise RecordError(
                f"cannot record weight gradients: {self.cleared} weights got one, and none has "
                "it at the end of the recording",
                hint="leave the `with` block before the gradients are cleared (zero_grad)",
            )
        for owner in owners:
            gradient = owner.held.gradient
            record = writer.add_record(
                module=owner.module,
                call=None,
                phase=Phase.BACKWARD,
                role=Role.WEIGHT_GRAD,
                slot=f".{owner.name}",
                order=order,
                shape=owner.held.taken.shape if gradient is None else gradient.shape,
                value=None if gradient is None else gradient.stored,
                tensor=owner.held.number,
                layout=None if gradient is None else gradient.layout,
            )
            if self._program is not None and gradient is not None:
                self._program.add_end(record, owner.held.gradient_value, gradient.stored)
                if owner.held.total == gradient.stored.digest and not self.stale:
                    self._program.set_total(owner.held.value, gradient.stored)
        return len(owners)

    def record_buffers(
        self,
        writer: StepWriter,
        order: int,
        *,
        always: bool,
        ended: Callable[[int, Tensor, Stored], None],
    ) -> int:
        """Store all buffers as the step left them; give the number of records.

        Args:
            writer: Where they go.
            order: Their place in the execution order.
            always: Whether also where none has changed.
            ended: Called with each record, its tensor and what was stored.
        """
        left = [
            (owner, tensor, store(self.adapter, writer, tensor)) for owner, tensor in self.buffers()
        ]
        if not always:
            writer.flush()
            changed = (
                taken.stored.info != owner.held.taken.stored.info for owner, _, taken in left
            )
            if not any(changed):
                return 0
        for owner, tensor, taken in left:
            record = writer.add_record(
                module=owner.module,
                call=None,
                phase=Phase.UPDATE,
                role=Role.BUFFER,
                slot=f".{owner.name}",
                order=order,
                shape=taken.shape,
                value=taken.stored,
                tensor=owner.held.number,
                layout=taken.layout,
            )
            ended(record, tensor, taken.stored)
        return len(left)

    def buffers(self) -> Iterator[tuple[Owner, Tensor]]:
        """Yield each buffer that was recorded as it is now, though another took its name."""
        modules = {node.info.id: node.module for node in self.nodes}
        now: dict[int, dict[str, Tensor]] = {}
        for owner in self._owners:
            if owner.is_weight:
                continue
            if owner.module not in now:
                owned = self.adapter.own_tensors(modules[owner.module])
                now[owner.module] = {item.name: item.tensor for item in owned}
            if owner.name in now[owner.module]:
                yield owner, now[owner.module][owner.name]

    def owners(self) -> Iterator[tuple[Hashable, Owner]]:
        """Yield each place that owns a parameter or buffer, with the tensor's identity."""
        for owner in self._owners:
            yield self.adapter.identity(owner.held.tensor), owner

    def capture(
        self, held: Held, writer: StepWriter, *, scale: float = 1.0, is_read: bool = False
    ) -> Array | None:
        """Store a weight's gradient as it is now, unless that was done.

        Args:
            held: The weight.
            writer: Where the gradient goes.
            scale: What it is divided by first.
            is_read: Whether to give the elements, to be read at once; else they may not be known.
        """
        gradient = self.adapter.gradient(held.tensor)
        if not held.is_trained or held.gradient is not None or gradient is None:
            return None
        held.gradient_value = self.value_of(gradient) if scale == 1.0 else None
        if self._nonzero and scale == 1.0 and not is_read:
            held.gradient = store(self.adapter, writer, gradient)
            return None
        array = self.adapter.elements(gradient)
        if scale != 1.0:
            array = (array / scale).astype(array.dtype)
        self._nonzero = self._nonzero or bool(array.any())
        held.gradient = store_array(writer, array, self.adapter.layout(gradient))
        return array

    def value_of(self, tensor: Tensor) -> tuple[int, str] | None:
        """Return the value of the program that a tensor holds now, with its digest."""
        return None if self._program is None else self._program.end_of(tensor)

    def stash(self) -> None:
        """Copy all gradients, in the place of earlier copies."""
        for key, held in self.held.items():
            gradient = self.adapter.gradient(held.tensor) if held.is_trained else None
            if gradient is not None:
                self.stashed[key] = self._read(gradient)

    def keep_stashed(self, writer: StepWriter) -> dict[Hashable, Array]:
        """Store the copies as the gradients of this step; give them."""
        kept, self.stashed = self.stashed, {}
        for key, read in kept.items():
            self._nonzero = self._nonzero or bool(read.array.any())
            self.held[key].gradient = store_array(writer, read.array, read.layout)
        return {key: read.array for key, read in kept.items()}

    def _read(self, gradient: Tensor) -> Read:
        return Read(self.adapter.snapshot(gradient), self.adapter.layout(gradient))

    def detach(self) -> None:
        """Take the hooks off the weights."""
        self.stashed.clear()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hold(self, item: NamedTensor, writer: StepWriter, *, backward: bool) -> Held:
        identity = self.adapter.identity(item.tensor)
        held = self.held.get(identity)
        if held is None:
            taken = store(self.adapter, writer, item.tensor)
            held = Held(len(self.held), item.tensor, taken)
            self.held[identity] = held
            held.is_trained = item.is_weight and self.adapter.requires_grad(item.tensor)
            if backward and held.is_trained:
                self._await_gradient(held)
        return held

    def _await_gradient(self, held: Held) -> None:
        """Only count: a gradient that is cleared before the end must not pass as absent."""
        if self._earlier is None and self._has_nonzero_gradient(held):
            self._earlier = held

        def arrived(gradient: Tensor) -> None:
            if self.is_stopped:
                return
            if held is self._earlier and not held.arrivals:
                self._is_added_to = self._has_nonzero_gradient(held)
            before = self.adapter.gradient(held.tensor) if held.arrivals else None
            held.arrivals += 1
            if before is not None:
                elements = self.adapter.elements
                held.total = digest_of(elements(before) + elements(gradient))

        self._handles.append(self.adapter.hook_gradient(held.tensor, self.guard(arrived)))

    def _handed(self, tensor: Tensor, gradient: Tensor) -> None:
        """Keep a copy of a weight's gradient that nothing else keeps."""
        held = self.held.get(self.adapter.identity(tensor))
        if self.is_stopped or held is None or not held.is_trained or held.handed is not None:
            return
        if self.adapter.gradient(tensor) is None:
            held.handed = self._read(gradient)

    def _has_nonzero_gradient(self, held: Held) -> bool:
        """Return whether there is a gradient now; Paddle's ``clear_grad`` leaves zeros."""
        gradient = self.adapter.gradient(held.tensor)
        return gradient is not None and bool(self.adapter.elements(gradient).any())

    def _store_gradients(self, owners: Sequence[Owner], writer: StepWriter) -> int:
        present = 0
        for held in {id(owner.held): owner.held for owner in owners}.values():
            self.capture(held, writer)
            if held.gradient is None and held.handed is not None:
                held.gradient = store_array(writer, held.handed.array, held.handed.layout)
                self._nonzero = self._nonzero or bool(held.handed.array.any())
                self.taken += 1
            present += held.gradient is not None
            self.cleared += held.gradient is None and bool(held.arrivals)
        self.zeroed = bool(present) and not self._nonzero and self.arrived
        return present
