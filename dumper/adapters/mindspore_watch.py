"""What MindSpore does anywhere in the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mindspore import nn
from mindspore.experimental.optim import Optimizer as GroupOptimizer
from mindspore.graph.api import _pynative_executor as executor

from padiff.dumper.watch import Handles, Patch, Watch, watch_calls

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Handle, Module, Tensor
    from padiff.dumper.trainer import Optimizer

    from .mindspore_tape import Tape


def is_optimizer(thing: object) -> bool:
    """Return whether this is one of MindSpore's optimizers, old or new."""
    return isinstance(thing, (nn.Optimizer, GroupOptimizer))


class MindSporeWatch(Watch):
    """The calls, backward passes and updates of ``mindspore``."""

    def __init__(self, tape: Tape) -> None:
        """Hear of gradients by the tape."""
        self._tape = tape

    def calls(
        self, kind: type | None, around: Callable[[Module], AbstractContextManager[object]]
    ) -> Handle:
        """Watch ``__call__``."""
        return watch_calls(kind or nn.Cell, around)

    def updates(
        self,
        before: Callable[[Optimizer], None],
        after: Callable[[Optimizer, bool], None],
    ) -> Handle:
        """Watch the calls of optimizers, which are Cells."""

        def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(cell: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                if not is_optimizer(cell):
                    return call(cell, *args, **kwargs)
                before(cell)
                result = call(cell, *args, **kwargs)
                after(cell, True)  # noqa: FBT003 - the callback's second argument
                return result

            return called

        return Patch(nn.Cell, "__call__", wrap)

    def losses(self, before: Callable[[Tensor], None], after: Callable[[], None]) -> Handle:
        """Watch ``mindspore.grad``, which is handed a loss when its graph is closed."""

        def wrap_end(end_graph: Callable[..., Any]) -> Callable[..., Any]:
            def called(own: Any, function: object, output: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                before(output[0] if isinstance(output, tuple) else output)
                return end_graph(own, function, output, *args, **kwargs)

            return called

        def wrap_grad(grad: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any) -> Any:  # noqa: ANN401
                result = grad(*args)
                after()
                return result

            return called

        kind = type(executor)
        return Handles(Patch(kind, "end_graph", wrap_end), Patch(kind, "grad", wrap_grad))

    def handed(self, after: Callable[[Tensor, Tensor], None]) -> Handle:
        """Watch what ``mindspore.grad`` gives."""
        return self._tape.listen(after)

    def records_gradients(self) -> bool:
        """Return whether operations of this thread become part of a graph."""
        return bool(executor.enable_grad())
