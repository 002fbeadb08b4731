"""Which model a script trains, and where its steps begin and end, seen from outside.

A step is everything from one call of the model to the next call after an update. So several
backward passes and several optimizers may make one step, and an update is seen as a whole
whatever the script does after it. Calls that only evaluate are not part of any step: those without
gradients, unless the model was called with them and waits for its update, and those in eval mode.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from padiff.dumper import adapters
from padiff.dumper.recording.recorder import Recorder
from padiff.dumper.trainer import trains
from padiff.dumper.watch import Arguments, nothing, watch_calls
from padiff.dumpfile import ConfigError, PadiffError, Phase, RecordError

from .feeding import StepInputs
from .loading import load_weights_into, loaded_setting
from .scriptmodel import Choice, Entered, entered, update_around

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from padiff.dumper.adapter import Adapter, Array, Handle, Model, Module, Tensor
    from padiff.dumper.recording.recordsettings import RecordSettings
    from padiff.dumper.trainer import Optimizer
    from padiff.pairing import WeightPlan

    from .feeder import Feeder
    from .runsettings import RunSettings


MOST_NAMES = 8
"""Classes that a message lists."""


class ScriptStopped(BaseException):
    """Leaves the script from inside; no ``except Exception`` of the script stops it."""


@dataclass(slots=True)
class _Nesting(threading.local):
    """What runs in a thread."""

    depth: int = 0
    """Calls of any module around this one."""
    is_inside: bool = False
    """Whether a call of the recorded model is running."""


@dataclass(slots=True)
class _Step:
    """What is known of the step that is running."""

    is_trained: bool = False
    """Whether the model was called to be trained."""
    in_training_mode: bool = False
    """Whether one of these calls was in training mode."""
    is_updated: bool = False
    is_fed: bool = False


class ScriptWatch:
    """Finds the model, then records it step by step. Use it as a context manager around the run."""

    def __init__(
        self,
        settings: RecordSettings,
        choice: Choice,
        *,
        stop: bool = False,
        seed: int | None = None,
        no_dropout: bool = False,
        given: RunSettings | None = None,
    ) -> None:
        """Note what to look for; nothing is watched before a framework is imported.

        Args:
            settings: What to record; its plan's steps are counted from 0 by updates.
            choice: Which model.
            stop: Whether to leave the script after the last recorded step.
            seed: For each framework when it is imported, with deterministic kernels.
            no_dropout: Whether to switch the model's dropout off.
            given: Sources of weights, inputs and outputs in place of the script's; None leaves
                them.
        """
        self._given = given
        self._provided: Provided | None = None
        self._fed = ExitStack()
        self._settings, self._choice = settings, choice
        self._stop, self._seed, self._no_dropout = stop, seed, no_dropout
        self._about: dict[str, Any] = {}
        self._exits = ExitStack()
        self._searches: list[Handle] = []
        self._nesting = _Nesting()
        self._met: dict[str, None] = {}
        self._adapter: Adapter | None = None
        self._models: tuple[Model, ...] = ()
        self._recorder: Recorder | None = None
        self._step = _Step()
        self._learns_in_training_mode = False
        self._by_hand: HandUpdates | None = None
        self._inside: frozenset[int] = frozenset()
        self._ours: dict[int, tuple[Optimizer, bool]] = {}
        self._is_over = False
        self._trouble: PadiffError | None = None

    def describe(self, *, command: Sequence[str], script: str) -> None:
        """Return what goes to the manifest."""
        self._about = {"command": command, "model": script, "seed": self._seed}

    def __enter__(self) -> ScriptWatch:
        """Do nothing yet."""
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401 - what ``with`` gives
        """Take everything off; an unfinished recording keeps its whole steps."""
        if self._recorder is not None and self._is_step_whole(self._recorder):
            with suppress(PadiffError):  # another error is on its way
                self._end_step(self._recorder)
        self._is_over = True
        self._stop_searching()
        self._fed.close()
        self._exits.__exit__(*error)

    def framework_imported(self, name: str) -> None:
        """Begin to look for a model of a framework."""
        if self._recorder is not None or name not in adapters.imported():
            return
        adapter = adapters.load(name)
        if self._seed is not None:
            adapter.seed(self._seed)
            adapter.trainer.make_deterministic()
        self._searches.append(
            adapter.watch.calls(None, lambda module: self._around_any(adapter, module))
        )

    def finish(self) -> Path:
        """End the recording with the script; give the dump.

        Raises:
            ConfigError: The script called no such model.
            RecordError: It never updated the model, or ended before the first step to record.
        """
        if self._trouble is not None:
            raise self._trouble
        recorder = self._recorder
        if recorder is None:
            raise self._not_found()
        is_whole = self._is_step_whole(recorder)
        if not is_whole and recorder.steps.number == 0 and not recorder.has_ended:
            raise RecordError(
                "cannot record steps: the script called the model and never updated it",
                hint="--phase forward takes each call of the model for a step",
            )
        if is_whole:
            self._end_step(recorder)
        self._is_over = True
        self._fed.close()
        if self._provided is not None:
            self._provided.describe(recorder)
        self._exits.close()
        return recorder.path

    # -- before the model is known

    @contextmanager
    def _around_any(self, adapter: Adapter, module: Module) -> Iterator[object]:
        """Look at the call of a module that may be the model."""
        nesting = self._nesting
        is_root = nesting.depth == 0
        nesting.depth += 1
        try:
            is_it = self._recorder is None and not self._is_over
            found = self._model_of(adapter, module, is_root=is_root) if is_it else None
            if found is not None:
                with self._guarded():
                    self._choose(adapter, found)
                with self._around(found.model) as given:
                    yield given
            else:
                yield None
        finally:
            nesting.depth -= 1

    def _model_of(self, adapter: Adapter, module: Module, *, is_root: bool) -> Entered | None:
        """Return the model that is entered by the call of a module, None if it is not the one."""
        if is_root:
            self._met.setdefault(type(module).__name__)
        is_named = self._choice.class_name is not None or self._choice.variable is not None
        if not (is_root or is_named) or adapter.in_backward():
            return None
        if self._settings.phase is not Phase.FORWARD and not adapter.watch.records_gradients():
            return None
        frame = sys._getframe()
        outer = entered(adapter, module, frame) if is_root else Entered(model=module)
        for found in dict.fromkeys((outer, Entered(model=module))):
            is_trained = self._settings.phase is Phase.FORWARD or bool(
                adapter.trainer.parameters(found.model)
            )
            if is_trained and self._choice.fits(adapter, found.model, frame):
                return found
        return None

    def _choose(self, adapter: Adapter, found: Entered) -> None:
        """Record this model from here on, and look for no other."""
        self._stop_searching()
        module = found.model
        inner = adapter.unwrap(module)
        notes = [found.note] if found.note else []
        if self._no_dropout:
            paths = adapter.trainer.forget_dropout(inner)
            notes.append(f"dropout was switched off in {len(paths)} modules (--no-dropout)")
        kept: dict[str, Any] = {}
        if self._given is not None:
            self._provided = Provided(self._given, adapter, inner)
            if found.methods and self._provided.has_inputs:
                raise ConfigError(
                    f"cannot feed {type(inner).__name__}: the script runs it by its "
                    f"{found.methods[0]}() and never calls it"
                )
            notes += self._provided.notes
            kept = self._provided.kept
        recorder = Recorder(module, replace(self._settings, raises=False), adapter)
        recorder.describe(**self._about, notes=notes, settings=kept)
        self._adapter, self._models = adapter, (inner, module)
        self._by_hand = HandUpdates(adapter, adapter.trainer.parameters(inner))
        handles = [
            adapter.watch.updates(self._update_begins, self._update_ended),
            adapter.watch.losses(nothing, self._backward_ended),
            *(adapter.watch.calls(kind, self._around) for kind in {type(inner), type(module)}),
            *(watch_calls(type(module), self._around, name) for name in found.methods),
            *self._watch_inside(adapter, found),
        ]
        for handle in handles:
            self._exits.callback(handle.remove)
        self._exits.enter_context(recorder)
        self._recorder = recorder

    def _watch_inside(self, adapter: Adapter, found: Entered) -> Iterator[Handle]:
        """Watch what is inside a model that is never called itself: evaluation enters there."""
        if found.methods:
            inside = [module for _, module in adapter.named_modules(found.model)][1:]
            self._inside = frozenset(map(id, inside))
            for kind in set(map(type, inside)):
                yield adapter.watch.calls(kind, self._around_inside)

    def _stop_searching(self) -> None:
        for handle in self._searches:
            handle.remove()
        self._searches.clear()

    def _not_found(self) -> ConfigError:
        met = ", ".join(list(self._met)[:MOST_NAMES])
        wanted = "" if self._settings.phase is Phase.FORWARD else " that can be trained"
        return ConfigError(
            f"cannot record the script: it called no module that is {self._choice}{wanted}",
            hint=f"it called {met}" if met else "it called no module of torch or paddle",
        )

    # -- the model's calls

    def _around(self, module: Module) -> AbstractContextManager[object]:
        """Return the context of one call of a module that may be the model."""
        is_ours = any(module is model for model in self._models)
        if self._is_over or self._nesting.is_inside or not is_ours:
            return nullcontext()
        return self._around_call()

    def _around_inside(self, module: Module) -> AbstractContextManager[object]:
        """Return the context of a call inside the model that may be part of an evaluation."""
        recorder, adapter = self._recorder, self._adapter
        is_ours = id(module) in self._inside and not self._nesting.is_inside
        if self._is_over or not is_ours or recorder is None or adapter is None:
            return nullcontext()
        return nullcontext() if self._is_of_a_step(adapter) else recorder.pause()

    def _is_of_a_step(self, adapter: Adapter) -> bool:
        """Return whether a call that begins now is one to train by, rather than to evaluate."""
        if self._settings.phase is Phase.FORWARD:
            return True
        is_training = adapter.is_training(self._models[0])
        if not adapter.watch.records_gradients():  # what a loss may be made of, ahead of the update
            return is_training and self._step.is_trained and not self._step.is_updated
        return is_training or not self._learns_in_training_mode

    @contextmanager
    def _around_call(self) -> Iterator[Arguments | None]:
        recorder, adapter = self._recorder, self._adapter
        if recorder is None or adapter is None or adapter.in_backward():
            yield None
            return
        self._nesting.is_inside = True
        try:
            with self._guarded():
                is_counted = self._begin_call(recorder, adapter)
                given = self._provide(recorder) if is_counted else None
            with nullcontext() if is_counted else recorder.pause():
                yield given
            if self._settings.phase is Phase.FORWARD:
                self._step.is_updated = True
        finally:
            self._nesting.is_inside = False

    def _provide(self, recorder: Recorder) -> Arguments | None:
        """Begin to feed, with the first call of a step; give what the call gets."""
        if self._provided is None:
            return None
        number = recorder.steps.number
        if not self._step.is_fed:
            self._step.is_fed = True
            self._fed.enter_context(self._provided.feeding(recorder, number))
        return self._provided.arguments(number)

    def _begin_call(self, recorder: Recorder, adapter: Adapter) -> bool:
        """End the step before this call if it is whole; tell whether the call belongs to one."""
        if self._is_step_whole(recorder):
            self._end_step(recorder)
            if self._stop and recorder.steps.number > (self._settings.plan.last or 0):
                raise ScriptStopped
        if self._settings.phase is Phase.FORWARD:
            return True
        if not self._is_of_a_step(adapter):
            return False
        is_training = adapter.is_training(self._models[0])
        step, current = self._step, recorder.steps.current
        only_evaluated = step.is_trained and not step.in_training_mode
        if is_training and only_evaluated and current is not None and not current.arrived:
            recorder.steps.restart()  # what came before in eval mode was no training
        if recorder.steps.current is not None:
            with recorder.contained():
                recorder.steps.current.update.expect(update_around(adapter, sys._getframe()))
        step.is_trained = True
        step.in_training_mode = step.in_training_mode or is_training
        self._learns_in_training_mode = self._learns_in_training_mode or is_training
        return True

    def _is_step_whole(self, recorder: Recorder) -> bool:
        """Return whether the weights were changed in this step, by whatever."""
        step, adapter = self._step, self._adapter
        by_hand = self._by_hand if step.is_trained and not step.is_updated else None
        if adapter is None or by_hand is None:
            return step.is_updated
        frame = sys._getframe()
        with recorder.contained():
            if by_hand.happened():
                step.is_updated = update_around(adapter, frame) is None
                current = recorder.steps.current
                if step.is_updated and current is not None:
                    current.update.happened()
        return step.is_updated

    def _end_step(self, recorder: Recorder) -> None:
        self._step = _Step()
        self._fed.close()
        recorder.step()

    # -- backward passes and updates

    def _backward_ended(self) -> None:
        recorder, adapter, by_hand = self._recorder, self._adapter, self._by_hand
        if self._is_over or recorder is None or adapter is None or by_hand is None:
            return
        if self._step.is_trained and not adapter.in_backward():
            with recorder.contained():
                by_hand.backward_ended()
                if recorder.steps.current is not None:
                    recorder.steps.current.stash_gradients()

    def _update_begins(self, optimizer: Optimizer) -> None:
        if self._is_training_it(optimizer):
            self._by_hand = None  # from here on its optimizer is waited for

    def _update_ended(self, optimizer: Optimizer, _is_changed: bool) -> None:
        if self._is_training_it(optimizer):
            self._step.is_updated, self._by_hand = True, None

    def _is_training_it(self, optimizer: Optimizer) -> bool:
        """Return whether an optimizer changes the model, in a step in which that was called."""
        adapter = self._adapter
        if adapter is None or self._is_over or not self._step.is_trained:
            return False
        known = self._ours.get(id(optimizer))
        if known is None:
            known = optimizer, trains(adapter.trainer, optimizer, self._models[0])
            self._ours[id(optimizer)] = known
        return known[1]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Let trouble of the recording end the script, whatever that catches."""
        try:
            yield
        except PadiffError as error:
            self._trouble = error
            self._is_over = True
            raise ScriptStopped from error


WATCHED_BYTES = 1 << 20
"""Copied after a backward pass, of the smallest weights; one at least."""
_LARGEST_ITEM = 8


class HandUpdates:
    """Compares weights with what they were after the last backward pass.

    By their elements: ``p.data -= ...`` and Paddle's ``set_value`` move no version counter. The
    smallest weights are enough, since an update changes nearly all of them.
    """

    def __init__(self, adapter: Adapter, weights: Sequence[Tensor]) -> None:
        """Choose what to look at."""
        self._adapter = adapter
        self._watched: list[Tensor] = []
        size_bytes = 0
        for weight in sorted(weights, key=_size):
            size_bytes += _LARGEST_ITEM * _size(weight)
            if size_bytes <= WATCHED_BYTES or not self._watched:
                self._watched.append(weight)
        self._before: list[Array] = []

    def backward_ended(self) -> None:
        """Copy the weights as they are, if some have a gradient."""
        if any(self._adapter.gradient(weight) is not None for weight in self._watched):
            self._before = [self._adapter.snapshot(weight) for weight in self._watched]

    def happened(self) -> bool:
        """Return whether a weight has changed since; if so, wait for the next backward pass."""
        if not self._before:
            return False
        is_changed = any(
            not np.array_equal(before, self._adapter.snapshot(weight))
            for before, weight in zip(self._before, self._watched, strict=True)
        )
        if is_changed:
            self._before = []
        return is_changed


def _size(weight: Tensor) -> int:
    return int(np.prod(tuple(weight.shape), dtype=np.int64))


class Provided:
    """Loads the weights when it is made, and gives inputs and outputs step by step."""

    def __init__(self, settings: RunSettings, adapter: Adapter, model: Model) -> None:
        """Load the weights, and learn which call is which where outputs are fed.

        Raises:
            ConfigError: Something of a source does not fit the model.
            DumpError: A dump cannot be read.
        """
        self._settings = settings
        self.notes: list[str] = []
        """What to say of it in the manifest."""
        self.kept: dict[str, Any] = {}
        """What pairing reads of it in the manifest."""
        self._inputs: StepInputs | None = None
        if settings.inputs_from is not None or settings.feed is not None:
            self._inputs = StepInputs(settings, adapter, model)
            self.notes += [*self._inputs.notes, "inputs: those of a dump, not the script's"]
        rehearsal = None if self._inputs is None else lambda: _run(model, self.arguments(0))
        if settings.weights_from is not None:
            plan = _loaded(settings, adapter, model, rehearsal)
            self.notes += [f"weights: {note}" for note in plan.notes]
            self.kept |= loaded_setting(plan)
        self._feeder: Feeder | None = None
        if settings.feed is not None and rehearsal is not None:
            from .rehearsal import learned_feeder  # noqa: PLC0415 - needs pairing, as few runs do

            last = settings.record.plan.last or 0
            steps = filter(settings.record.plan.wants, range(last + 1))
            self._feeder = learned_feeder(settings, adapter, model, rehearsal, steps)

    @property
    def has_inputs(self) -> bool:
        """Whether the calls of the model get other arguments."""
        return self._inputs is not None

    def arguments(self, step: int) -> Arguments | None:
        """Return what a call of the model gets in a step; None leaves it its own."""
        if self._inputs is None or not self._settings.record.plan.wants(step):
            return None
        return Arguments(*self._inputs.arguments(step))

    def feeding(self, recorder: Recorder, step: int) -> AbstractContextManager[None]:
        """Let calls hand on the reference's outputs while the block runs a step."""
        if self._feeder is None or not self._settings.record.plan.wants(step):
            return nullcontext()
        return self._feeder.feeding(recorder, step)

    def describe(self, recorder: Recorder) -> None:
        """Report at the end what was fed and what was not."""
        if self._feeder is not None:
            recorder.describe(notes=self._feeder.notes(), settings=self._feeder.settings())


class _UnplayableError(Exception):
    """The model does not run on what came with the weights."""


def _loaded(
    settings: RunSettings, adapter: Adapter, model: Model, rehearsal: Callable[[], object] | None
) -> WeightPlan:
    """Load the weights; a run on their own inputs tells what names leave open, where it can."""
    if rehearsal is not None:
        return load_weights_into(settings, adapter, model, rehearsal)
    try:
        rehearsal = _played(settings, adapter, model)
        return load_weights_into(settings, adapter, model, rehearsal)
    except _UnplayableError:
        return load_weights_into(settings, adapter, model, None)


def _played(settings: RunSettings, adapter: Adapter, model: Model) -> Callable[[], object] | None:
    """Return what runs the model on the inputs of the dump with the weights; None without any."""
    try:
        inputs = StepInputs(replace(settings, inputs_from=settings.weights_from), adapter, model)
    except PadiffError:
        return None  # a checkpoint, or a model of another signature

    def run() -> object:
        positional, keywords = inputs.arguments(0)
        try:
            return model(*positional, **keywords)
        except Exception as error:
            raise _UnplayableError from error

    return run


def _run(model: Model, given: Arguments | None) -> object:
    positional, keywords = ((), {}) if given is None else given
    return model(*positional, **keywords)
