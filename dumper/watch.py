"""What a framework must be able to do for a script to be recorded that knows nothing of padiff.

The part of an adapter that notices what happens anywhere in the process: one implementation per
framework, in ``dumper/adapters/<framework>_watch.py``, found as ``adapter.watch``.
"""

from __future__ import annotations

import functools
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from .adapter import Handle, Module, Tensor
    from .trainer import Optimizer


class Arguments(NamedTuple):
    """What a call gets in place of its own arguments, where the context around it yields this."""

    positional: tuple[Any, ...]
    keywords: dict[str, Any]


class Watch(Protocol):
    """One framework's calls, backward passes and updates, wherever they are made."""

    def calls(
        self, kind: type | None, around: Callable[[Module], AbstractContextManager[object]]
    ) -> Handle:
        """Enter what ``around`` gives for a module during each call of it, hooks included.

        Args:
            kind: The class whose instances are watched; None for all modules.
            around: Gives the context of one call.
        """

    def updates(
        self,
        before: Callable[[Optimizer], None],
        after: Callable[[Optimizer, bool], None],
    ) -> Handle:
        """Call back around each update of any optimizer, before with its gradients unscaled.

        Args:
            before: Gets the optimizer that is about to change its parameters. Not called where it
                takes a closure, which computes the gradients and may begin another step.
            after: Gets it again, and whether it changed them: a gradient scaler may have skipped
                the update, and then ``before`` was not called.
        """

    def losses(self, before: Callable[[Tensor], None], after: Callable[[], None]) -> Handle:
        """Call back around each backward pass.

        Args:
            before: Gets each tensor that it starts from, not scaled by a scaler.
            after: Called when the gradients are there.
        """

    def handed(self, after: Callable[[Tensor, Tensor], None]) -> Handle:
        """Call back with what is handed to the script instead of being kept as ``grad``.

        Args:
            after: Gets each tensor that ``torch.autograd.grad`` or ``paddle.grad`` found a gradient
                of, and the gradient.
        """

    def rehearsals(self, around: Callable[[], AbstractContextManager[object]]) -> Handle:
        """Enter what ``around`` gives while the framework only tries the model, to learn shapes."""
        del around
        return Handles()

    def records_gradients(self) -> bool:
        """Return whether operations of this thread become part of a graph."""


class Patch:
    """A function of a class or module that is replaced until it is removed.

    Of several that replace one function each may be removed first. It stays below those that came
    later, told by its owner to do nothing, until these are gone, too.
    """

    _all: ClassVar[dict[tuple[int, str], list[Patch]]] = {}
    """Those of each function, the last one on top."""

    def __init__(
        self,
        holder: Any,  # noqa: ANN401 - a class or a module
        name: str,
        wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
    ) -> None:
        """Put the replacement there."""
        self._holder, self._name = holder, name
        self._is_own = name in vars(holder)
        self._earlier = vars(holder).get(name)
        self._is_on = True
        found = getattr(holder, name)
        setattr(holder, name, functools.wraps(found)(wrap(found)))
        self._all.setdefault((id(holder), name), []).append(self)

    def remove(self) -> None:
        """Put back what was there; harmless when done twice."""
        self._is_on = False
        key = id(self._holder), self._name
        patches = self._all.get(key, [])
        while patches and not patches[-1]._is_on:
            patches.pop()._restore()
        if not patches:
            self._all.pop(key, None)

    def _restore(self) -> None:
        if self._is_own:
            setattr(self._holder, self._name, self._earlier)
        elif self._name in vars(self._holder):
            delattr(self._holder, self._name)


class SharedPatches:
    """Patches that are there while anybody needs them, in whatever order people come and go."""

    def __init__(self, make: Callable[[], Iterable[Handle]]) -> None:
        """Replace nothing yet.

        Args:
            make: Makes the patches, each time that they are needed again.
        """
        self._make = make
        self._lock = threading.Lock()
        self._users = 0
        self._patches: list[Handle] = []

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Need them until the context is left."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._patches = list(self._make())
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                for patch in () if self._users else reversed(self._patches):
                    patch.remove()


class Handles:
    """Several things that are taken off together, the last first."""

    def __init__(self, *handles: Handle) -> None:
        """Keep them."""
        self._handles = handles

    def remove(self) -> None:
        """Take all off."""
        for handle in reversed(self._handles):
            handle.remove()


def watch_calls(
    kind: type,
    around: Callable[[Module], AbstractContextManager[object]],
    name: str = "__call__",
) -> Patch:
    """Watch the calls of a class's instances by one of its methods.

    A context that yields ``Arguments`` decides what the call gets.
    """

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(module: Module, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            with around(module) as given:
                if isinstance(given, Arguments):
                    args, kwargs = given
                return call(module, *args, **kwargs)

        return called

    return Patch(kind, name, wrap)


def nothing(*_told: object) -> None:
    """Be called back for nothing."""


class ScaledLosses:
    """Which tensor a gradient scaler made of which loss; forgets what went into backward."""

    def __init__(self, before: Callable[[Tensor], None], after: Callable[[], None]) -> None:
        """Keep whom to tell of each loss, and of each pass that has ended."""
        self._before, self._after = before, after
        self._known: dict[int, tuple[Tensor, Tensor]] = {}

    def wrap_scale(self, scale: Callable[..., Any]) -> Callable[..., Any]:
        """Note what goes in and what comes out."""

        def called(scaler: object, loss: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            scaled = scale(scaler, loss, *args, **kwargs)
            if scaled is not loss:
                self._known[id(scaled)] = (scaled, loss)
            return scaled

        return called

    def wrap_backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        """Report the tensor, or each of several, before the backward pass."""

        def called(tensors: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            for tensor in tensors if isinstance(tensors, list | tuple) else (tensors,):
                _, loss = self._known.pop(id(tensor), (tensor, tensor))
                self._before(loss)
            result = backward(tensors, *args, **kwargs)
            self._after()
            return result

        return called
