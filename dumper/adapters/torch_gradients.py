"""Total gradients of torch's tensors, of views too that the model changes in place later."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

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
    base = tensor._base
    if base is not None and base.requires_grad and tensor.is_leaf and not base.is_leaf:
        # Seen inside a function of the user's own that hands on what it took: torch gives it its
        # place in the graph when the function returns, and a hook from before would stay outside.
        return Handles()
    if base is None or not _lies_in(tensor, base):
        return _Waiting(tensor, callback)
    view = _View(tensor, base, callback)
    return Handles(_Waiting(tensor, view.arrived), _Waiting(base, view.arrived_behind))


class _Hook:
    """What torch calls for all who wait for the gradient of one tensor."""

    __slots__ = ("_hooks", "callbacks", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        """Do what ``Tensor.register_hook`` does, without a handle: to make it takes longer."""
        self.version = tensor._version
        self.callbacks: list[Callable[[torch.Tensor], None]] = []
        hooks: Any = tensor._backward_hooks
        if hooks is None:
            hooks = tensor._backward_hooks = OrderedDict()
            if tensor.grad_fn is not None:
                tensor.grad_fn._register_hook_dict(tensor)
        hooks[self] = self
        self._hooks = hooks

    def __call__(self, gradient: torch.Tensor) -> None:
        for callback in tuple(self.callbacks):
            callback(gradient)

    def remove(self) -> None:
        self._hooks.pop(self, None)


class _Waiting:
    """One who waits: by the hook that is there, unless the user set one behind it.

    To set a hook, to be called by it and to take it off again costs more than what is done with
    a small gradient.
    """

    __slots__ = ("_callback", "_hook")

    def __init__(self, tensor: torch.Tensor, callback: Callable[[torch.Tensor], None]) -> None:
        hooks = tensor._backward_hooks
        last: Any = next(reversed(hooks.values()), None) if hooks else None
        is_ours = type(last) is _Hook and last.version == tensor._version
        hook: _Hook = last if is_ours else _Hook(tensor)
        hook.callbacks.append(callback)
        self._hook = hook
        self._callback: Callable[[torch.Tensor], None] | None = callback

    def remove(self) -> None:
        """Wait no longer, and keep nothing of who waited."""
        if self._callback is not None:
            self._hook.callbacks.remove(self._callback)
            self._callback = None
        if not self._hook.callbacks:
            self._hook.remove()


class _View:
    """A view whose gradient may arrive at the tensor behind it."""

    __slots__ = ("_alive", "_arrivals", "_callback", "_layout", "_part", "_version")

    def __init__(
        self, tensor: torch.Tensor, base: torch.Tensor, callback: Callable[[torch.Tensor], None]
    ) -> None:
        self._callback, self._arrivals = callback, 0
        self._version, self._alive = tensor._version, (weakref.ref(tensor), weakref.ref(base))
        offset = int(tensor.storage_offset()) - int(base.storage_offset())
        self._part = tensor.size(), tensor.stride(), offset
        self._layout = base.size(), base.stride()

    def arrived(self, gradient: torch.Tensor) -> None:
        self._arrivals += 1
        self._callback(gradient)

    def arrived_behind(self, gradient: torch.Tensor) -> None:
        if self._arrivals:
            return  # the gradient came by itself
        known = [one for one in (reference() for reference in self._alive) if one is not None]
        if any(one._version == self._version for one in known):
            return  # the gradient came by itself, or there is none: nothing was changed in place
        memory = gradient.new_empty_strided(*self._layout).copy_(gradient)
        self.arrived(memory.as_strided(*self._part))


def _lies_in(view: torch.Tensor, base: torch.Tensor) -> bool:
    """Tell whether a view's elements are some of those behind it, each once."""
    return (
        base.requires_grad
        and not base.is_leaf
        and view.dtype == base.dtype
        and (
            base.is_contiguous() or torch.empty_like(base, device="meta").stride() == base.stride()
        )
        and (
            0 not in view.stride()
            or all(
                stride for stride, size in zip(view.stride(), view.shape, strict=True) if size > 1
            )
        )
    )
