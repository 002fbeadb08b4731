"""What torch computes without telling function modes: each call becomes one operator.

Scripted and traced functions run in an interpreter of their own, transformations of ``torch.func``
on wrapped tensors, ``torch.cond`` on a graph. None of them is a call that a function mode sees.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from padiff.dumper.watch import Patch, SharedPatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from padiff.dumper.operators import RunOperator

__all__ = ["OperatorMode", "force_eager", "watch_unseen"]

_TRANSFORMATIONS = {
    "torch._functorch.apis": {"vmap_impl": "torch.vmap"},
    "torch._functorch.eager_transforms": {
        "grad_impl": "torch.func.grad",
        "grad_and_value_impl": "torch.func.grad_and_value",
        "_jvp_with_argnums": "torch.func.jvp",
        "_vjp_with_argnums": "torch.func.vjp",
    },
}
"""What runs transformations, and the public name of each; versions of torch lack some."""
_GRAPHS = "torch._higher_order_ops.utils"
_RUN_GRAPH = "_hop_compile_and_call"
"""Runs ``torch.cond`` and its like, which have no eager form: they compile their branches."""


class OperatorMode(TorchFunctionMode):
    """A function mode of this thread that hands operators over."""

    def __init__(self, run: RunOperator) -> None:
        super().__init__()
        self.run = run
        self.is_inside = False
        """Whether a call runs that function modes do not see: what it calls does not count."""


def _patches() -> Iterator[Patch]:
    yield Patch(torch._C.ScriptFunction, "__call__", partial(_reported, _function_name))
    yield Patch(torch._C.ScriptMethod, "__call__", partial(_reported, _method_name))
    for path, names in _TRANSFORMATIONS.items():
        module = sys.modules.get(path)
        for name, public in names.items():
            if hasattr(module, name):
                yield Patch(module, name, partial(_reported, partial(_public_name, public)))
    graphs = sys.modules.get(_GRAPHS)
    if hasattr(graphs, _RUN_GRAPH):
        yield Patch(graphs, _RUN_GRAPH, _reported_graph)


watch_unseen = SharedPatches(_patches).installed


@contextmanager
def force_eager() -> Iterator[None]:
    """Run compiled models eagerly, also those that are compiled only now."""
    with ExitStack() as exits:
        if not hasattr(torch.compiler, "set_stance"):
            pass
        elif "torch._dynamo" in sys.modules:
            exits.enter_context(_stance("force_eager"))
        else:  # to import it takes seconds

            def wrap(compile_: Callable[..., Any]) -> Callable[..., Any]:
                def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
                    patch.remove()
                    exits.enter_context(_stance("force_eager"))
                    return compile_(*args, **kwargs)

                return called

            patch = Patch(torch, "compile", wrap)
            exits.callback(patch.remove)
        yield


def _stance(name: str) -> AbstractContextManager[object]:
    stance: AbstractContextManager[object] = torch.compiler.set_stance(name)
    return stance


def _reported(name_of: Callable[[Any], str], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose calls are handed over.

    Args:
        name_of: Returns the operator's name, by the first argument.
        function: That makes the calls.
    """

    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        mode = _active()
        if mode is None:
            return function(*args, **kwargs)
        mode.is_inside = True
        try:
            # What is called stands first: the name tells it.
            made = partial(function, args[0])
            return mode.run(name_of(args[0]), made, args[1:], kwargs)
        finally:
            mode.is_inside = False

    return called


def _reported_graph(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what compiles and runs graphs, and is handed over; nothing else may be compiled."""

    def called(body: Any, args: Any) -> Any:  # noqa: ANN401
        mode = _active()
        if mode is None:
            return function(body, args)
        mode.is_inside = True
        try:
            name = f"torch.{body.__name__.strip('_').partition('_')[0]}"
            return mode.run(name, partial(_compiled, function, body), tuple(args), {})
        finally:
            mode.is_inside = False

    return called


def _compiled(function: Callable[..., Any], body: object, *args: object) -> Any:  # noqa: ANN401
    with torch._C.DisableTorchFunction(), _stance("default"):
        return function(body, args)


def _active() -> OperatorMode | None:
    """Return the mode of this thread that waits for operators."""
    modes = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    found = next((one for one in modes if isinstance(one, OperatorMode)), None)
    return None if found is None or found.is_inside else found


def _public_name(name: str, _: object) -> str:
    return name


def _function_name(function: Any) -> str:  # noqa: ANN401 - torch._C.ScriptFunction
    return f"torch.jit.{function.name}"


def _method_name(method: Any) -> str:  # noqa: ANN401 - torch._C.ScriptMethod
    return f"torch.jit.{method.owner._type().name()}.{method.name}"
