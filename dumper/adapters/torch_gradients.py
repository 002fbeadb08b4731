"""Total gradients of torch's tensors, of views too that the model changes in place later."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import torch

from padiff.dumper.watch import Handles

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.adapter import Handle

__all__ = ["hook_gradient"]


def hook_gradient(tensor: torch.Tensor, callback: Callable[[torch.Tensor], None]) -> Handle:
    """Call back with the total gradient of a tensor as it is now.

    An in-place change of a plain tensor leaves the hook where it is. That of a view does not:
    torch then takes the view out of the graph and changes the tensor behind it, so that nothing
    ever arrives. The output of ``torch.nn.Linear`` for inputs of three axes is such a view. What
    arrives at the tensor behind it, as it is now, holds the view's gradient.

    Args:
        tensor: Requires a gradient.
        callback: Gets a gradient of the tensor's shape, at most once a backward pass.
    """
    base, arrivals = tensor._base, 0
    if base is None or not _lies_in(tensor, base):
        alone: Handle = tensor.register_hook(callback)  # type: ignore[no-untyped-call]
        return alone

    def arrived(gradient: torch.Tensor) -> None:
        nonlocal arrivals
        arrivals += 1
        callback(gradient)

    own: Handle = tensor.register_hook(arrived)  # type: ignore[no-untyped-call]
    version, alive = tensor._version, (weakref.ref(tensor), weakref.ref(base))
    size, stride = tensor.size(), tensor.stride()
    offset = int(tensor.storage_offset()) - int(base.storage_offset())
    layout = (base.size(), base.stride())

    def arrived_behind(gradient: torch.Tensor) -> None:
        known = [one for one in (reference() for reference in alive) if one is not None]
        if arrivals or any(one._version == version for one in known):
            return  # the gradient came by itself, or there is none: nothing was changed in place
        memory = gradient.new_empty_strided(*layout).copy_(gradient)
        arrived(memory.as_strided(size, stride, offset))

    return Handles(own, base.register_hook(arrived_behind))  # type: ignore[no-untyped-call]


def _lies_in(view: torch.Tensor, base: torch.Tensor) -> bool:
    """Tell whether a view's elements are some of those behind it, each once."""
    return (
        base.requires_grad
        and not base.is_leaf
        and view.dtype == base.dtype
        and (
            base.is_contiguous() or torch.empty_like(base, device="meta").stride() == base.stride()
        )
        and all(stride for stride, size in zip(view.stride(), view.shape, strict=True) if size > 1)
    )
