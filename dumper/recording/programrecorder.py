"""The program of one step while it runs: which operator took and made which values."""

from __future__ import annotations

import math
import sys
import weakref
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumper.operators import DrawingInside
from padiff.dumpfile import (
    DRAWN,
    Argument,
    LeafKind,
    Mode,
    Opaque,
    ProgramBuilder,
    Slice,
    ValueRef,
)
from padiff.program import TABLES

from .followed import Followed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType

    from padiff.dumper.adapter import Adapter, Handle, Tensor
    from padiff.dumper.operators import Operators
    from padiff.dumpfile import Content, SourceLine, StepWriter, Stored

    from .callstack import CallStack
    from .construction import Construction
    from .contents import Contents
    from .followed import Taken
    from .ownwork import OwnWork
    from .source import Sources

    Stamp = tuple[Hashable, tuple[int, ...]]

MOST_TEXT = 200
"""Longest text kept of an argument."""
MOST_PARTS = 4096
"""Most parts kept of one argument without tensors; a longer list is data, not an argument."""
OVERWRITE = "padiff.overwrite"
"""Operator that stands for a change of a tensor through memory that it shares with another."""
_OF_MODEL = frozenset({"mean_loss", "select_member", "stack_members"})
"""Functions of the recorder that compute what the model, or its loss, does."""
_TELLING = 2
"""Elements from which on an equal content is no accident."""
_HELD = frozenset({LeafKind.PARAMETER, LeafKind.BUFFER, LeafKind.GRADIENT, LeafKind.STATE})
"""Leaves that each model has of its own, or makes."""
_COMPUTED = frozenset({LeafKind.BUFFER, LeafKind.CONSTANT})
"""Leaves that may have been computed while the model was built."""
RESULT = "->"
"""Keyword under which a number that was read out of a tensor is kept."""


@dataclass(slots=True, kw_only=True)
class _View:
    """How a tensor was made that shares its memory with an argument."""

    name: str
    arguments: tuple[tuple[str | None, Argument], ...]
    source: weakref.ref[Any]
    source_value: int
    is_apart: bool
    """Whether it has an in-place counter of its own, as what ``data`` returns and its views."""
    parts: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Dtypes and shapes of all outputs where there are several, such as of ``chunk``."""
    place: int = 0
    """Which of them it is."""


@dataclass(slots=True)
class _Live:
    """A tensor object that is a value of the program, as long as neither is another."""

    reference: weakref.ref[Any]
    stamp: Stamp
    """Version and sizes that it had."""
    value: int
    digest: str
    """Of its elements; empty if they are still on their way."""
    view: _View | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What the name of an operator tells of it."""

    is_plain: bool
    is_wait: bool
    sends: bool
    may_draw: bool
    is_choosing: bool
    """Whether it leaves open which of equal elements comes first."""
    is_backward: bool
    """Whether it gives gradients, which no program makes again."""
    is_unscaling: bool
    """Whether it takes the scale of a loss off gradients."""
    has_rule: bool
    """Whether a comparison can execute it; else what it makes is a leaf."""


class ProgramRecorder:
    """Receives a framework's operators within one step and collects them."""

    _is_again = False
    """Whether modules were called after a backward pass: it was not the last of the step."""
    _is_deriving = False
    """Whether an operator runs that gives gradients: those are none of the backward pass."""

    _is_spread = False
    """Whether a tensor was met that is spread over processes."""
    is_paused = False
    """Whether what runs is no part of the step."""
    _is_updating = False
    """Whether the operator that is being recorded belongs to the update."""
    holes = 0
    """Floating-point values that came from nowhere."""
    failure = ""
    """Why the program ended before the step did; it is left out then."""

    def __init__(  # noqa: PLR0913
        self,
        adapter: Adapter,
        operators: Operators,
        writer: StepWriter,
        contents: Contents,
        sources: Sources,
        *,
        lock: OwnWork,
        calls: CallStack,
        backward: bool,
        taken: Callable[[], Iterable[Taken]] = tuple,
        builder: ProgramBuilder | None = None,
        built: Construction | None = None,
        guard: Callable[[Callable[..., None]], Callable[..., None]] = lambda hook: hook,
    ) -> None:
        """Begin a program without operators.

        Args:
            adapter: The model's framework.
            operators: Its operators.
            writer: Where elements go, and the program in the end.
            contents: Stores tensors, each content once.
            sources: Finds the user's lines.
            lock: Held while anything of the step is recorded.
            calls: The module calls that run, in each thread.
            backward: Whether the gradients of all values are wanted.
            taken: Lists what the update of the weights takes.
            builder: Collects the program; None makes one.
            built: How buffers and constants of the model were made, if that is known.
            guard: Makes a hook harmless.
        """
        self._arrive = guard(self._arrived)
        self._adapter, self._operators = adapter, operators
        self._table = TABLES.get(adapter.name)
        self._hook, self._local, self._dtype = adapter.hook_gradient, adapter.local, operators.dtype
        self._is_recordable, self.stamp = operators.is_recordable, operators.stamp
        """Returns what tells whether a tensor was changed in place."""
        self._writer, self._contents, self._sources = writer, contents, sources
        self._inner, self._lone = writer.inner_content, writer.leaf_content
        self._lock, self._current_call = lock, calls.running
        self._backward, self._requires_grad = backward, adapter.requires_grad
        self._builder, self._built = builder or ProgramBuilder(), built
        self._leaves: dict[tuple[str, tuple[int, ...]], Stored] = {}
        """Buffers and constants, by what they hold."""
        self._kinds: dict[str, _Kind] = {}
        """What is known of operators by their names."""
        self._live: dict[int, _Live] = {}
        self._by_content: dict[tuple[int, ...], dict[str, int]] = defaultdict(dict)
        """Values by their shape and their digest."""
        self._own: set[int] = set()
        """Values that are leaves of the model's own, or what an optimizer keeps."""
        self._written: dict[Hashable, list[int]] = {}
        """Values that were written in place, by their memory, in order."""
        self._handles: list[Handle] = []
        self._met: dict[int, tuple[weakref.ref[Any] | None, int]] = {}
        """Leaves met outside all modules, by the identity of the tensor: it may be a weight."""
        self._watched: dict[int, tuple[int, ...] | None] = {}
        """Values whose gradient is awaited, with its shape where they are spread over processes."""
        self._unreached: set[int] = set()
        """Values that operators of the forward pass made, and that await their first gradient."""
        self._is_closed = self._has_gradients = self._is_building = False
        self._followed = Followed(taken, self._memory_of, self._is_made)
        self._pending: set[int] = set()
        """Values that a collective is still making: stored when something takes them."""
        self._bare: set[int] = set()
        """Values of the update of which nothing is stored."""
        writer.add_program(self._builder)

    def watch(self) -> AbstractContextManager[object]:
        """Return the context in which operators are recorded."""
        return self._operators.watch(self.run)

    def watch_building(self) -> AbstractContextManager[object]:
        """Return the context in which operators are recorded while a model is built."""
        self._is_building = True
        return self._operators.watch_building(self.run)

    def living(self) -> Iterator[tuple[Tensor, int]]:
        """Yield the tensors that are still there and unchanged, with their values."""
        for entry in list(self._live.values()):
            tensor = entry.reference()
            is_there = tensor is not None and entry.stamp == self.stamp(tensor)
            if is_there and self._is_recordable(tensor):
                yield tensor, entry.value

    def finish(self) -> None:
        """Add how buffers and constants were made, behind everything else."""
        if self._built is not None and not self.failure:
            self._built.add_to(self._builder, self._leaves)

    def watch_thread(self) -> AbstractContextManager[object]:
        """Return the context in which operators of another thread are recorded meanwhile."""
        return self._operators.watch_thread(self.run)

    def stop(self) -> None:
        """Record nothing from here on."""
        self._is_closed = True

    def expect_update(self) -> None:
        """Look anew at what an update takes, since an optimizer has become known only now."""
        self._followed.is_outdated = True

    def go_on(self) -> None:
        """Take what follows for a forward pass again, as of the next micro-batch.

        Called as a module is, with no other around it. What takes a gradient of a weight outside
        any module is of the update all the same: the call was one more look at the model then.
        """
        if self._has_gradients and not self._operators.mode() & Mode.NO_GRAD:
            self._has_gradients, self._is_again = False, True

    def detach(self) -> None:
        """Let go of all tensors and hooks; nothing is recorded afterwards."""
        self.stop()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._live.clear()
        self._by_content.clear()
        self._met.clear()
        self._followed.clear()
        self._arrive = _ignore  # the hook refers back

    def border(
        self,
        record: int,
        tensor: Tensor,
        stored: Stored,
        kind: LeafKind | None = None,
        *,
        is_made: bool = False,
        name: str = "",
    ) -> None:
        """State that a record holds what a tensor holds now. Called under the lock.

        Args:
            record: Its id.
            tensor: A value of the program, or a leaf from now on.
            stored: The record's elements.
            kind: Which kind of leaf; None if that is not known. A parameter or buffer gets its
                name from the record.
            is_made: Whether a module returned it, so that something has computed it.
            name: Of a parameter or buffer, in case that it was changed before.
        """
        self._is_updating = False
        entry = self._settled(tensor) or self._value(tensor, kind, stored, is_made=is_made)
        own = self._local(tensor)
        if kind is not None and entry is not None and entry.digest not in ("", stored.digest):
            del self._live[id(own)]  # it was changed unseen since something took it
            entry = self._value(tensor, kind, stored)
        if entry is not None:
            self._builder.add_border(record, entry.value)
            met, value = self._met.pop(id(own), (None, 0))
            if kind is not None and met is not None and met() is own:
                self._builder.set_kind(value, kind)
                if value != entry.value:
                    self._builder.set_name(value, name)

    def end_of(self, tensor: Tensor) -> tuple[int, str] | None:
        """Return the value that a tensor holds now, and the digest that it has, if it is known.

        None for a tensor that no operator took, or that was changed unseen.
        """
        tensor = self._local(tensor)
        entry, stamp = self._live.get(id(tensor)), self.stamp(tensor)
        if entry is None or entry.reference() is not tensor:
            entry = self._alike(tensor, stamp)
        return None if entry is None or entry.stamp != stamp else (entry.value, entry.digest)

    def end_of_step(self, tensor: Tensor) -> tuple[int, str] | None:
        """Return the same as ``end_of``, of a tensor whose memory the update wrote, too."""
        own = self._local(tensor)
        entry, stamp = self._live.get(id(own)), self.stamp(own)
        is_written = entry is not None and entry.stamp != stamp and entry.stamp[0] is None
        if entry is not None and is_written and entry.reference() is own:
            self._is_updating = self._has_gradients
            self._refreshed(entry, own, stamp)
        return self.end_of(tensor)

    def add_end(self, record: int, end: tuple[int, str] | None, stored: Stored) -> None:
        """State that a record of the step's end holds a value.

        Args:
            record: Its id.
            end: What ``end_of`` returned.
            stored: The record's elements; with others than the value has it was changed unseen.
        """
        if end is not None and end[1] in ("", stored.digest):
            self._builder.add_border(record, end[0])
            self._builder.set_content(end[0], stored)

    def set_total(self, end: tuple[int, str] | None, stored: Stored) -> None:
        """State what all backward passes of the step together gave a value."""
        if end is not None:
            self._builder.set_gradient(end[0], stored)

    def run(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:  # noqa: ANN401
        """Call a function of the framework and record it as an operator."""
        frame = sys._getframe(2)
        if self._is_left_out(frame, args, kwargs):
            self._outdate_unseen(name, args, kwargs)
            return function(*args, **kwargs)
        kind = self._kinds.get(name) or self._kind_of(name)
        if kind is None or (kind.is_unscaling and self._is_arriving(args)):
            return function(*args, **kwargs)
        if kind.is_wait:
            return self._awaited(name, function, args, kwargs)
        taken, drawn = None, None
        try:
            with self._lock:
                if self._is_updating:
                    self._begin_update()
                taken = (
                    _Taken(self, args, kwargs) if kind.is_plain else self._taken(name, args, kwargs)
                )
                if kind.may_draw:
                    drawn = self._adapter.random_state()
        except Exception as error:
            self._fail(name, error)
        before, self._is_deriving = self._is_deriving, kind.is_backward or self._is_deriving
        try:
            result = function(*args, **kwargs)
        finally:
            self._is_deriving = before
        if self._is_closed or taken is None or self._is_input(taken, args, kwargs):
            return result  # what it took could not be recorded, or is an input
        try:
            with self._lock:
                mode = self._operators.mode()
                if drawn is not None and self._has_drawn(
                    name, (args, kwargs), result, drawn, taken
                ):
                    mode |= _RANDOM
                self._add(name, kind, taken, result, mode, self._sources.of_caller(frame))
        except Exception as error:
            self._fail(name, error)
        return result

    def _has_drawn(
        self,
        name: str,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        made: object,
        before: Hashable,
        taken: _Taken,
    ) -> bool:
        """Return whether what an operator made was drawn; what it drew inside is an argument."""
        if given[1].get("generator") is not None:  # whose state nobody looks at
            return True
        if before == self._adapter.random_state():
            return False
        if not isinstance(self._operators, DrawingInside):
            return True
        inside = self._operators.drawn_inside(name, given, made, before)
        if inside is None:
            return True
        value = self._builder.add_value(
            dtype=self._dtype(inside),
            shape=self._operators.shape(inside),
            content=self._store(inside, self._lone),
            kind=LeafKind.RANDOM,
        )
        taken.arguments.append((DRAWN, ValueRef(value)))
        return False

    def _is_input(self, taken: _Taken, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether an operator only hands the model, or the loss, an array of numpy.

        What it makes is an input then, or the value that already holds these elements.
        """
        if taken.refs or self._is_building or self._is_updating or self._current_call() is not None:
            return False
        given = (*args, *kwargs.values())
        return any(isinstance(one, np.ndarray) and one.size >= _TELLING for one in given)

    def _taken(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Taken:
        """Describe what an operator is called with that may write into it, or is a collective."""
        taken = _Taken(self, *self._operators.read_by(name, args, kwargs))
        written = self._operators.may_write(name, args, kwargs)
        taken.exposed = list(map(self._local, written))
        return taken

    def _kind_of(self, name: str) -> _Kind | None:
        """Return what a name tells of an operator, and remember it; None where that fails."""
        operators = self._operators
        is_plain = getattr(operators, "is_plain", None)  # adapters of others may lack it
        is_unscaling = getattr(operators, "is_unscaling", None)  # and this
        try:
            with self._lock:
                self._kinds[name] = _Kind(
                    is_plain=is_plain is not None and is_plain(name),
                    is_wait=operators.is_wait(name),
                    sends=operators.sends(name),
                    may_draw=operators.may_draw(name),
                    is_choosing=name.rpartition(".")[2] in _CHOOSING,
                    is_backward=name.rpartition(".")[2] == "grad",
                    is_unscaling=is_unscaling is not None and is_unscaling(name),
                    has_rule=self._table is None or name in self._table.names,
                )
        except Exception as error:
            self._fail(name, error)
        return self._kinds.get(name)

    def _awaited(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:  # noqa: ANN401
        """Wait for a value that a collective makes; what comes back is that value."""
        result = function(*args, **kwargs)
        try:
            with self._lock:
                given, made = (_tensors_in(one, self._adapter.is_tensor) for one in (args, result))
                for tensor, other in zip(given, made, strict=False):
                    entry = self._value(tensor)
                    own = self._local(other)
                    if entry is not None and entry.reference() is not own:
                        self._keep(own, entry.value, self.stamp(own), None, None)
        except Exception as error:
            self._fail(name, error)
        return result

    def _fail(self, name: str, error: Exception) -> None:
        """End the program, not the user's run, where an operator cannot be recorded."""
        with self._lock:
            self.failure = f"{name}: {type(error).__name__}: {error}"[:MOST_TEXT]
            self._writer.add_program(None)
            self.detach()

    def _is_left_out(self, frame: FrameType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether an operator is none of the forward pass, the loss or the update."""
        if (
            self._is_closed
            or self.is_paused
            or self._lock.is_going_on()
            or self._adapter.in_backward()
        ):
            return True
        caller = frame.f_globals.get("__name__", "")
        if caller.startswith("padiff.dumper.") and frame.f_code.co_name not in _OF_MODEL:
            return True
        # Between the last backward pass and the next step: clipping, the optimizer, and much else.
        is_outside = self._current_call() is None
        if self._has_gradients and is_outside and self._reads_unreached(args, kwargs):
            self.go_on()
        if self._is_again and is_outside and not self._has_gradients:
            self._has_gradients = self._is_of_update(args, kwargs, by_gradient=True)
        self._is_updating = self._has_gradients and is_outside
        return self._is_updating and not self._is_of_update(args, kwargs)

    def _reads_unreached(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether an operator reads what no backward pass has reached: another one follows.

        So the loss of a generator rests on what it made ahead of the discriminator's update.
        """
        if not self._unreached or self._operators.mode() & Mode.NO_GRAD:
            return False
        given = _tensors_in((*args, *kwargs.values()), self._adapter.is_tensor)
        found = ((one, self._live.get(id(one))) for one in map(self._local, given))
        return any(
            entry is not None and entry.reference() is one and entry.value in self._unreached
            for one, entry in found
        )

    # -- the update

    def _is_of_update(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], *, by_gradient: bool = False
    ) -> bool:
        """Return whether an operator takes what the update is made of, or a gradient of that."""
        try:
            with self._lock:
                return self._followed.concerns(args, kwargs, by_gradient=by_gradient)
        except Exception as error:
            self._fail("update", error)
            return False

    def _begin_update(self) -> None:
        """Make leaves of what the update takes, if gradients have arrived since this was done."""
        for one in self._followed.leaves():
            if one.kind is LeafKind.PARAMETER or not self._is_recordable(one.tensor):
                continue
            if self.end_of(one.tensor) is None:
                self._live.pop(id(one.tensor), None)
                self._value(one.tensor, one.kind, name=one.name)

    def _is_arriving(self, args: tuple[Any, ...]) -> bool:
        """Return whether nothing took these gradients yet: they arrive as they are unscaled.

        What was stored of them is forgotten, since their elements change and their version may not.
        """
        try:
            with self._lock:
                gradients = [self._local(one) for one in _tensors_in(args, self._adapter.is_tensor)]
                if any(self.end_of(one) is not None for one in gradients):
                    return False
                for one in gradients:
                    self._contents.forget(one)
        except Exception as error:
            self._fail("update", error)
        return True

    def _is_made(self, thing: object) -> bool:
        """Return whether an operator of the update made a tensor."""
        if not self._adapter.is_tensor(thing):
            return False
        own = self._local(thing)
        entry = self._live.get(id(own))
        return entry is not None and entry.value in self._bare and entry.reference() is own

    def _memory_of(self, thing: object) -> Hashable | None:
        """Return what tells memory and shape of a tensor, None for what has none."""
        if not self._adapter.is_tensor(thing) or not self._is_recordable(thing):
            return None
        return self._operators.memory(thing), self._operators.shape(thing)

    def _alike(self, tensor: Tensor, stamp: Stamp) -> _Live | None:
        """Return what is known of a gradient of which this is another object."""
        other = self._followed.same(tensor)
        entry = None if other is None else self._live.get(id(other))
        return None if entry is None or entry.stamp != stamp else entry

    # -- one operator

    def _add(
        self,
        name: str,
        kind: _Kind,
        taken: _Taken,
        result: object,
        mode: int,
        site: SourceLine | None,
    ) -> None:
        wholes = self._made(result)
        if taken.is_spread or self._is_spread:
            mode |= _SPREAD
        results = made = [own for own, _ in wholes.values()]
        stamp, written = self.stamp, frozenset[int]()
        changed = [one for one, entry in taken.refs if stamp(one) != entry.stamp]
        if changed or taken.exposed:
            changed = self._changed(changed, taken.exposed)
        if changed:
            mode |= _IN_PLACE
            written = frozenset(map(id, changed))
            self._outdate(changed)
            fresh = [one for one in changed if id(one) not in wholes]
            results = made + [one for one in fresh if not self._follows(one, changed, made)]
        elif not made and not kind.sends:
            if not taken.refs or result is None:
                return
            taken.arguments.append((RESULT, self.argument(result, {})))
        is_pending = not kind.is_plain and self._operators.is_pending(name, result)
        outputs, parts = [], None
        for place, tensor in enumerate(results):
            is_written = id(tensor) in written
            view = self._kept_view(tensor) if is_written else taken.view_of(name, tensor)
            if view is not None and len(made) > 1 and not is_written:
                parts = parts or self._parts(made)
                view.parts, view.place = parts, place
            _, whole = wholes.get(id(tensor), (tensor, tensor))
            is_kept = (
                not (taken.refs and kind.has_rule)
                or kind.is_backward
                or (kind.is_choosing and self._is_index(tensor))
            )
            value = self._output(
                tensor, whole, mode, view=view, is_pending=is_pending, is_kept=is_kept
            )
            outputs.append(value)
        call = self._current_call()
        mode |= _UPDATE if self._is_updating else 0
        self._builder.add_operator(name, taken.arguments, outputs, call=call, mode=mode, site=site)
        for tensor in results if written else ():
            if id(tensor) in written:
                memory = self._operators.memory(tensor)
                self._written.setdefault(memory, []).append(self._live[id(tensor)].value)

    def _outdate(self, changed: Sequence[Tensor]) -> None:
        """Look anew at what shares the memory of tensors that were written past its counter."""
        written = {id(one): self._kept_view(one) for one in changed}
        apart = [one for one in changed if (view := written[id(one)]) and view.is_apart]
        if self._is_updating:  # what optimizers write so is many, and is seldom looked into else
            for one in apart:
                self._outdate_source(one)
            return
        places = {self._operators.memory(one) for one in apart}
        for entry in self._live.values():
            one = entry.reference()
            if one is None or not self._is_recordable(one):
                continue
            if self._operators.memory(one) in places:
                self._contents.forget(one)
                entry.stamp = entry.stamp if id(one) in written else (None, entry.stamp[1])

    def _outdate_unseen(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Look anew at what an operator may write that is left out, as another model's update."""
        if self._is_closed or self._lock.is_going_on() or not self._is_updating:
            return
        try:
            with self._lock:
                for one in map(self._local, self._operators.may_write(name, args, kwargs)):
                    self._mark_outdated(one)
        except Exception as error:
            self._fail(name, error)

    def _mark_outdated(self, tensor: Tensor) -> _Live | None:
        """Look anew at a tensor whose memory is written past its counter, if it is known."""
        entry = self._live.get(id(tensor))
        if entry is not None:
            self._contents.forget(tensor)
            entry.stamp = None, entry.stamp[1]
        return entry

    def _outdate_source(self, tensor: Tensor) -> None:
        """Look anew at what a view is of, and at what that is a view of."""
        entry = self._live.get(id(tensor))
        while entry is not None and entry.view is not None:
            source = entry.view.source()
            entry = None if source is None else self._mark_outdated(source)

    def _is_index(self, tensor: Tensor) -> bool:
        return self._dtype(tensor) in {"int32", "int64"}

    def _changed(self, changed: list[Tensor], exposed: Sequence[Tensor]) -> list[Tensor]:
        """Return the tensors that an operator wrote into."""
        changed += self._written_unseen(exposed)
        gone = [one for one in changed if not self._is_recordable(one)]
        for one in gone:  # it is spread over processes now
            self._live.pop(id(one), None)
        return [one for one in changed if not any(one is other for other in gone)]

    def _made(self, result: object) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the tensors that an operator returned, by the identity of their local tensor.

        Each with the local tensor before it.
        """
        found, is_recordable = {}, self._is_recordable
        for whole in _tensors_in(result, self._adapter.is_tensor):
            own = self._local(whole)
            if is_recordable(own):
                found[id(own)] = own, whole
                if own is not whole:
                    self._note_layout(whole, own)
        return found

    def _parts(self, made: list[Tensor]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Return dtypes and shapes of several outputs."""
        return tuple((self._dtype(one), self._operators.shape(one)) for one in made)

    def _kept_view(self, tensor: Tensor) -> _View | None:
        """Return what a tensor that was written in place is a view of, if it is one still."""
        entry = self._live.get(id(tensor))
        is_same = (
            entry is not None
            and entry.reference() is tensor
            and entry.stamp[1] == self.stamp(tensor)[1]
        )
        return entry.view if entry is not None and is_same else None

    def _follows(self, tensor: Tensor, changed: list[Tensor], made: list[Tensor]) -> bool:
        """Return whether a tensor is a view that changed along: it is taken again when needed."""
        entry = self._live.get(id(tensor))
        view = None if entry is None else entry.view
        source = None if view is None else view.source()
        if source is None:
            return False
        memory = self._operators.memory
        return any(one is source for one in changed) or any(
            memory(one) == memory(tensor) for one in made
        )

    def _written_unseen(self, exposed: Sequence[Tensor]) -> list[Any]:
        """Return the tensors that an operator changed without another version of them."""
        found = []
        for tensor in exposed:
            entry = self._live.get(id(tensor))
            if entry is None or entry.reference() is not tensor:
                if self._is_recordable(tensor):
                    found.append(tensor)  # a buffer of which nothing was taken
                continue
            if entry.stamp != self.stamp(tensor):
                continue
            self._contents.forget(tensor)
            if (
                self._is_updating
                or self._operators.writes_surely
                or not entry.digest
                or self._store(tensor, self._inner).digest != entry.digest
            ):
                del self._live[id(tensor)]
                found.append(tensor)
        return found

    def _output(
        self,
        tensor: Tensor,
        whole: Tensor,
        mode: int,
        *,
        view: _View | None,
        is_pending: bool,
        is_kept: bool,
    ) -> int:
        """Return the value that an operator made, or handed through.

        Args:
            tensor: With the elements that this process holds.
            whole: What the framework returned; its gradient is awaited.
            mode: How it ran.
            view: How the tensor is a view, if it is one.
            is_pending: Whether its elements are still on their way.
            is_kept: Whether its elements cannot be made again, so that they are a leaf's.
        """
        entry = self._live.get(id(tensor))
        stamp = self.stamp(tensor)
        if entry is not None and entry.reference() is tensor and entry.stamp == stamp:
            return entry.value
        is_random = bool(mode & _RANDOM)
        shape, stored = stamp[1], None
        if not is_pending and (not self._is_updating or is_random):
            if view is not None and self._operators.memory(tensor) in self._written:
                self._contents.forget(tensor)  # versions of views do not count all writes
            stored = self._store(tensor, self._lone if is_random or is_kept else self._inner)
        value = self._builder.add_value(
            dtype=self._dtype(tensor),
            shape=shape,
            content=stored,
            kind=LeafKind.RANDOM if is_random else None,
        )
        self._keep(tensor, value, stamp, stored, view)
        if is_pending and not self._is_updating:
            self._pending.add(value)
        if self._is_updating:
            self._bare.add(value)
            other = self._followed.same(tensor)
            if other is not None and other is not tensor:
                self._keep(other, value, self.stamp(other), stored, None)
            return value
        self._watch_gradient(value, whole, tensor)
        if value in self._watched:
            self._unreached.add(value)
        return value

    def _watch_gradient(self, value: int, tensor: Tensor, own: Tensor) -> None:
        """Wait for the gradient of a value, once it is known that there will be one."""
        if self._backward and value not in self._watched and self._requires_grad(tensor):
            self._watched[value] = None if own is tensor else self._operators.shape(tensor)
            self._handles.append(self._hook(tensor, partial(self._arrive, value)))

    def _arrived(self, value: int, gradient: Tensor) -> None:
        if self._is_closed or self._is_deriving:
            return
        self._unreached.discard(value)
        with self._lock:  # outside, torch would pass each look at the gradient on as a call
            if not self._is_recordable(gradient):
                return
            # One that was computed to be differentiated is part of a function, as of a penalty.
            self._has_gradients = getattr(gradient, "grad_fn", None) is None
            self._followed.is_outdated = True
            shape = self._watched[value]
            if shape is not None and self._operators.shape(gradient) != shape:
                return  # it lies otherwise over processes than the value
            stored = self._contents.store_gradient(gradient, self._inner).stored
            self._builder.add_gradient(value, stored)

    # -- values

    def _value(
        self,
        tensor: Tensor,
        kind: LeafKind | None = None,
        stored: Stored | None = None,
        name: str = "",
        *,
        is_made: bool = False,
    ) -> _Live | None:
        """Return the value that a tensor holds now; what nothing made is a leaf from now on.

        None for a tensor without elements of its own.
        """
        whole, tensor = tensor, self._local(tensor)
        entry = self._live.get(id(tensor))
        stamp = self.stamp(tensor)
        if entry is None or entry.reference() is not tensor:
            entry = self._alike(tensor, stamp)
            if entry is not None:
                return self._keep(tensor, entry.value, stamp, None, None)
        if entry is not None and entry.reference() is tensor:
            return self._as_now(entry, tensor, whole, stamp)
        if not self._is_recordable(tensor):
            return None
        stored = stored or self._store(tensor, None)
        key = stored.digest, stamp[1]
        found = None if kind is not None else self._by_content[key[1]].get(key[0])
        if found in self._own and self._is_filled(tensor):
            found = None  # zeros are no bias, because that is zero, too
        if found is None:
            kind = kind or self._leaf_kind(tensor, key, is_made=is_made)
            if kind not in _HELD:
                stored = self._store(tensor, self._lone)
            found = self._add_leaf(tensor, kind, key, stored, name)
            if kind is LeafKind.INPUT:
                self._met[id(tensor)] = weakref.ref(tensor), found
        if not self._is_updating:
            self._watch_gradient(found, whole, tensor)
        return self._keep(tensor, found, stamp, stored, None)

    def _settled(self, thing: object) -> _Live | None:
        """Return what is known of a tensor for which there is nothing to do, as for most."""
        entry = self._live.get(id(thing))
        if (
            entry is None
            or entry.reference() is not thing
            or entry.stamp != self.stamp(thing)
            or entry.value in self._bare
            or self._pending
        ):
            return None
        is_awaited = entry.value in self._watched or not self._backward
        return entry if is_awaited or not self._requires_grad(thing) else None

    def _as_now(
        self,
        entry: _Live,
        tensor: Tensor,
        whole: Tensor,
        stamp: Stamp,
    ) -> _Live:
        """Return the value that a known tensor holds now."""
        if entry.value in self._pending:
            entry.stamp = stamp  # it may be another one since the elements have come
        if entry.stamp != stamp:
            return self._refreshed(entry, tensor, stamp)
        value = entry.value
        is_complete = value in self._watched and value not in self._bare and not self._pending
        if not (is_complete or self._is_updating):
            self._taken_again(value, whole, tensor)
        return entry

    def _add_leaf(
        self,
        tensor: Tensor,
        kind: LeafKind,
        key: tuple[str, tuple[int, ...]],
        stored: Stored,
        name: str,
    ) -> int:
        """Add what no operator of the step made."""
        self.holes += kind is LeafKind.HOLE
        if kind in _COMPUTED:
            self._leaves[key] = stored
        value = self._builder.add_value(
            dtype=self._dtype(tensor), shape=key[1], content=stored, kind=kind, name=name
        )
        if kind in _HELD:
            self._own.add(value)
        return value

    def _is_filled(self, tensor: Tensor) -> bool:
        """Return whether all elements of a tensor are the same."""
        array = self._adapter.snapshot(tensor)
        return bool((array == array.flat[:1]).all())

    def _taken_again(self, value: int, tensor: Tensor, own: Tensor) -> None:
        """Store a value of the update that a forward pass takes, or one that has just arrived.

        Wait for its gradient, too.
        """
        if value in self._bare or value in self._pending:
            self._pending.discard(value)
            self._builder.set_content(value, self._store(tensor, None))
        if value not in self._watched:
            self._watch_gradient(value, tensor, own)

    def _leaf_kind(
        self, tensor: Tensor, key: tuple[str, tuple[int, ...]], *, is_made: bool
    ) -> LeafKind:
        """Return what a tensor is that no operator of this step made."""
        if self._is_updating or not self._adapter.is_floating(tensor):
            return LeafKind.CONSTANT
        if self._current_call() is None and not is_made:
            return LeafKind.INPUT
        is_built = self._built is not None and key in self._built.made
        return LeafKind.CONSTANT if is_built else LeafKind.HOLE

    def _refreshed(self, entry: _Live, tensor: Tensor, stamp: Stamp) -> _Live:
        """Return the new value of a tensor whose memory was changed through another one."""
        name = OVERWRITE
        arguments: tuple[tuple[str | None, Argument], ...] = ((None, ValueRef(entry.value)),)
        view, source = entry.view, None if entry.view is None else entry.view.source()
        content: Content | None = None
        if view is not None and source is not None:
            now = self._value(source)
            if now is not None and now.value != view.source_value:
                name, content = view.name, self._inner
                arguments = _replaced(view.arguments, view.source_value, now.value)
                view = replace(view, arguments=arguments, source_value=now.value)
        if name == OVERWRITE:
            written = self._written.get(self._operators.memory(tensor), ())
            since = (one for one in written if one > entry.value)
            arguments = (*arguments, *((None, ValueRef(one)) for one in since))
        stored = self._store(tensor, content)
        value = self._builder.add_value(
            dtype=self._dtype(tensor),
            shape=self._operators.shape(tensor),
            content=stored,
        )
        outputs = [value]
        if view is not None and view.parts and name != OVERWRITE:
            outputs = [
                value
                if place == view.place
                else self._builder.add_value(dtype=one, shape=shape, content=None)
                for place, (one, shape) in enumerate(view.parts)
            ]
        mode = Mode.UPDATE if self._is_updating else 0
        self._builder.add_operator(name, arguments, outputs, call=self._current_call(), mode=mode)
        self._watch_gradient(value, tensor, tensor)
        return self._keep(tensor, value, stamp, stored, view)

    def _keep(
        self,
        tensor: Tensor,
        value: int,
        stamp: Stamp,
        stored: Stored | None,
        view: _View | None,
    ) -> _Live:
        digest = "" if stored is None else stored.digest
        entry = _Live(weakref.ref(tensor), stamp, value, digest, view)
        self._live[id(tensor)] = entry
        if digest and math.prod(stamp[1]) >= _TELLING:
            self._by_content[stamp[1]][digest] = value
        return entry

    def _store(self, tensor: Tensor, content: Content | None) -> Stored:
        return self._contents.store(tensor, content).stored

    # -- arguments

    def argument(self, thing: object, refs: dict[int, tuple[Any, _Live]]) -> Argument:
        """Return an argument as a program holds it.

        Args:
            thing: What the framework's function got.
            refs: The tensors in it and their values, by the identity of the tensor; added to.
        """
        if type(thing) in _PLAINEST:
            plain: Argument = thing  # type: ignore[assignment]
            return plain
        entry = self._settled(thing)
        if entry is not None:
            refs[id(thing)] = thing, entry
            return ValueRef(entry.value)
        if id(thing) in refs or self._adapter.is_tensor(thing):
            return self._reference(thing, refs)
        if isinstance(thing, (tuple, list)):
            return self._sequence(thing, refs)
        return self._other(thing, refs)

    def _other(self, thing: object, refs: dict[int, tuple[Any, _Live]]) -> Argument:
        if isinstance(thing, _PLAIN):
            return _plain(thing)
        if isinstance(thing, slice):
            parts = (thing.start, thing.stop, thing.step)
            return Slice(*(self.argument(part, refs) for part in parts))
        if isinstance(thing, Mapping):  # last, as to ask an abstract class takes long
            return {str(key): self.argument(part, refs) for key, part in thing.items()}
        return self._operators.argument(thing)

    def _reference(self, tensor: Tensor, refs: dict[int, tuple[Any, _Live]]) -> Argument:
        own = self._local(tensor)
        self._note_layout(tensor, own)
        found = refs.get(id(own))
        if found is None:
            entry = self._value(tensor)
            if entry is None:
                return Opaque("<a tensor without elements of its own>")
            found = refs[id(own)] = own, entry
        return ValueRef(found[1].value)

    def _note_layout(self, tensor: Tensor, own: Tensor) -> None:
        if own is not tensor and self._adapter.layout(tensor) is not None:
            self._is_spread = True

    def _sequence(self, thing: Sequence[object], refs: dict[int, tuple[Any, _Live]]) -> Argument:
        if len(thing) > MOST_PARTS:
            return Opaque(f"<{len(thing)} parts>")
        return tuple(self.argument(part, refs) for part in thing)


class _Taken:
    """What an operator was called with, described before it ran."""

    __slots__ = ("_memory", "arguments", "exposed", "is_spread", "refs")

    def __init__(
        self, recorder: ProgramRecorder, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._memory = recorder._operators.memory
        refs: dict[int, tuple[Any, _Live]] = {}
        argument = recorder.argument
        recorder._is_spread = False
        self.arguments: list[tuple[str | None, Argument]]
        self.arguments = [
            (None, thing if type(thing) in _PLAINEST else argument(thing, refs)) for thing in args
        ]
        """Each with its keyword."""
        if kwargs:
            self.arguments += [(key, argument(thing, refs)) for key, thing in kwargs.items()]
        self.is_spread = recorder._is_spread
        """Whether any tensor is spread over processes."""
        self.refs = refs.values()
        """Tensors with what they were."""
        self.exposed: Sequence[Any] = ()
        """Tensors that may be written while their version stays."""

    def view_of(self, name: str, tensor: Tensor) -> _View | None:
        """Return how a tensor is a view of one that was taken; None where it is none."""
        place = self._memory(tensor) if self.refs else None
        for source, entry in self.refs:
            if source is not tensor and self._memory(source) == place:
                kept = entry.view
                return _View(
                    name=name,
                    arguments=tuple(self.arguments),
                    source=entry.reference,
                    source_value=entry.value,
                    is_apart=name.endswith(".data") or (kept is not None and kept.is_apart),
                )
        return None


def _ignore(_value: int, _gradient: object) -> None:
    """Take a gradient that comes too late."""


_CHOOSING = frozenset({"argsort", "sort", "topk"})
"""The last names of operators that leave open which of equal elements comes first."""


_RANDOM, _SPREAD = int(Mode.RANDOM), int(Mode.SPREAD)
_IN_PLACE, _UPDATE = int(Mode.IN_PLACE), int(Mode.UPDATE)


_NUMBERS: tuple[Any, ...] = (bool, int, float, complex)
"""Subclasses of these become one of them."""
_PLAINEST = frozenset({bool, int, float, complex, type(None)})
_PLAIN = (bool, int, float, complex, str, bytes, type(None), EllipsisType, np.generic, np.ndarray)


def _plain(thing: Any) -> Argument:  # noqa: ANN401 - one of _PLAIN
    """Return plain data of Python or numpy."""
    if isinstance(thing, np.ndarray):
        if thing.size > MOST_PARTS or thing.dtype.kind not in "biufc":
            return Opaque(f"<array {thing.dtype} {thing.shape}>")
        return _nested(thing.tolist())
    if isinstance(thing, np.generic):
        return _plain(thing.item()) if isinstance(thing.item(), _PLAIN[:5]) else Opaque(str(thing))
    if isinstance(thing, (str, bytes)):
        return str(thing)[:MOST_TEXT]
    number = next((kind for kind in _NUMBERS if isinstance(thing, kind)), None)
    plain: Argument = thing if number is None else number(thing)
    return plain


def _nested(thing: Any) -> Argument:  # noqa: ANN401 - lists of numbers
    return tuple(map(_nested, thing)) if isinstance(thing, list) else thing


def _tensors_in(thing: object, is_tensor: Callable[[object], bool]) -> list[Any]:
    """Return the tensors inside nested tuples, lists and mappings, each once."""
    if is_tensor(thing):
        return [thing]
    found: dict[int, Any] = {}
    rest = [thing]
    while rest:
        part = rest.pop()
        if is_tensor(part):
            found.setdefault(id(part), part)
        elif isinstance(part, (tuple, list)):
            rest.extend(reversed(part))
        elif isinstance(part, Mapping):
            rest.extend(reversed(list(part.values())))
    return list(found.values())


def _replaced(
    arguments: tuple[tuple[str | None, Argument], ...], old: int, new: int
) -> tuple[tuple[str | None, Argument], ...]:
    """Return arguments of which those that are one value are another."""
    return tuple(
        (key, ValueRef(new) if argument == ValueRef(old) else argument)
        for key, argument in arguments
    )
