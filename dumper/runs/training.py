"""What comes after the forward pass: the user's loss, optimizer and schedule."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from padiff.dumpfile import ConfigError

from .losses import choose_outputs, default_loss
from .target import import_target, kind_of_thing
from .usercode import UserCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.adapter import Adapter, Model, Tensor
    from padiff.dumper.recording.recorder import Recorder
    from padiff.dumper.trainer import Optimizer, Scheduler

    from .outputs import LossOutputs
    from .runsettings import TrainSettings
    from .target import Target

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
