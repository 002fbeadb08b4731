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


def hook_gradient(tensor: torch.Tensor, callback: Callable[[torch.Tensor], None]) -> Handle:
    """Call back with the total gradient of a tensor as it is now.

    An in-place change of a plain tensor leaves the hook where it is. That of a view does not:
    torch then takes the view out of the graph and changes the tensor behind it, so that nothing
    ever arrives. The output of ``torch.nn.Linear`` for inputs of three axes is such a view. What
    arrives at the tensor behind it, as it is now, holds the view's gradient.

    Args:
        tensor: Requires a gradient.
        callback: Gets a gradient of the tensor's shape, at most once a backward pass; none where
            a function of the user's own gave None.
    """
    callback = _without_none(callback)
    base = tensor._base
    if base is None:
        return _Hook(tensor, callback)
    if base.requires_grad and tensor.is_leaf and not base.is_leaf:
        # Seen inside a function of the user's own that hands on what it took: torch gives it its
        # place in the graph when the function returns, and a hook from before would stay outside.
        return Handles()
    behind = _behind(base) if tensor.dtype == base.dtype and _has_each_once(tensor) else None
    return _Hook(tensor, callback) if behind is None else _View(tensor, behind, callback)


def _without_none(callback: Callable[[torch.Tensor], None]) -> Callable[[Any], None]:
    def arrived(gradient: torch.Tensor | None) -> None:
        if gradient is not None:
            callback(gradient)

    return arrived


class _Hooks(OrderedDict[Any, Any]):
    """The hooks of a tensor in one version.

    ``unsqueeze_`` and its like give a tensor another place in the graph, but leave its hooks where
    they are: there the gradient has the shape that the tensor had before.
    """

    __slots__ = ("version",)

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version = version


class _Hook:
    """A hook on a tensor, as ``Tensor.register_hook`` sets it: its own handle takes longer."""

    __slots__ = ("_hooks",)

    def __init__(self, tensor: torch.Tensor, callback: Callable[[torch.Tensor], None]) -> None:
        hooks: Any = tensor._backward_hooks
        version = tensor._version
        if hooks is None or (type(hooks) is _Hooks and hooks.version != version):
            hooks = tensor._backward_hooks = _Hooks(version)
            node = tensor.grad_fn  # each look makes an object
            if node is not None:
                node._register_hook_dict(tensor)
        hooks[self] = callback
        self._hooks = hooks

    def remove(self) -> None:
        """Take the callback off."""
        self._hooks.pop(self, None)


class _Behind(_Hook):
    """A tensor at which gradients of its views may arrive."""

    __slots__ = ("is_changed", "offset", "size", "stride", "tensor", "version", "views")

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor, self)
        self.tensor, self.version = weakref.ref(tensor), tensor._version
        self.size, self.stride = tensor.size(), tensor.stride()
        self.offset = int(tensor.storage_offset())
        self.is_changed = False  # as far as a later hook saw
        self.views: dict[_View, None] = {}

    def __call__(self, gradient: torch.Tensor | None) -> None:
        if gradient is None:
            return
        for view in tuple(self.views):
            view.arrived_behind(gradient)


class _View(_Hook):
    """A view whose gradient may arrive at the tensor behind it."""

    __slots__ = ("_behind", "_callback", "_has_arrived", "_offset", "_size", "_stride", "_tensor")

    def __init__(
        self, tensor: torch.Tensor, behind: _Behind, callback: Callable[[torch.Tensor], None]
    ) -> None:
        super().__init__(tensor, self._arrived)
        self._callback, self._behind, self._has_arrived = callback, behind, False
        self._tensor = weakref.ref(tensor)
        self._size, self._stride = tensor.size(), tensor.stride()
        self._offset = int(tensor.storage_offset()) - behind.offset
        behind.views[self] = None

    def remove(self) -> None:
        """Wait no longer at either."""
        super().remove()
        views = self._behind.views
        views.pop(self, None)
        if not views:
            self._behind.remove()

    def arrived_behind(self, gradient: torch.Tensor) -> None:
        """Call back with the part of the gradient that is the view's, if it came only so."""
        behind = self._behind
        if self._has_arrived:
            return
        known = [one for one in (self._tensor(), behind.tensor()) if one is not None]
        is_changed = all(one._version != behind.version for one in known) if known else None
        if not (behind.is_changed if is_changed is None else is_changed):
            return  # there is none, or it comes by itself: nothing was changed in place
        memory = gradient.new_empty_strided(behind.size, behind.stride).copy_(gradient)
        self._arrived(memory.as_strided(self._size, self._stride, self._offset))

    def _arrived(self, gradient: torch.Tensor) -> None:
        self._has_arrived = True
        self._callback(gradient)


def _behind(base: torch.Tensor) -> _Behind | None:
    """Return what waits at a tensor for its views, unless its gradient would lie otherwise.

    It is the one that is there, unless the tensor was changed or the user set a hook behind it.
    """
    hooks: Any = base._backward_hooks
    last = next(reversed(hooks.values()), None) if hooks else None
    if type(last) is _Behind:
        if last.version == base._version:
            return last
        last.is_changed = True
    if not base.requires_grad or base.is_leaf:
        return None
    is_dense = base.is_contiguous()
    if not is_dense and torch.empty_like(base, device="meta").stride() != base.stride():
        return None
    return _Behind(base)


def _has_each_once(view: torch.Tensor) -> bool:
    """Return whether a view has each of its elements once."""
    strides = view.stride()
    if 0 not in strides:
        return True
    return all(stride for stride, size in zip(strides, view.shape, strict=True) if size > 1)
