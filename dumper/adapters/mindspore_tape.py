"""MindSpore's gradients of a forward pass that runs before anybody asks for them.

``mindspore.grad`` takes a function and runs it. What it does can be done piece by piece: open a
graph, run anything, close the graph at a loss, ask for the gradients of some tensors. So a model
runs once, the loss is a value as everywhere, and hooks on tensors hear of their total gradients.
The first call of a hooked Cell opens the graph, unless ``mindspore.grad`` of the user's own has.
"""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import mindspore
from mindspore.graph.api import _pynative_executor as executor
from mindspore.ops.composite.base import GradOperation

from padiff.dumper.watch import Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from padiff.dumper.adapter import Handle, Tensor


def _step() -> None:
    """Stand for the function that a graph is of."""


class Tape:
    """The graph of the step that is running, and the gradients of the last one."""

    def __init__(self) -> None:
        self._leaves: dict[int, weakref.ref[Tensor]] = {}
        """What gradients are computed for."""
        self._gradients: dict[int, Tensor] = {}
        self._is_recording = False
        self._is_open = False
        self._handed: list[Callable[[Tensor, Tensor], None]] = []

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Let calls open a graph while a ``with`` block runs."""
        patches = [
            Patch(type(executor), "new_graph", self._make_room),
            Patch(type(executor), "grad", self._listen),
        ]
        before, self._is_recording = self._is_recording, True
        try:
            yield
        finally:
            self._is_recording = before
            self._abandon()
            for patch in reversed(patches):
                patch.remove()

    def begin(self) -> None:
        """Open a graph, unless there is one, or nobody would ask for gradients."""
        if self._is_recording and not executor.grad_flag() and executor.enable_grad():
            executor.set_grad_flag(True)
            self._is_open = True
            executor.new_graph(_step)

    def want(self, tensors: Iterable[Tensor]) -> None:
        """Compute gradients of these, too, wherever they require one."""
        self._leaves.update((id(one), weakref.ref(one)) for one in tensors)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of a loss, and add them to those that are there."""
        alive = (reference() for reference in self._leaves.values())
        leaves = [one for one in alive if one is not None and one.requires_grad]
        executor.end_graph(_step, loss)
        self._is_open = False
        made = executor.grad(
            _step,
            GradOperation(get_by_list=True),
            tuple(leaves),
            (0,),
            False,  # noqa: FBT003
        )
        executor.clear_res()
        for leaf, gradient in zip(leaves, made, strict=True):
            earlier = self._gradients.get(id(leaf))
            self._gradients[id(leaf)] = gradient if earlier is None else earlier + gradient

    def gradient(self, leaf: Tensor) -> Tensor | None:
        """Return the gradient of a leaf, None without any."""
        return self._gradients.get(id(leaf))

    def scale(self, leaves: Iterable[Tensor], factor: float) -> None:
        """Multiply the gradients of some leaves."""
        for leaf in leaves:
            if id(leaf) in self._gradients:
                self._gradients[id(leaf)] = self._gradients[id(leaf)] * factor

    def clear(self) -> None:
        """Forget all gradients."""
        self._gradients.clear()

    def listen(self, after: Callable[[Tensor, Tensor], None]) -> Handle:
        """Call back with each parameter that the user asked a gradient of, and the gradient."""
        self._handed.append(after)
        return _Listener(self._handed, after)

    def _abandon(self) -> None:
        """Close a graph of which nobody wants gradients any more."""
        if self._is_open:
            executor.end_graph(_step, mindspore.Tensor(0.0))
            executor.set_grad_flag(False)
            executor.clear_res()
            self._is_open = False

    def _make_room(self, new_graph: Callable[..., None]) -> Callable[..., None]:
        """Let the user's own ``mindspore.grad`` take the place of ours, or be of higher order."""

        def called(own: Any, function: object, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            if self._is_open and function is not _step:
                self._abandon()
                executor.set_grad_flag(True)
            new_graph(own, function, *args, **kwargs)

        return called

    def _listen(self, grad: Callable[..., Any]) -> Callable[..., Any]:
        def called(own: Any, function: object, how: object, weights: Any, *args: Any) -> Any:  # noqa: ANN401
            made = grad(own, function, how, weights, *args)
            if function is not _step and weights is not None:
                self._tell(weights, made)
            return made

        return called

    def _tell(self, weights: Any, made: Any) -> None:  # noqa: ANN401 - one or many
        """Tell of the gradients of weights, which come behind those of inputs if there are any."""
        several = isinstance(weights, (list, tuple))
        asked = list(weights) if several else [weights]
        if several and len(made) == 2 and isinstance(made[1], tuple) and len(asked) == len(made[1]):  # noqa: PLR2004
            made = made[1]
        found = list(made) if isinstance(made, tuple) else [made]
        if len(found) == len(asked):
            for weight, gradient in zip(asked, found, strict=True):
                for after in tuple(self._handed):
                    after(weight, gradient)


class _Listener:
    """One who hears of gradients."""

    def __init__(self, all_of_them: list[Any], one: object) -> None:
        self._all, self._one = all_of_them, one

    def remove(self) -> None:
        """Hear no more."""
        if self._one in self._all:
            self._all.remove(self._one)
