"""PyTorch's optimizers and schedules, as padiff sees them."""

from __future__ import annotations

import os
from inspect import getattr_static
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from padiff.dumper.adapter import Handle
    from padiff.dumpfile import JSON

__all__ = ["TorchTrainer"]

_WORDS = {"decoupled_weight_decay": "decoupled"}
_NO_OPTIONS = frozenset(
    {"lr", "initial_lr", "foreach", "fused", "capturable", "differentiable", "fused_step"}
)
"""What is recorded elsewhere, and what only says how fast an update is."""
_DROPOUTS = (torch.nn.modules.dropout._DropoutNd,)


class _HandOn(torch.autograd.Function):
    """Has the value of one tensor and passes its gradient to another."""

    @staticmethod
    def forward(ctx: object, own: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """Return a new tensor, which the model may change in place."""
        del ctx, own
        return wanted.clone()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """Pass the gradient on as it is."""
        del ctx
        return gradient, None


class TorchTrainer:
    """The training side of ``torch``."""

    def is_optimizer(self, thing: object) -> bool:
        """Return whether this is a ``torch.optim.Optimizer``."""
        return isinstance(thing, torch.optim.Optimizer)

    def is_optimizer_class(self, thing: object) -> bool:
        """Return whether this is an optimizer class."""
        return isinstance(thing, type) and issubclass(thing, torch.optim.Optimizer)

    def make_optimizer(
        self, kind: type[Any], parameters: Sequence[torch.Tensor], arguments: Mapping[str, JSON]
    ) -> torch.optim.Optimizer:
        """Make an optimizer of a class for these parameters."""
        made: torch.optim.Optimizer = kind(parameters, **arguments)
        return made

    def parameters(self, model: torch.nn.Module) -> list[torch.Tensor]:
        """List the parameters that require a gradient."""
        return [parameter for parameter in model.parameters() if parameter.requires_grad]

    def hook_update(self, optimizer: torch.optim.Optimizer, before: Callable[[], None]) -> Handle:
        """Call back before each ``optimizer.step()``."""

        def called(_optimizer: object, _args: object, _kwargs: object) -> None:
            before()

        handle: Handle = optimizer.register_step_pre_hook(called)
        return handle

    def gradient_scale(self, optimizer: torch.optim.Optimizer) -> float:
        """Return what a gradient scaler left on a fused optimizer for its kernel."""
        scale = getattr(optimizer, "grad_scale", None)
        return 1.0 if scale is None else float(scale)

    def trained(self, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
        """List the parameters of all groups."""
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def state_of(
        self, optimizer: torch.optim.Optimizer, parameter: torch.Tensor
    ) -> Iterator[tuple[str, Any]]:
        """Yield ``exp_avg``, ``momentum_buffer`` …, as the optimizer calls them."""
        for name, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, torch.Tensor | int | float) and not isinstance(value, bool):
                yield str(name), value

    def learning_rates(self, optimizer: torch.optim.Optimizer) -> list[float]:
        """Return the learning rate of each parameter group."""
        return [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]

    def options(
        self, optimizer: torch.optim.Optimizer
    ) -> Iterator[tuple[torch.Tensor, dict[str, JSON]]]:
        """Yield each parameter with the options of its group."""
        for group in optimizer.param_groups:
            found: dict[str, JSON] = {
                _WORDS.get(name, name): value
                for name, value in group.items()
                if isinstance(value, bool | int | float) and name not in _NO_OPTIONS
            }
            betas = group.get("betas", ())
            found |= {f"beta{place}": float(beta) for place, beta in enumerate(betas, start=1)}
            if isinstance(optimizer, torch.optim.AdamW):
                found["decoupled"] = True
            for parameter in group["params"]:
                yield parameter, found

    def clipped(
        self, optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return nothing: torch's optimizers do not clip."""
        del optimizer, parameters
        return []

    def clip(self, parameters: Sequence[torch.Tensor], largest_norm: float) -> None:
        """Scale all gradients in place so that their total norm is at most this."""
        torch.nn.utils.clip_grad_norm_(parameters, largest_norm)

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """Change the parameters once."""
        optimizer.step()

    def clear(self, optimizer: torch.optim.Optimizer) -> None:
        """Call ``zero_grad``."""
        optimizer.zero_grad()

    def clear_model(self, model: torch.nn.Module) -> None:
        """Clear all gradients of a model."""
        model.zero_grad()

    def make_scheduler(
        self,
        found: Callable[..., Any],
        optimizer: torch.optim.Optimizer,
        arguments: Mapping[str, JSON],
    ) -> object:
        """Call the class or function with the optimizer."""
        made: object = found(optimizer, **arguments)
        return made

    def scheduler_of(self, optimizer: object, scheduler: object | None) -> object | None:
        """Return the schedule; torch's know their optimizer themselves."""
        del optimizer
        return scheduler

    def forget_dropout(self, model: torch.nn.Module) -> list[str]:
        """Set every dropout probability to 0, in attention and recurrent layers too."""
        found = []
        for path, module in model.named_modules():
            if isinstance(module, _DROPOUTS) and module.p:
                module.p = 0.0
            elif isinstance(rate := getattr_static(module, "dropout", None), float) and rate:
                module.dropout = 0.0
            else:
                continue
            found.append(path)
        return found

    def feed_output(self, module: torch.nn.Module, replace: Callable[[object], object]) -> Handle:
        """Put another result in the place of each, after the hooks that record it."""

        def post(_module: object, _args: object, output: object) -> object:
            return replace(output)

        handle: Handle = module.register_forward_hook(post)
        return handle

    def fed(
        self,
        own: torch.Tensor,
        wanted: torch.Tensor | None,
        gradient: Callable[[], torch.Tensor | None] | None,
    ) -> torch.Tensor:
        """Return a tensor of the wanted value through which gradients reach the module's own."""
        if own.requires_grad and gradient is not None:
            own.register_hook(lambda _: gradient())  # type: ignore[no-untyped-call]
        if wanted is None:
            return own
        if not own.requires_grad or not torch.is_grad_enabled():
            return wanted
        handed: torch.Tensor = _HandOn.apply(own, wanted)  # type: ignore[no-untyped-call]
        return handed

    def make_deterministic(self) -> None:
        """Turn off cuDNN's search and ask for deterministic algorithms; others warn."""
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(mode=True, warn_only=True)
