"""How far a fault moves what a model computes, in units of float32's own rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from .dumping import loss_of, tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ABOVE", "Results", "exceeds", "run_in"]

ABOVE = 10.0
"""A fault counts whose effect is at least this many times the noise."""
LEAST = 2.0**-24
"""Relative noise of a result that happens to be exact."""
Results = dict[str, torch.Tensor]
"""What a model computes in float64 or float32, by name: its outputs or its gradients."""


class _Wide(TorchFunctionMode):
    """Lets code that asks for float32 have float64."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        if func is torch.Tensor.float:
            return args[0].double()
        args = tuple(torch.float64 if one is torch.float32 else one for one in args)
        options = {
            name: torch.float64 if one is torch.float32 else one
            for name, one in (kwargs or {}).items()
        }
        return func(*args, **options)


def run_in(
    dtype: torch.dtype,
    model: Any,  # noqa: ANN401 - any module
    inputs: Mapping[str, torch.Tensor],
    *,
    is_backward: bool,
) -> Results:
    """Run a model in a dtype and return its outputs, or the gradients of its weights."""
    model = model.to(dtype)
    cast = {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for name, tensor in inputs.items()
    }
    torch.manual_seed(7)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        if dtype == torch.float64:
            with _Wide():
                result = model(**cast)
        else:
            result = model(**cast)
        if not is_backward:
            found = tensors_of(result)
        else:
            model.zero_grad()
            loss_of(result).backward()  # type: ignore[no-untyped-call]
            found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    finally:
        torch.set_default_dtype(before)
    return {name: tensor.detach().double() for name, tensor in found.items()}


def exceeds(*, right: Results, rounded: Results, faulty: Results) -> float:
    """Return the effect of a fault over the noise, of the result that shows it best.

    Args:
        right: In float64.
        rounded: The same in float32.
        faulty: With the fault, in float64.
    """
    if set(right) != set(faulty):
        return float("inf")
    ratios = [0.0]
    for name, truth in right.items():
        size = truth.norm()
        if size == 0 or faulty[name].shape != truth.shape:
            ratios.append(0.0 if faulty[name].equal(truth) else float("inf"))
            continue
        noise = max(float((rounded[name] - truth).norm() / size), LEAST)
        ratios.append(float((faulty[name] - truth).norm() / size) / noise)
    return max(ratios)
