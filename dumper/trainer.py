"""What a framework must be able to do for a training step to be recorded.

The part of an adapter that knows optimizers and learning-rate schedules: one implementation per
framework, in ``dumper/adapters/<framework>_training.py``, found as ``adapter.trainer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from padiff.dumpfile import JSON

    from .adapter import Handle, Model, Module, Tensor

Optimizer = Any
Scheduler = Any


class Trainer(Protocol):
    """One framework's optimizers and schedules, as padiff sees them."""

    def is_optimizer(self, thing: object) -> bool:
        """Return whether this is one of the framework's optimizers."""

    def is_optimizer_class(self, thing: object) -> bool:
        """Return whether this is one of the framework's optimizer classes."""

    def make_optimizer(
        self, kind: type[Any], parameters: Sequence[Tensor], arguments: Mapping[str, JSON]
    ) -> Optimizer:
        """Make an optimizer of a class for these parameters."""

    def parameters(self, model: Model) -> list[Tensor]:
        """List the model's parameters that require a gradient, in definition order."""

    def hook_update(self, optimizer: Optimizer, before: Callable[[], None]) -> Handle:
        """Call back each time the optimizer is about to change the parameters.

        Under a gradient scaler that is after the gradients were unscaled, and not at all in a
        step that the scaler skips.
        """

    def gradient_scale(self, optimizer: Optimizer) -> float:
        """Return the factor that gradients still have when the update begins; nearly always 1.

        A fused optimizer may unscale them inside.
        """
        del optimizer
        return 1.0

    def trained(self, optimizer: Optimizer) -> list[Tensor]:
        """List the parameters that the optimizer changes."""

    def state_of(self, optimizer: Optimizer, parameter: Tensor) -> Iterator[tuple[str, Any]]:
        """Yield what the optimizer keeps for a parameter: its name there, and tensor or number."""

    def learning_rates(self, optimizer: Optimizer) -> list[float]:
        """Return the learning rate in force of each parameter group."""

    def options(self, optimizer: Optimizer) -> Iterator[tuple[Tensor, dict[str, JSON]]]:
        """Yield each parameter with the numbers that decide its update, in torch's words.

        ``beta1``, ``eps``, ``weight_decay``, ``decoupled``, ``momentum``, ``nesterov`` …;
        learning rates are recorded step by step.
        """

    def clipped(
        self, optimizer: Optimizer, parameters: Sequence[Tensor]
    ) -> list[tuple[Tensor, Tensor]]:
        """Return each parameter with its gradient after the clip that the optimizer was made with.

        Nothing without such a clip. Gradients stay as they are.
        """
        del optimizer, parameters
        return []

    def clip(self, parameters: Sequence[Tensor], largest_norm: float) -> None:
        """Scale all gradients in place so that their total L2 norm is at most this."""

    def update(self, optimizer: Optimizer) -> None:
        """Change the parameters once."""

    def clear(self, optimizer: Optimizer) -> None:
        """Clear the gradients as the framework's training loops do."""

    def clear_model(self, model: Model) -> None:
        """Clear all gradients of a model that has no optimizer."""

    def make_scheduler(
        self, found: Callable[..., Any], optimizer: Optimizer, arguments: Mapping[str, JSON]
    ) -> Scheduler:
        """Make a schedule of a class of the framework, or by a function of the optimizer."""

    def scheduler_of(self, optimizer: Optimizer, scheduler: Scheduler | None) -> Scheduler | None:
        """Attach a schedule to an optimizer, or give the one that it was made with."""
        del optimizer
        return scheduler

    def forget_dropout(self, model: Model) -> list[str]:
        """Switch off all dropout in a model, in training mode too; give the paths of what was."""

    def feed_output(self, module: Module, replace: Callable[[object], object]) -> Handle:
        """Put what ``replace`` gives in the place of each result, after it was recorded."""

    def fed(
        self, own: Tensor, wanted: Tensor | None, gradient: Callable[[], Tensor | None] | None
    ) -> Tensor:
        """Return a tensor of the wanted value through which gradients reach the module's own.

        Args:
            own: What the module computed; nan or inf in it must not reach what is given.
            wanted: What it hands on; None leaves it.
            gradient: Gives what it gets as the gradient of its own output, asked for during the
                backward pass; None leaves it.
        """

    def make_deterministic(self) -> None:
        """Ask for kernels that give the same result each time, for the whole process."""


def trains(trainer: Trainer, optimizer: Optimizer, model: Model) -> bool:
    """Return whether an optimizer changes parameters of a model."""
    own = {id(tensor) for tensor in trainer.parameters(model)}
    return any(id(tensor) in own for tensor in trainer.trained(optimizer))
