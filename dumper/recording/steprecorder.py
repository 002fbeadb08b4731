"""One step being recorded: turns the model's events into calls and records."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from padiff.dumper.trainer import trains
from padiff.dumper.watch import nothing
from padiff.dumpfile import LeafKind, Phase, Role, StepWriter

from .callstack import CallStack, OpenCall
from .contents import Contents, store
from .draws import Draws
from .ending import Ending
from .gradients import Gradients, Recomputed, Target
from .nested import Flat, flatten, flatten_call
from .ownwork import OwnWork
from .programrecorder import ProgramRecorder
from .results import parts_of_result
from .running import Running
from .state import State
from .threads import follow_threads
from .update import Update

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from padiff.dumper.adapter import Adapter, Array, Handle, Module, Tensor
    from padiff.dumper.trainer import Optimizer
    from padiff.dumpfile import SourceLine, Stored

    from .construction import Construction
    from .source import Sources
    from .tree import TreeNode

MOST_PATHS = 8
"""Modules that a note lists."""
_ADAPTERS = "padiff.dumper.adapters"
RUNS_CALL = "run_call"


class StepRecorder:
    """Receives what happens in the model within one step and writes it."""

    def __init__(  # noqa: PLR0913
        self,
        adapter: Adapter,
        writer: StepWriter,
        nodes: Sequence[TreeNode],
        sources: Sources,
        *,
        phase: Phase,
        stateful: frozenset[str],
        optimizers: Sequence[Optimizer] = (),
        running: Running | None = None,
        program: bool = False,
        built: Construction | None = None,
        ending: Ending | None = None,
        is_spread: bool = False,
    ) -> None:
        """Begin a step; hooks come with ``attach``.

        Args:
            adapter: The model's framework.
            writer: Where the step goes.
            nodes: All modules of the tree.
            sources: Finds call sites.
            phase: FORWARD records no gradients.
            stateful: Paths of the modules whose weights and buffers are recorded.
            optimizers: What changes the weights; without any, those that train the model are.
            running: Hears which call runs.
            program: Whether the operators are recorded.
            built: How buffers and constants of the model were made, if that is known.
            ending: Ends the recording where a hook fails; None raises there.
            is_spread: Whether this is one of several processes.
        """
        self._ending = ending or Ending()
        self._running = running or Running()
        self._paths = [node.info.path for node in nodes]
        self._adapter, self._is_tensor = adapter, adapter.is_tensor
        self._writer = writer
        self._sources = sources
        self._backward = phase is not Phase.FORWARD
        self._contents = Contents(adapter, writer, is_spread=is_spread)
        self._stack = CallStack()
        self._draws = Draws(adapter)
        own_prefix = f"{adapter.name}."
        self._own_code = [not node.info.class_path.startswith(own_prefix) for node in nodes]
        self._calls: list[OpenCall] = []
        self._calls_of_module: dict[int, int] = {}
        self._handles: list[Handle] = []
        self._next = count().__next__  # no method of its own, which would keep all of this alive
        """Returns the next place in the execution order."""
        operators = adapter.operators if program else None
        self._lock = OwnWork() if operators is None else OwnWork(operators.unwatched)
        self._closed = False
        self._records = 0
        # The program's hooks get the same gradients: they are stored once.
        keep = (
            partial(store, adapter, writer) if operators is None else self._contents.store_gradient
        )
        guard = self._ending.guard
        self._gradients = Gradients(adapter, writer, self._lock, self._next, keep, guard)
        self._recomputed = Recomputed(adapter, writer, self._gradients, self._calls)
        stated = [node for node in nodes if node.info.path in stateful]
        self._state = State(adapter, stated, guard=guard)
        used = optimizers if self._backward else ()
        self._finds_optimizers = self._backward and not optimizers
        self.update = Update(adapter, writer, self._state, used, guard=guard)
        self._nodes = nodes
        self._program = self._begin_program(built) if program else None
        self._losses: list[tuple[Array, tuple[int, str] | None]] = []
        """What backward passes began at, and which values of the program that was."""
        self._has_loss = False
        """Whether a loss was recorded by name."""
        self._is_paused = False
        writer.add_modules(tuple(node.info for node in nodes))

    @property
    def is_paused(self) -> bool:
        """Whether what runs now is left out."""
        return self._is_paused

    @is_paused.setter
    def is_paused(self, is_paused: bool) -> None:
        self._is_paused = is_paused
        if self._program is not None:
            self._program.is_paused = is_paused

    @property
    def calls(self) -> int:
        """Count the calls so far."""
        return len(self._calls)

    @property
    def records(self) -> int:
        """Count the records so far."""
        return self._records + self._gradients.records

    @property
    def arrived(self) -> bool:
        """Return whether any gradient arrived."""
        return self._gradients.arrived or self._state.arrived

    def notes(self) -> list[str]:
        """State what a reader of the step should know."""
        notes = []
        if self._backward and not self.arrived:
            notes.append("no gradient arrived while recording: no backward pass was recorded")
        if self._recomputed.count:
            paths = [self._paths[module] or "(root)" for module in self._recomputed.outermost]
            named = ", ".join([*paths[:MOST_PATHS], *["…"][: len(paths) > MOST_PATHS]])
            notes.append(
                f"{self._recomputed.count} calls ran again inside the backward pass (checkpointing "
                f"of {named}) and were not recorded twice"
            )
        if self._gradients.repeated:
            notes.append(
                f"{self._gradients.repeated} gradients of activations arrived more than once "
                "(several backward passes): the first is recorded"
            )
        if self.update.by_hand:
            notes.append(
                "the script changed the weights itself, without an optimizer of the framework: "
                "no learning rate and no state of an optimizer is recorded"
            )
        if self._program is not None and self._program.failure:
            notes.append(f"no program was recorded: it ended at {self._program.failure}")
        return [*notes, *self._state.notes()]

    def stash_gradients(self) -> None:
        """Copy the gradients, which a script without an optimizer may use and clear unseen."""
        with self._lock:
            self._state.stash()

    def repeated(self, path: str) -> int | None:
        """Return which call of a module has just run again inside a backward pass.

        Asked after the hooks of the recording; None if that was none of the recorded calls.
        """
        call = self._recomputed.ended
        return None if call is None or self._paths[call.module] != path else call.index

    def _begin_program(self, built: Construction | None) -> ProgramRecorder | None:
        operators = self._adapter.operators
        if operators is None:
            return None
        made = ProgramRecorder(
            self._adapter,
            operators,
            self._writer,
            self._contents,
            self._sources,
            lock=self._lock,
            calls=self._stack,
            backward=self._backward,
            taken=self.update.taken,
            built=built,
            guard=self._ending.guard,
        )
        self.update.known = made.expect_update
        return made

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record operators, if they are recorded at all, and follow threads."""
        program = self._program
        with ExitStack() as exits:
            if program is not None:
                exits.enter_context(program.watch())
            watch = nullcontext if program is None else program.watch_thread
            exits.enter_context(follow_threads(self._stack, watch))
            yield

    def attach(self, nodes: Sequence[TreeNode]) -> None:
        """Hook the calls of these modules."""
        for node in nodes:
            before = partial(self._before, node.info.id)
            after = partial(self._after, node.info.id)
            self._handles.append(self._adapter.hook_calls(node.module, before, after))
        entered = self._ending.guard(self._entered)
        for node in self._nodes:
            self._handles.append(self._adapter.hook_entry(node.module, entered))
        self._handles.append(self._adapter.watch.rehearsals(self._left_out))
        backward = self._ending.guard(self._backward_begins)
        self._handles.append(self._adapter.watch.losses(backward, nothing))
        self.update.attach()
        if self._finds_optimizers:
            guard = self._ending.guard
            begins, ended = guard(self._update_begins), guard(self._update_ended)
            self._handles.append(self._adapter.watch.updates(begins, ended))

    def stop(self) -> None:
        """Ignore all events from here on.

        What was hooked stays hooked until ``detach``: Paddle crashes where a hook on a gradient
        takes hooks off.
        """
        self._closed = True
        self._gradients.stop()
        self.update.is_stopped = True
        self._state.is_stopped = True
        if self._program is not None:
            self._program.stop()

    def detach(self) -> None:
        """Take every hook off and let go of every tensor; nothing is recorded afterwards."""
        self._closed = True
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if self._program is not None:
            self._program.detach()
        self._gradients.detach()
        self._recomputed.clear()
        self._state.detach()
        self.update.detach()
        self._contents.clear()
        self._stack.clear()

    def close(self) -> None:
        """Record what is known only at the end and write the index."""
        with self._lock:
            self.update.ending(self._program)
            self._record_losses()
            if self._program is not None:
                self._program.finish()
            self.detach()
            for call in self._calls:
                self._writer.add_call(call.info())
            self._writer.add_draws(self._draws.found())
            if self._backward and self.arrived:
                self._gradients.record_absent()
                order = self._next()
                self._records += self._state.record_gradients(
                    self._writer,
                    order,
                    may_be_cleared=bool(self.update.optimizers) and not self.update.seen,
                )
            if self._backward and self.update.seen:
                self._records += self.update.record(self._next())
            else:
                is_training = any(call.training for call in self._calls)
                self._records += self._state.record_buffers(
                    self._writer, self._next(), always=is_training, ended=self.update.left_as
                )
            self._writer.close()

    def value_of(self, tensor: Tensor) -> tuple[int, str] | None:
        """Return which value of the program a tensor holds now, and its digest, if it holds one."""
        with self._lock:
            return None if self._program is None else self._program.end_of(tensor)

    def record_array(
        self,
        role: Role,
        slot: str,
        array: Array,
        *,
        phase: Phase = Phase.FORWARD,
        value: tuple[int, str] | None = None,
    ) -> None:
        """Record numbers that belong to the step: of ``value``, or that were never a tensor."""
        with self._lock:
            self._has_loss |= role is Role.LOSS
            stored = self._writer.store(array)
            record = self._add(
                module=0,
                call=None,
                phase=phase,
                role=role,
                slot=slot,
                order=self._next(),
                shape=tuple(array.shape),
                value=stored,
            )
            if self._program is not None:
                self._program.add_end(record, value, stored)

    def record_named(self, role: Role, slot: str, tensor: Tensor) -> None:
        """Record a tensor that belongs to the step, at the root module."""
        with self._lock:
            self._has_loss |= role is Role.LOSS
            content = self._contents.store(tensor)
            record = self._add(
                module=0,
                call=None,
                phase=Phase.FORWARD,
                role=role,
                slot=slot,
                order=self._next(),
                shape=content.shape,
                value=content.stored,
                requires_grad=self._adapter.requires_grad(tensor),
                layout=self._adapter.layout(tensor),
            )
            self._border(record, tensor, content.stored)

    # -- events

    @contextmanager
    def _left_out(self) -> Iterator[None]:
        """Record nothing while the framework only tries the model."""
        before, self.is_paused = self._is_paused, True
        try:
            yield
        finally:
            self.is_paused = before

    def _entered(self) -> None:
        """Record weights before anything else that is hooked to a call: it may gather them."""
        is_looked_at = self._closed or self._is_paused or self._state.is_recorded
        if is_looked_at or self._adapter.in_backward():
            return
        with self._lock:
            self._records += self._state.record(
                self._writer, self._next(), backward=self._backward, program=self._program
            )

    def _backward_begins(self, loss: Tensor) -> None:
        """Note the number that a backward pass of what the model gave begins at."""
        is_looked_at = not (self._closed or self._is_paused) and self._calls
        if not is_looked_at or self._adapter.in_backward() or not self._is_tensor(loss):
            return
        with self._lock:
            array = self._adapter.snapshot(loss)
            if array.size == 1:
                self._losses.append((array.reshape(()), self.value_of(loss)))

    def _record_losses(self) -> None:
        """Record what backward passes began at, unless a loss was recorded by name."""
        if self._has_loss:
            return
        for place, (loss, value) in enumerate(self._losses):
            slot = "" if len(self._losses) == 1 else f"[{place}]"
            self.record_array(Role.LOSS, slot, loss, value=value)

    def _update_begins(self, optimizer: Optimizer) -> None:
        if self._is_trained_by(optimizer):
            self.update.begins(optimizer)

    def _update_ended(self, optimizer: Optimizer, is_changed: bool) -> None:
        if self._is_trained_by(optimizer):
            self.update.ended(optimizer, is_changed=is_changed)

    def _is_trained_by(self, optimizer: Optimizer) -> bool:
        """Return whether an optimizer changes the model, which was called before."""
        is_looked_at = not (self._closed or self._is_paused) and bool(self._calls)
        model = self._nodes[0].module
        return is_looked_at and trains(self._adapter.trainer, optimizer, model)

    def _before(
        self, module_id: int, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if self._closed or self._is_paused:
            self._draws.forget()
            return
        frame = _runner(sys._getframe(1))
        with self._ending.contained():
            self._begin_call(frame, module_id, module, args, kwargs)

    def _begin_call(
        self,
        frame: FrameType | None,
        module_id: int,
        module: Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        if self._adapter.in_backward():
            flat = flatten_call(args, kwargs, self._is_tensor)
            self._again(self._recomputed.begin(module_id, frame, flat), Role.INPUT, flat)
            return
        with self._lock:
            self._running.call(self._paths[module_id], self._calls_of_module.get(module_id, 0))
            parent = self._stack.parent(frame)
            if parent is None and self._program is not None:
                self._program.go_on()
            index = self._calls_of_module.get(module_id, 0)
            self._calls_of_module[module_id] = index + 1
            call = OpenCall(
                id=len(self._calls),
                module=module_id,
                index=index,
                parent=None if parent is None else parent.id,
                start=self._next(),
                training=self._adapter.is_training(module),
                site=self._site(frame, parent),
            )
            self._look_for_draws(call.parent, module_id, call.start)
            self._calls.append(call)
            self._stack.push(call, frame)
            flat = flatten_call(args, kwargs, self._is_tensor)
            self._record_flat(call, flat, Role.INPUT, Role.GRAD_INPUT, call.start)

    def _after(self, module_id: int, _module: Module, output: object) -> None:
        if not (self._closed or self._is_paused):
            with self._ending.contained():
                self._end_call(module_id, output)

    def _end_call(self, module_id: int, output: object) -> None:
        if self._adapter.in_backward():
            call = self._recomputed.end(module_id)
            self._again(call, Role.OUTPUT, flatten(output, self._is_tensor))
            return
        with self._lock:
            call = self._stack.pop(module_id)
            if call is None:
                return
            call.end = self._next()
            self._look_for_draws(call.id, module_id, call.end)
            flat = flatten(output, self._is_tensor)
            self._record_flat(call, flat, Role.OUTPUT, Role.GRAD_OUTPUT, call.end)
            self._goes_on(call.parent)
        if call.parent is None:
            self._record_result(output)

    def _record_result(self, output: object) -> None:
        """Record what a call that no other is around gives besides tensors in containers."""
        for slot, part in parts_of_result(output, self._is_tensor):
            if self._is_tensor(part):
                self.record_named(Role.RESULT, slot, part)
            else:
                self.record_array(Role.RESULT, slot, part)

    def _site(self, frame: FrameType | None, parent: OpenCall | None) -> SourceLine | None:
        if parent is None:
            return self._sources.of_caller(frame)
        return self._sources.of_caller(frame, around=self._stack.runner(), known=parent.site)

    def _look_for_draws(self, call: int | None, module: int, order: int) -> None:
        self._draws.look(call, order, is_own_code=self._own_code[module])

    def _goes_on(self, parent: int | None) -> None:
        if parent is None:
            self._running.between_calls()
        else:
            call = self._calls[parent]
            self._running.call(self._paths[call.module], call.index)

    def _again(self, call: OpenCall | None, role: Role, flat: Flat) -> None:
        """Look at what a repeated call takes or gives."""
        if call is not None and self._backward:
            with self._lock:
                self._recomputed.watch(call, flat, role)

    # -- records

    def _record_flat(
        self, call: OpenCall, flat: Flat, role: Role, gradient_role: Role, order: int
    ) -> None:
        for slot, value in flat.literals.items():
            call.literals[f"{role}{slot}"] = value
        for slot, name in flat.containers.items():
            call.containers[f"{role}{slot}"] = name
        for slot, tensor in flat.tensors:
            content = self._contents.store(tensor)
            needs_gradient = self._adapter.requires_grad(tensor)
            record = self._add(
                module=call.module,
                call=call.id,
                phase=Phase.FORWARD,
                role=role,
                slot=slot,
                order=order,
                shape=content.shape,
                value=content.stored,
                requires_grad=needs_gradient,
                layout=self._adapter.layout(tensor),
            )
            is_input = role is Role.INPUT
            kind = LeafKind.INPUT if is_input and call.parent is None else None
            self._border(record, tensor, content.stored, kind, is_made=not is_input)
            if needs_gradient and self._backward:
                target = Target(
                    module=call.module,
                    call=call.id,
                    role=gradient_role,
                    slot=slot,
                    shape=content.shape,
                )
                self._gradients.watch(tensor, content.watched, target)
            if self._backward and self._adapter.is_floating(tensor):
                self._recomputed.expect(call, role, slot, content, in_graph=needs_gradient)

    def _border(
        self,
        record: int,
        tensor: Tensor,
        stored: Stored,
        kind: LeafKind | None = None,
        *,
        is_made: bool = False,
    ) -> None:
        if self._program is not None:
            self._program.border(record, tensor, stored, kind, is_made=is_made)

    def _add(self, **fields: Any) -> int:  # noqa: ANN401
        self._records += 1
        return self._writer.add_record(**fields)


def _runner(frame: FrameType | None) -> FrameType | None:
    """Return the framework's frame that runs the call: the first one outside the adapter.

    An adapter that replaces a method runs the call itself, by a function of this name.
    """
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_ADAPTERS):
        if frame.f_code.co_name == RUNS_CALL:
            return frame
        frame = frame.f_back
    return frame
