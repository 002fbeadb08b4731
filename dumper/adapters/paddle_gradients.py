"""Total gradients of Paddle's tensors, those that ``paddle.grad`` takes of leaves too."""

from __future__ import annotations

import weakref
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from padiff.dumper.adapter import Handle, Tensor

__all__ = ["GradientHooks"]


class GradientHooks:
    """The hooks on tensors that one adapter has set."""

    def __init__(self) -> None:
        """Have set none yet."""
        self._of_leaf: dict[int, list[_Hook]] = defaultdict(list)
        """By identity; a hook keeps its leaf alive until it is taken off."""

    def add(self, tensor: Tensor, callback: Callable[[Tensor], None]) -> Handle:
        """Call back with the total gradient of the tensor as it is now."""
        return _Hook(tensor, callback, self._of_leaf)

    def handed(self, tensor: Tensor, gradient: Tensor) -> None:
        """Call back for a leaf of which ``paddle.grad`` gave the gradient.

        Paddle runs the hooks of all tensors on its way but those of the leaves at its end (torch
        runs them all): a gradient penalty on the model's input would go unnoticed.
        """
        for hook in list(self._of_leaf.get(id(tensor), ())):
            hook.arrived(gradient)


class _Hook:
    """A tensor's hook.

    Paddle's own handle keeps the tensor, so that no activation would die before the step ends. What
    is inside the graph is only referred to; once the hook is off, it does nothing where it is left.
    """

    def __init__(
        self,
        tensor: Tensor,
        callback: Callable[[Tensor], None],
        of_leaf: dict[int, list[_Hook]],
    ) -> None:
        self._callback: Callable[[Tensor], None] | None = callback
        self._number = tensor._register_grad_hook(self.arrived)
        self._leaf = tensor if tensor.is_leaf else None
        self._inner = None if tensor.is_leaf else weakref.ref(tensor)
        self._known = of_leaf
        self._identity = id(tensor)
        if self._leaf is not None:
            of_leaf[self._identity].append(self)

    def arrived(self, gradient: Tensor | None) -> None:
        """Call back, unless the hook is off or none came, as to BatchNorm's statistics."""
        if self._callback is not None and gradient is not None:
            self._callback(gradient)

    def remove(self) -> None:
        """Take it off; it is off already where an in-place change has moved the tensor off it."""
        self._callback = None
        if self._leaf is not None:
            self._forget()
        tensor = self._leaf if self._inner is None else self._inner()
        if tensor is not None:
            tensor._remove_grad_hook(self._number)

    def _forget(self) -> None:
        own = self._known.get(self._identity, [])
        if self in own:
            own.remove(self)
        if not own:
            self._known.pop(self._identity, None)
