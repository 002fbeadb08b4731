"""What PaddlePaddle does anywhere in the process.

Its optimizers have no hooks, and each class may bring its own ``step`` or ``minimize``: all classes
that there are get a patch, later ones when the first optimizer of them is made.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import paddle
from paddle import nn
from paddle.amp.grad_scaler import AmpScaler, GradScaler
from paddle.distributed.fleet.meta_parallel.pipeline_parallel import PipelineParallel
from paddle.distributed.fleet.utils.mix_precision_utils import MixPrecisionOptimizer

from padiff.dumper.watch import Handles, Patch, ScaledLosses, watch_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Handle, Module, Tensor
    from padiff.dumper.trainer import Optimizer

__all__ = ["BackwardPasses", "PaddleWatch"]

_UPDATES = ("step", "minimize")
_TRAINS = "train_batch"
_PASSES = ("run_backward", "run_partial_grad")
"""What runs all backward passes of Paddle: those of losses, and ``paddle.grad``."""


class PaddleWatch:
    """The calls, backward passes and updates of ``paddle``."""

    def calls(
        self, kind: type | None, around: Callable[[Module], AbstractContextManager[object]]
    ) -> Handle:
        """Watch ``__call__``, and ``train_batch`` of pipelines, which call no layer as a whole."""
        if kind is not None:
            names = [name for name in ("__call__", _TRAINS) if hasattr(kind, name)]
            return Handles(*(watch_calls(kind, around, name) for name in names))
        pipelines = [base for base in _with_subclasses(PipelineParallel) if _TRAINS in vars(base)]
        return Handles(
            watch_calls(nn.Layer, around),
            *(watch_calls(base, around, _TRAINS) for base in pipelines),
        )

    def updates(
        self,
        before: Callable[[Optimizer], None],
        after: Callable[[Optimizer, bool], None],
    ) -> Handle:
        """Watch ``step`` and ``minimize`` of every class of optimizers."""
        return _Updates(before, after)

    def losses(self, before: Callable[[Tensor], None], after: Callable[[], None]) -> Handle:
        """Watch both ways into a backward pass."""
        scaled = ScaledLosses(before, after)
        return Handles(
            Patch(AmpScaler, "scale", scaled.wrap_scale),
            Patch(paddle.Tensor, "backward", scaled.wrap_backward),
            Patch(paddle.autograd, "backward", scaled.wrap_backward),
        )

    def handed(self, after: Callable[[Tensor, Tensor], None]) -> Handle:
        """Watch what ``paddle.grad`` runs."""

        def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
            def called(outputs: object, inputs: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                result = run(outputs, inputs, *args, **kwargs)
                for tensor, gradient in zip(inputs, result, strict=True):
                    if gradient is not None:
                        after(tensor, gradient)
                return result

            return called

        return Patch(paddle.base.core.eager, "run_partial_grad", wrap)

    def rehearsals(self, around: Callable[[], AbstractContextManager[object]]) -> Handle:
        """Watch nothing: Paddle's pipelines send shapes along with what they compute."""
        del around
        return Handles()

    def records_gradients(self) -> bool:
        """Return whether operations of this thread become part of a graph."""
        return bool(paddle.is_grad_enabled())


class BackwardPasses(threading.local):
    """Counts the backward passes that run in a thread.

    Paddle's own flag goes down when a pass inside another ends, as each ``recompute`` makes one.
    """

    depth = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count while a ``with`` block runs."""

        def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                self.depth += 1
                try:
                    return run(*args, **kwargs)
                finally:
                    self.depth -= 1

            return called

        patches = [Patch(paddle.base.core.eager, name, wrap) for name in _PASSES]
        try:
            yield
        finally:
            for patch in reversed(patches):
                patch.remove()


class _Updates:
    """The patches of all classes of optimizers met so far."""

    def __init__(
        self,
        before: Callable[[Optimizer], None],
        after: Callable[[Optimizer, bool], None],
    ) -> None:
        self._before, self._after = before, after
        self._count = 0
        self._is_inside = False
        self._patched: set[type] = set()
        self._patches = [
            Patch(paddle.optimizer.Optimizer, "__init__", self._wrap_init),
            Patch(GradScaler, "step", self._wrap_scaler),
            Patch(AmpScaler, "minimize", self._wrap_scaler),
            Patch(MixPrecisionOptimizer, "step", self._wrap_update),
        ]
        for kind in _with_subclasses(paddle.optimizer.Optimizer):
            self._patch(kind)

    def remove(self) -> None:
        """Put everything back."""
        for patch in reversed(self._patches):
            patch.remove()

    def _patch(self, kind: type) -> None:
        for base in kind.__mro__:
            if issubclass(base, paddle.optimizer.Optimizer) and base not in self._patched:
                self._patched.add(base)
                names = [name for name in _UPDATES if name in vars(base)]
                self._patches += [Patch(base, name, self._wrap_update) for name in names]

    def _wrap_init(self, init: Callable[..., None]) -> Callable[..., None]:
        def called(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
            init(optimizer, *args, **kwargs)
            self._patch(type(optimizer))

        return called

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        def called(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            if self._is_inside:  # minimize calls step, and a class its base's
                return update(optimizer, *args, **kwargs)
            self._is_inside = True
            try:
                self._before(optimizer)
                result = update(optimizer, *args, **kwargs)
            finally:
                self._is_inside = False
            self._count += 1
            self._after(optimizer, True)  # noqa: FBT003 - the callback's second argument
            return result

        return called

    def _wrap_scaler(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def called(scaler: object, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            known = self._count
            result = step(scaler, optimizer, *args, **kwargs)
            if self._count == known:
                self._after(optimizer, False)  # noqa: FBT003
            return result

        return called


def _with_subclasses(kind: type[Any]) -> Iterator[type]:
    yield kind
    for below in kind.__subclasses__():
        yield from _with_subclasses(below)
