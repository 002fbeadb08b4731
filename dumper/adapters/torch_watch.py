"""What PyTorch does anywhere in the process."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from padiff.dumper.watch import Handles, Patch, ScaledLosses, watch_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Handle, Module, Tensor
    from padiff.dumper.trainer import Optimizer

__all__ = ["TorchWatch"]

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


class TorchWatch:
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
