"""PyTorch's optimizers and schedules, as padiff sees them.

What they do anywhere in the process is watched, too.
"""

from __future__ import annotations

import os
import sys
from inspect import getattr_static
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from padiff.dumper.trainer import Trainer
from padiff.dumper.watch import Handles, Patch, ScaledLosses, Watch, watch_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Handle, Module, Tensor
    from padiff.dumper.trainer import Optimizer
    from padiff.dumpfile import JSON


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


class TorchTrainer(Trainer):
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


_RUN = "_engine_run_backward"
"""What ``torch.autograd.grad`` runs; torch 2.1 lacks it, and nothing is noticed there."""
_SCHEDULES = "torch.distributed.pipelining.schedules"
_REHEARSALS = {
    "PipelineScheduleSingle": "_initialize_stage",
    "PipelineScheduleMulti": "_initialize_stages",
}
"""The methods in which pipelines call their stages to learn shapes."""
_INPUTS = 4
"""Place of the inputs among its arguments."""


class TorchWatch(Watch):
    """The calls, backward passes and updates of ``torch``."""

    def calls(
        self, kind: type | None, around: Callable[[Module], AbstractContextManager[object]]
    ) -> Handle:
        """Watch a class's ``__call__``; global hooks would make compiled modules warn."""
        return watch_calls(torch.nn.Module if kind is None else kind, around)

    def updates(
        self,
        before: Callable[[Optimizer], None],
        after: Callable[[Optimizer, bool], None],
    ) -> Handle:
        """Use torch's hooks for all optimizers, and ask each scaler whether it came to one."""
        count = 0

        def begins(optimizer: Optimizer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
            if [*args[1:], kwargs.get("closure")][0] is None:
                before(optimizer)

        def ended(optimizer: Optimizer, _args: object, _kwargs: object) -> None:
            nonlocal count
            count += 1
            after(optimizer, True)  # noqa: FBT003 - the callback's second argument

        def wrap(step: Callable[..., Any]) -> Callable[..., Any]:
            def called(scaler: object, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                known = count
                result = step(scaler, optimizer, *args, **kwargs)
                if count == known:
                    after(optimizer, False)  # noqa: FBT003
                return result

            return called

        return Handles(
            register_optimizer_step_pre_hook(begins),
            register_optimizer_step_post_hook(ended),
            Patch(torch.amp.GradScaler, "step", wrap),
        )

    def losses(self, before: Callable[[Tensor], None], after: Callable[[], None]) -> Handle:
        """Watch ``torch.autograd.backward``, to which ``Tensor.backward`` comes too."""
        scaled = ScaledLosses(before, after)
        return Handles(
            Patch(torch.amp.GradScaler, "scale", scaled.wrap_scale),
            Patch(torch.autograd, "backward", scaled.wrap_backward),
        )

    def handed(self, after: Callable[[Tensor, Tensor], None]) -> Handle:
        """Watch what ``torch.autograd.grad`` runs, as scripts import that by name."""

        def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, accumulate_grad: bool = True, **kwargs: Any) -> Any:  # noqa: ANN401
                result = run(*args, accumulate_grad=accumulate_grad, **kwargs)
                for tensor, gradient in (
                    () if accumulate_grad else zip(args[_INPUTS], result, strict=True)
                ):
                    if isinstance(tensor, torch.Tensor) and gradient is not None:
                        after(tensor, gradient)
                return result

            return called

        has_it = hasattr(torch.autograd, _RUN)
        return Patch(torch.autograd, _RUN, wrap) if has_it else Handles()

    def rehearsals(self, around: Callable[[], AbstractContextManager[object]]) -> Handle:
        """Watch pipeline schedules find out what their stages send each other."""
        schedules = sys.modules.get(_SCHEDULES)
        found = [(getattr(schedules, kind, None), name) for kind, name in _REHEARSALS.items()]

        def wrap(rehearse: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                with around():
                    return rehearse(*args, **kwargs)

            return called

        return Handles(*(Patch(kind, name, wrap) for kind, name in found if hasattr(kind, name)))

    def records_gradients(self) -> bool:
        """Return whether operations of this thread become part of a graph."""
        return torch.is_grad_enabled()
