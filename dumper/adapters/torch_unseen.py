"""What torch computes without telling function modes: each call becomes one operator.

Scripted and traced functions run in an interpreter of their own, transformations of ``torch.func``
on wrapped tensors, ``torch.cond`` on a graph. None of them is a call that a function mode sees.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_unflatten

from padiff.dumper.watch import Patch, SharedPatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from padiff.dumper.operators import RunOperator

Thing: TypeAlias = Any
"""What users' functions take and make."""
_TRANSFORMATIONS = {
    "torch._functorch.eager_transforms": {
        "grad_impl": "torch.func.grad",
        "grad_and_value_impl": "torch.func.grad_and_value",
        "_jvp_with_argnums": "torch.func.jvp",
        "_vjp_with_argnums": "torch.func.vjp",
    },
}
"""What runs transformations, and the public name of each; versions of torch lack some."""
_MAPS = "torch._functorch.apis"
"""Where ``torch.vmap`` is."""
_SHARDED = "torch.distributed.fsdp._fully_shard._fsdp_param_group"
"""Where FSDP2 gathers weights: the buffers that it fills and frees for that are nobody's values."""
GATHER = "torch.distributed.fsdp.all_gather"
"""Name of the operator that takes the shards of weights and makes them whole."""
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
    maps = sys.modules.get(_MAPS)
    if hasattr(maps, "vmap_impl"):
        whole = partial(_reported, partial(_public_name, "torch.vmap"), opened=_mapped)
        yield Patch(maps, "vmap_impl", whole)
    group = getattr(sys.modules.get(_SHARDED), "FSDPParamGroup", None)
    if group is not None:
        yield Patch(group, "unshard", _unreported)
        yield Patch(group, "wait_for_unshard", _reported_gather)
    graphs = sys.modules.get(_GRAPHS)
    if hasattr(graphs, _RUN_GRAPH):
        yield Patch(graphs, _RUN_GRAPH, _reported_graph)


watch_unseen = SharedPatches(_patches).installed


class _Eager:
    """Runs compiled models eagerly until it is removed.

    Importing the compiler takes seconds, so that it waits until something is compiled.
    """

    def __init__(self) -> None:
        self._exits = ExitStack()
        self._is_over = False
        if "torch._dynamo" in sys.modules:
            self._exits.enter_context(_stance("force_eager"))
        else:
            self._waiting = Patch(torch, "compile", self._compiling)
            self._exits.callback(self._waiting.remove)

    def _compiling(self, compile_: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            self._waiting.remove()
            if not self._is_over:  # who keeps this function may call it at any time
                self._exits.enter_context(_stance("force_eager"))
            return compile_(*args, **kwargs)

        return called

    def remove(self) -> None:
        """Compile again."""
        self._is_over = True
        self._exits.close()


def _eager() -> Iterator[_Eager]:
    if hasattr(torch.compiler, "set_stance"):
        yield _Eager()


force_eager = SharedPatches(_eager).installed
"""Run compiled models eagerly, also those that are compiled only now.

The stance is the whole process's, and leaving a context puts back what was there when it was
entered. So contexts that are not left in the order in which they were entered would leave a process
that never compiles again: the first one sets it, and the last one puts back what was before.
"""


def _stance(name: str) -> AbstractContextManager[object]:
    stance: AbstractContextManager[object] = torch.compiler.set_stance(name)
    return stance


def _reported(
    name_of: Callable[[Any], str],
    function: Callable[..., Any],
    *,
    opened: Callable[..., list[Any]] | None = None,
) -> Callable[..., Any]:
    """Return a function whose calls are handed over.

    Args:
        name_of: Returns the operator's name, by the first argument.
        function: That makes the calls.
        opened: Does the same by functions that modes see, and returns the result in a list; an
            empty one if it cannot.
    """

    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        mode = _active()
        if mode is None:
            return function(*args, **kwargs)
        if opened is not None and (made := opened(*args, **kwargs)):
            return made[0]
        mode.is_inside = True
        try:
            # What is called stands first: the name tells it.
            whole = partial(function, args[0])
            return mode.run(name_of(args[0]), whole, args[1:], kwargs)
        finally:
            mode.is_inside = False

    return called


def _mapped(
    one: Callable[..., Thing],
    axes: Thing,
    ends: Thing,
    draws: str,
    _: int | None,
    *args: Thing,
    **kwargs: Thing,
) -> list[Thing]:
    """Map a function over weights, one after the other, as over the members of an ensemble.

    Returns:
        All that it makes, in a list; an empty one where something else is mapped over.
    """
    flat, form = tree_flatten(args)
    places = _broadcast_to_and_flatten(axes, form) or [None] * len(flat)
    over = [(each, place) for each, place in zip(flat, places, strict=True) if place is not None]
    if draws != "error" or not any(isinstance(each, torch.nn.Parameter) for each, _ in over):
        return []
    (each, place), *_rest = over
    calls = (map(partial(select_member, at), flat, places) for at in range(each.shape[place]))
    made = [tree_flatten(one(*tree_unflatten(list(own), form), **kwargs)) for own in calls]
    results, forms = zip(*made, strict=True)
    joined = map(
        stack_members, zip(*results, strict=True), _broadcast_to_and_flatten(ends, forms[0]) or []
    )
    return [tree_unflatten(list(joined), forms[0])]


def select_member(index: int, thing: Thing, axis: int | None) -> Thing:
    """Return what one member gets of an argument: a slice along its axis, or all of it."""
    return thing if axis is None else thing.select(axis, index)


def stack_members(made: tuple[torch.Tensor, ...], axis: int | None) -> torch.Tensor:
    """Return what all members made as one; without an axis it is the same for all."""
    return made[0] if axis is None else torch.stack(made, axis)


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


def _unreported(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of which nothing is handed over."""

    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        mode = _active()
        if mode is None:
            return function(*args, **kwargs)
        mode.is_inside = True
        try:
            return function(*args, **kwargs)
        finally:
            mode.is_inside = False

    return called


def _reported_gather(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what waits for whole weights, and is handed over as taking their shards."""

    def called(group: Any) -> None:  # noqa: ANN401 - a group of weights
        mode = _active()
        if mode is None or not group._all_gather_result:
            function(group)
            return
        mode.is_inside = True
        try:
            shards = [one.sharded_param for one in group.fsdp_params]
            mode.run(GATHER, partial(_gathered, function, group), tuple(shards), {})
        finally:
            mode.is_inside = False

    return called


def _gathered(function: Callable[..., Any], group: Any, *_: object) -> list[torch.Tensor]:  # noqa: ANN401
    function(group)
    return [one.unsharded_param for one in group.fsdp_params]


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
