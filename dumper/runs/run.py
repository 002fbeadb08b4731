"""Everything ``padiff dump`` does around the recorder: load, seed, place, feed, run, describe."""

from __future__ import annotations

import inspect
import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from padiff.dumper.recording.ranks import ranks_of
from padiff.dumper.recording.recorder import Recorder
from padiff.dumper.recording.recordsettings import StepPlan
from padiff.dumpfile import ConfigError, Phase

from .beforehand import check_beforehand, check_place
from .feeding import StepInputs
from .loading import load_model, load_weights_into, loaded_setting, seed_all, write_structure
from .outputs import outputs_for
from .repeat import Repeats
from .runsettings import Progress, RunSettings, TrainSettings
from .sources import opened_sources
from .target import each_file_once, import_target, kind_of_thing
from .usercode import UserCode, choose_outputs, default_loss, forward_trouble

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from padiff.dumper.adapter import Adapter, Model, Tensor
    from padiff.dumper.recording.recordsettings import RecordSettings
    from padiff.dumper.trainer import Optimizer, Scheduler
    from padiff.dumpfile import JSON

    from .feeder import Feeder
    from .outputs import LossOutputs
    from .target import Target


FORWARD_ALONE = "--phase forward records the forward pass alone"
SEEDS = 2**32
"""How many seeds numpy's generator takes."""


def run(settings: RunSettings, *, progress: Progress | None = None) -> Path:
    """Load a model, run it under the recorder, and give the finished dump's directory.

    Returns:
        The dump's directory.

    Raises:
        ConfigError: An option, file or name is wrong.
        RecordError: The user's model raised; its exception is the ``__cause__``.
        DumpError: The dump cannot be written, or one to be read cannot be.
    """
    with opened_sources(settings) as found, each_file_once():
        check_beforehand(found)
        return _recorded(found, Progress() if progress is None else progress)


def _recorded(settings: RunSettings, report: Progress) -> Path:
    report.stage("loading the model")
    loaded = load_model(settings)
    adapter, notes = loaded.adapter, loaded.notes
    check_place(settings.record, type(adapter.unwrap(loaded.model)).__name__)
    model = adapter.place(
        adapter.unwrap(loaded.model), device=settings.device, dtype=settings.dtype
    )
    if settings.train.no_dropout:  # first: Paddle's recurrent layers run by whether they have any
        notes += _without_dropout(adapter, model)
    adapter.set_training(model, training=settings.training)
    if settings.no_run:
        return write_structure(settings, adapter, model, notes, report)
    report.stage("reading the inputs")
    inputs = StepInputs(settings, adapter, model)
    one = _Run(settings, adapter, model, inputs, report)
    weights: dict[str, JSON] = {}
    if settings.weights_from is not None:
        report.stage("loading the weights")
        plan = load_weights_into(settings, adapter, model, lambda: one.forward(0))
        notes += tuple(f"weights: {note}" for note in plan.notes)
        weights = loaded_setting(plan)
    feeder = None
    if settings.feed is not None:
        from .rehearsal import learned_feeder  # noqa: PLC0415 - needs pairing, which few runs do

        steps = range(settings.train.steps)
        feeder = learned_feeder(settings, adapter, model, lambda: one.forward(0), steps)
    outputs = _loss_outputs(settings)
    training = prepare_training(settings.train, adapter, model, outputs)
    repeats = None
    if settings.repeat is not None:
        _check_repeatable(settings.train, training)
        repeats = Repeats(settings.repeat, adapter, model)
    record = _with_plan(settings.record, settings.train.steps)
    recorder = Recorder(
        loaded.model,
        record,
        adapter,
        optimizers=training.optimizers,
        built=loaded.construction,
    )
    recorder.describe(
        model=str(settings.model),
        seed=settings.seed,
        command=settings.command,
        inputs=inputs.describe(),
        notes=[*notes, *inputs.notes],
        settings=weights,
    )
    with recorder:
        one.steps(recorder, training, feeder)
        report.stage("writing")
    if repeats is not None:
        report.stage("measuring the noise floor")
        repeats.measure(recorder.path, record, inputs, one.sibling(feeder, outputs))
    return recorder.path


class _Run:
    """One run of the model, step by step."""

    def __init__(
        self,
        settings: RunSettings,
        adapter: Adapter,
        model: Model,
        inputs: StepInputs,
        report: Progress,
    ) -> None:
        self._settings = settings
        self._adapter = adapter
        self._model = model
        self._inputs = inputs
        self._report = report

    def forward(self, number: int) -> object:
        """Feed the model what a step feeds it, seeded."""
        args, kwargs = self._inputs.arguments(number)
        seed_all((self._settings.seed + number) % SEEDS, self._adapter)
        translate = forward_trouble(self._adapter, self._model, has_inputs=bool(args or kwargs))
        with UserCode("cannot run forward", translate=translate):
            return self._model(*args, **kwargs)

    def steps(self, recorder: Recorder, training: Training, feeder: Feeder | None) -> None:
        """Run all steps."""
        for number in range(self._settings.train.steps):
            with nullcontext() if feeder is None else feeder.feeding(recorder, number):
                self.step(number, recorder, training)
        if feeder is not None:
            recorder.describe(notes=feeder.notes(), settings=feeder.settings())

    def sibling(
        self, feeder: Feeder | None, outputs: LossOutputs
    ) -> Callable[[StepInputs, RecordSettings], Path]:
        """Return what runs all steps once more: of other inputs, and into a dump of its own."""
        settings, adapter, model = self._settings, self._adapter, self._model

        def again(fed: StepInputs, record: RecordSettings) -> Path:
            training = prepare_training(settings.train, adapter, model, outputs)
            with Recorder(model, record, adapter, optimizers=training.optimizers) as recorder:
                _Run(settings, adapter, model, fed, Progress()).steps(recorder, training, feeder)
            return recorder.path

        return again

    def step(self, number: int, recorder: Recorder, training: Training) -> None:
        """Run one step: forward, loss, backward, update."""
        self._stage(number, "forward", recorder)
        output = self.forward(number)
        labels = self._inputs.labels(number)
        for name, label in self._inputs.named_labels(labels):
            recorder.record(name, label)
        loss, reason = training.loss_of(output, labels)
        if number == 0:
            training.describe(output, recorder)
        if loss is not None:
            recorder.loss(loss)
        backward = self._settings.record.phase is Phase.BACKWARD
        if backward and reason is not None:
            recorder.describe(notes=[f"no backward pass: {reason}"])
        elif backward:
            self._stage(number, "backward", recorder)
            with UserCode("cannot run backward", hint=FORWARD_ALONE):
                self._adapter.backward(loss)
            training.update(recorder)
        if self._settings.train.steps > 1:
            recorder.step()
            training.finish(loss)

    def _stage(self, number: int, name: str, recorder: Recorder) -> None:
        steps = self._settings.train.steps
        where = "" if steps == 1 else f" of step {number} of {steps}"
        self._report.stage(name + where, lambda: recorder.counts)


def _loss_outputs(settings: RunSettings) -> LossOutputs:
    """Read what the loss of the reference takes, from any of its dumps that the run reads."""
    sources = settings.weights_from, settings.inputs_from, settings.feed
    return outputs_for(settings.train.outputs, sources, rank=ranks_of().rank)


def _check_repeatable(settings: TrainSettings, training: Training) -> None:
    """Refuse to run again with an optimizer that keeps what the first run left in it.

    Raises:
        ConfigError: The optimizer was not made here.
    """
    target = settings.optimizer
    if target is not None and import_target(target) is training.optimizer:
        raise ConfigError(
            f"cannot use --repeat with {str(target)!r}: expected a class or a function that makes "
            "the optimizer anew for each run, found an optimizer",
            hint="name its class, and its options with --optimizer-arg",
        )


def _without_dropout(adapter: Adapter, model: Any) -> list[str]:  # noqa: ANN401 - any framework
    paths = adapter.trainer.forget_dropout(model)
    return [f"dropout was switched off in {len(paths)} modules (--no-dropout)"] if paths else []


def _with_plan(record: RecordSettings, steps: int) -> RecordSettings:
    """Let the recording end with the last step.

    Raises:
        ConfigError: A step was asked for that is not run.
    """
    wanted = record.plan.steps or frozenset()
    if wanted and max(wanted) >= steps:
        raise ConfigError(
            f"cannot record step {max(wanted)}: expected steps 0 to {steps - 1}",
            hint=f"--steps {max(wanted) + 1} runs that far",
        )
    chosen = frozenset(step for step in range(steps) if record.plan.wants(step))
    return replace(record, plan=StepPlan(steps=chosen)) if steps > 1 else record


Labels = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The user's loss and update, ready to be used step by step."""

    adapter: Adapter
    model: Model
    settings: TrainSettings
    loss: Callable[..., Tensor] | None = None
    optimizer: Optimizer | None = None
    update_itself: Callable[[], object] | None = None
    """Changes the weights, where there is no framework optimizer."""
    scheduler: Scheduler | None = None
    outputs: LossOutputs | None = None
    """What the default loss takes; None takes all."""

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """Return what a recorder should watch."""
        return () if self.optimizer is None else (self.optimizer,)

    def loss_of(self, output: object, labels: Labels) -> tuple[Tensor | None, str | None]:
        """Return the step's loss, and why there is no backward pass if so.

        Raises:
            RecordError: The user's loss raised.
            ConfigError: It gave something else than one number.
        """
        if self.loss is None:
            return default_loss(self.adapter, output, self.outputs)
        with UserCode(f"cannot compute the loss {str(self.settings.loss)!r}"):
            loss = self.loss(output, *labels[0], **labels[1])
        if not self.adapter.is_tensor(loss) or math.prod(loss.shape) != 1:
            found = tuple(loss.shape) if self.adapter.is_tensor(loss) else kind_of_thing(loss)
            raise ConfigError(
                f"cannot use the loss {str(self.settings.loss)!r}: expected a tensor with one "
                f"element, found {found}"
            )
        needs_grad = self.adapter.requires_grad(loss)
        return loss, None if needs_grad else "the loss depends on nothing that requires a gradient"

    def describe(self, output: object, recorder: Recorder) -> None:
        """State in the manifest which outputs the default loss leaves out, if any."""
        if self.loss is None and self.outputs is not None:
            chosen = choose_outputs(self.adapter, output, self.outputs)
            notes = chosen.notes(self.outputs.reference)
            recorder.describe(notes=notes, settings=chosen.settings())

    def update(self, recorder: Recorder) -> None:
        """Clip, change the weights, and clear the gradients."""
        trainer, largest = self.adapter.trainer, self.settings.largest_norm
        if self.optimizer is None and self.update_itself is None:
            return
        recorder.gradients_ready(is_clipped=largest is not None)
        with UserCode("cannot update the weights"):
            if largest is not None:
                trainer.clip(trainer.parameters(self.model), largest)
            if self.optimizer is not None:
                trainer.update(self.optimizer)
            elif self.update_itself is not None:
                recorder.update_begins()
                self.update_itself()

    def finish(self, loss: Tensor | None) -> None:
        """Clear the gradients and move the schedule on, after the step was recorded."""
        trainer = self.adapter.trainer
        with UserCode("cannot clear the gradients"):
            if self.optimizer is None:
                trainer.clear_model(self.model)
            else:
                trainer.clear(self.optimizer)
        if self.scheduler is not None:
            with UserCode(f"cannot step the schedule {str(self.settings.scheduler)!r}"):
                if "Plateau" in type(self.scheduler).__name__:
                    self.scheduler.step(loss)
                else:
                    self.scheduler.step()


def prepare_training(
    settings: TrainSettings,
    adapter: Adapter,
    model: Model,
    outputs: LossOutputs | None = None,
) -> Training:
    """Import the user's loss, optimizer and schedule, and build them.

    Args:
        settings: What the user named.
        adapter: Of the model's framework.
        model: The model to train.
        outputs: What the default loss takes; None takes all.

    Raises:
        ConfigError: One of them is not there, or not what it should be.
        RecordError: The user's code raised.
    """
    loss = None if settings.loss is None else _load_loss(settings.loss, adapter)
    made = None if settings.optimizer is None else _load_optimizer(settings, adapter, model)
    is_optimizer = adapter.trainer.is_optimizer(made)
    return Training(
        adapter=adapter,
        model=model,
        settings=settings,
        loss=loss,
        optimizer=made if is_optimizer else None,
        update_itself=None if is_optimizer else made,
        scheduler=_load_scheduler(settings, adapter, made) if is_optimizer else None,
        outputs=outputs,
    )


def _load_loss(target: Target, adapter: Adapter) -> Callable[..., Tensor]:
    found = import_target(target)
    if adapter.is_model_class(found):
        with UserCode(f"cannot build {str(target)!r}"):
            made: Callable[..., Tensor] = found(**target.arguments)
        return made
    _refuse_uncallable(target, found)
    return partial(found, **target.arguments) if target.arguments else found


def _load_optimizer(settings: TrainSettings, adapter: Adapter, model: Model) -> Any:  # noqa: ANN401
    """Build the optimizer: of a class, or by a function of the parameters or of the model."""
    target = settings.optimizer
    if target is None:
        return None
    trainer, found = adapter.trainer, import_target(target)
    if trainer.is_optimizer(found):
        return found
    _refuse_uncallable(target, found)
    parameters = trainer.parameters(model)
    with UserCode(f"cannot build {str(target)!r}"):
        if trainer.is_optimizer_class(found):
            return trainer.make_optimizer(found, parameters, target.arguments)
        made = found(model if _takes_model(found) else parameters, **target.arguments)
    if not trainer.is_optimizer(made) and not callable(made):
        raise ConfigError(
            f"cannot use {str(target)!r} as an optimizer: expected it to return one of "
            f"{adapter.name}, or a function without arguments that changes the weights; it "
            f"returned {kind_of_thing(made)}"
        )
    return made


def _load_scheduler(settings: TrainSettings, adapter: Adapter, optimizer: Optimizer) -> Scheduler:
    target, made = settings.scheduler, None
    if target is not None:
        found = import_target(target)
        _refuse_uncallable(target, found)
        with UserCode(f"cannot build {str(target)!r}"):
            made = adapter.trainer.make_scheduler(found, optimizer, target.arguments)
    return adapter.trainer.scheduler_of(optimizer, made)


def _takes_model(function: Callable[..., object]) -> bool:
    """Return whether a function's first parameter is called ``model``."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return False
    return names[:1] == ["model"]


def _refuse_uncallable(target: Target, found: object) -> None:
    if not callable(found):
        raise ConfigError(
            f"cannot use {str(target)!r} as {target.noun}: expected a class or a function, found "
            f"{kind_of_thing(found)}"
        )
