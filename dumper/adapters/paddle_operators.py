"""Watches every call of Paddle's operators: their bindings are replaced for as long as it lasts.

Paddle has no mode that sees calls, as torch has. All that its Python code computes goes through the
builtins of ``paddle._C_ops`` and ``paddle._legacy_C_ops`` and through methods of its tensors.
``from paddle._C_ops import matmul`` binds a builtin elsewhere, so that every module is searched.

Some draw on their way: the noise of choices, slopes below zero. What they return does not tell all
of it. So an operator is called once more, with its generator where it was before and arguments that
show what it draws, and the generator goes back.
"""

from __future__ import annotations

import sys
import threading
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from operator import is_
from types import BuiltinFunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import paddle
from paddle import _C_ops, _legacy_C_ops
from paddle.base import core, framework

from padiff.dumpfile import Argument, Dtype, Mode, Opaque

from .paddle_random import RandomState, default_generator
from .paddle_tensors import dtype_name
from .patched import Listeners, PatchedOperators, class_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence


_METHODS: Final = (
    "__abs__", "__add__", "__and__", "__bool__", "__complex__", "__deepcopy__", "__div__",
    "__eq__", "__float__", "__floordiv__", "__ge__", "__getitem__", "__gt__", "__index__",
    "__int__", "__invert__", "__le__", "__lshift__", "__lt__", "__matmul__", "__mod__", "__mul__",
    "__ne__", "__neg__", "__nonzero__", "__or__", "__pow__", "__radd__", "__rand__", "__rdiv__",
    "__rfloordiv__", "__rlshift__", "__rmatmul__", "__rmod__", "__rmul__", "__ror__", "__rpow__",
    "__rrshift__", "__rshift__", "__rsub__", "__rtruediv__", "__rxor__", "__setitem__", "__sub__",
    "__truediv__", "__xor__", "_copy_to", "_getitem_from_offset", "_inplace_assign",
    "_share_buffer_to", "_slice", "clone", "contiguous", "copy_", "detach", "detach_", "item",
    "numpy", "set_value", "tolist",
)  # fmt: skip
"""Tensor methods that compute outside of ``paddle._C_ops`` or read numbers."""
_CREATORS: Final = ("grad", "to_tensor")
"""Functions of ``paddle`` that make tensors outside of ``paddle._C_ops``."""
_DRAWING: Final = frozenset({
    "bernoulli", "binomial", "class_center_sample", "cudnn_lstm", "dirichlet", "dropout",
    "dropout_nd", "exponential", "flash_attn", "flash_attn_qkvpacked", "flash_attn_unpadded",
    "flash_attn_v3", "flashmask_attention", "fractional_max_pool2d", "fractional_max_pool3d",
    "fused_attention", "fused_bias_dropout_residual_layer_norm", "fused_dropout_add",
    "fused_feedforward", "gaussian", "gaussian_inplace", "graph_khop_sampler",
    "graph_sample_neighbors", "gumbel_softmax", "memory_efficient_attention", "multinomial", "nce",
    "poisson", "randint", "random", "random_routing", "randperm", "rnn", "rrelu", "seed",
    "self_dp_attention", "shuffle_batch", "standard_gamma", "top_p_sampling",
    "truncated_gaussian_random", "uniform", "uniform_inplace", "uniform_random",
    "uniform_random_batch_size_like", "weighted_sample_neighbors",
})  # fmt: skip
"""Operators that may draw; whether one did is seen by the generator's state."""

_WRITING: Final = {
    "_inplace_assign": (0,), "_share_buffer_to": (1,), "adadelta_": (0, 2, 3, 5),
    "adagrad_": (0, 2, 4), "adam_": (0, 3, 4, 5, 6, 7, 8), "adamax_": (0, 3, 4, 6),
    "adamw_": (0, 3, 4, 5, 6, 7, 8), "asgd_": (0, 3, 4, 6), "batch_norm": (1, 2), "copy_": (0,),
    "lamb_": (0, 3, 4, 5, 6, 7), "merged_adam_": (0, 3, 4, 5, 6, 7, 8),
    "merged_momentum_": (0, 2, 4), "momentum_": (0, 2, 4), "nadam_": (0, 3, 4, 5, 6, 7, 8),
    "radam_": (0, 3, 4, 5, 6, 7, 8), "rmsprop_": (0, 1, 3, 5, 6), "rprop_": (0, 2, 3, 4),
    "set_value": (0,), "sgd_": (0, 3), "sync_batch_norm_": (1, 2),
}  # fmt: skip
"""Operators that write into arguments at these positions without raising their version.

Of those in place (``full_``, ``exponential_``) some raise it and some do not.
"""
_LAYERS: Final = 9
"""Where ``rnn`` has the number of its layers."""


@cache
def _places(name: str) -> tuple[int, ...]:
    """Return which positional arguments an operator may write into."""
    short = name.rpartition(".")[2]
    is_in_place = short.endswith("_") and not short.endswith("__")
    return _WRITING.get(short, (0,) if is_in_place else ())


@cache
def _may_draw(name: str) -> bool:
    return name.rpartition(".")[2].rstrip("_") in _DRAWING


_thread = Listeners()


def _watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that hands its calls over while an operator is listened for."""

    @wraps(function)
    def operator(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        thread = _thread
        is_static = framework.global_var._dygraph_tracer_ is None  # what is made is no tensor
        if thread.is_busy or not thread.runs or is_static:
            return function(*args, **kwargs)
        thread.is_busy = True
        try:
            return thread.runs[-1](name, function, args, kwargs)
        finally:
            thread.is_busy = False

    return operator


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """What a module binds of the operators."""

    module: weakref.ref[ModuleType]
    size: int
    """How many names it had; with another number it is searched again."""
    originals: dict[str, Any]
    replacements: dict[str, Any]

    def install(self, names: dict[str, Any]) -> None:
        """Bind the replacements.

        Args:
            names: What the module holds.
        """
        _exchange(names, self.originals, self.replacements)

    def remove(self) -> None:
        """Bind the operators again, if the module is still there."""
        module = self.module()
        if module is not None:
            _exchange(vars(module), self.replacements, self.originals)


def _exchange(names: dict[str, Any], old: dict[str, Any], new: dict[str, Any]) -> None:
    """Bind other things to names, but for those that somebody has bound to something else."""
    if all(map(is_, map(names.get, old), old.values())):  # thousands of names
        names.update(new)
    else:
        names.update({name: new[name] for name, thing in old.items() if names.get(name) is thing})


class _Bindings:
    """The places where Paddle's operators are bound, and what replaces them.

    To search all modules takes 10 to 20 ms, so that what was found is remembered.
    """

    def __init__(self) -> None:
        self._replacements: dict[int, Callable[..., Any]] = {}
        self._originals: dict[int, Any] = {}
        self._methods: dict[str, tuple[Any, Any]] = {}
        """Method of ``paddle.Tensor`` and its replacement, by name."""
        self._known: dict[int, _Bound] = {}
        self._loaded: list[_Bound] = []
        """What is known of each loaded module, in their order."""
        self._references = 0
        """How often replacements are referred to while none is installed."""
        self._users = 0
        self._lock = threading.Lock()

    def install(self) -> None:
        """Replace all bindings, unless they are replaced already."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            if not self._replacements:
                self._prepare()
                self._references = self._count()
            self._replace_all()
            for name, (_, watched) in self._methods.items():
                setattr(paddle.Tensor, name, watched)

    def remove(self) -> None:
        """Put all bindings back that nobody needs replaced any more."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for bound in self._known.values():
                if bound.originals:
                    bound.remove()
            for name, (method, _) in self._methods.items():
                setattr(paddle.Tensor, name, method)
            if self._count() != self._references:
                # Something was bound to a replacement meanwhile, by an import for instance.
                for module in _modules():
                    self._put_back(vars(module))
                # What a closure or an error's trace holds stays: no reason to search again.
                self._references = self._count()

    def _prepare(self) -> None:
        """Make what replaces each operator, once."""
        named = {f"paddle.{name}": getattr(paddle, name) for name in _CREATORS}
        modules = {"paddle._legacy_C_ops": _legacy_C_ops, "paddle._C_ops": _C_ops}
        for path, module in modules.items():
            for name, function in vars(module).items():
                if isinstance(function, BuiltinFunctionType) and not name.startswith("__"):
                    named[f"{path}.{name}"] = function
        for name, function in named.items():
            watched = _watched(name, function)
            self._replacements[id(function)] = watched
            self._originals[id(watched)] = function
        for name in _METHODS:
            method = paddle.Tensor.__dict__.get(name)
            if method is not None:
                self._methods[name] = method, _watched(f"paddle.Tensor.{name}", method)

    def _count(self) -> int:
        """Count the references to replacements that are none of what is remembered here."""
        own = sum(len(bound.replacements) for bound in self._known.values())
        return sum(map(sys.getrefcount, self._replacements.values())) - own

    def _replace_all(self) -> None:
        """Bind replacements in all modules; looks only at some where no name was added."""
        modules = list(_modules())
        if not self._is_loaded(modules):
            for module in modules:
                self._search(module)
            self._loaded = [self._known[id(module)] for module in modules]
        for bound, module in zip(self._loaded, modules, strict=True):
            if bound.originals:
                bound.install(vars(module))

    def _is_loaded(self, modules: list[ModuleType]) -> bool:
        """Return whether these modules are those that were searched, with as many names."""
        loaded = self._loaded
        return (
            len(modules) == len(loaded)
            and list(map(len, map(vars, modules))) == [bound.size for bound in loaded]
            and all(bound.module() is one for bound, one in zip(loaded, modules, strict=True))
        )

    def _search(self, module: ModuleType) -> None:
        """Find all names of a module that are bound to operators."""
        names = vars(module)
        bound = self._known.get(id(module))
        if bound is None or bound.size != len(names) or bound.module() is not module:
            known = self._replacements
            found = {name: thing for name, thing in tuple(names.items()) if id(thing) in known}
            bound = _Bound(
                module=weakref.ref(module),
                size=len(names),
                originals=found,
                replacements={name: known[id(thing)] for name, thing in found.items()},
            )
            self._known[id(module)] = bound

    def _put_back(self, names: dict[str, Any]) -> None:
        """Bind operators to those names of a module that are bound to replacements."""
        known = self._originals
        found = {name: thing for name, thing in tuple(names.items()) if id(thing) in known}
        names.update({name: known[id(thing)] for name, thing in found.items()})


def _modules() -> Iterator[ModuleType]:
    modules: tuple[Any, ...] = tuple(sys.modules.values())  # whatever people put there
    # Libraries of cffi say that they are modules, and are none.
    return (module for module in modules if issubclass(type(module), ModuleType))


class PaddleOperators(PatchedOperators):
    """The operators of ``paddle``."""

    def __init__(self) -> None:
        """Replace nothing yet."""
        super().__init__(_Bindings(), _thread)

    def stamp(self, tensor: paddle.Tensor) -> tuple[Hashable, tuple[int, ...]]:
        """Return the in-place counter and the shape."""
        return tensor._inplace_version(), tuple(tensor.shape)

    def memory(self, tensor: paddle.Tensor) -> Hashable:
        """Return the address at which the memory begins that a tensor and its views share.

        What has none, as outputs that an operator left out, shares it with nobody.
        """
        place: Any = tensor.data_ptr()
        return -id(tensor) if place is None else int(place - tensor._offset())

    def dtype(self, tensor: paddle.Tensor) -> str:
        """Return the dtype's name without ``paddle.``."""
        return dtype_name(tensor)

    def is_recordable(self, tensor: paddle.Tensor) -> bool:
        """Refuse what has no dense elements of its own; no memory is needed for none."""
        is_there = tensor._is_initialized() or 0 in tensor.shape
        return bool(is_there and tensor.is_dense() and not tensor.is_dist())

    def argument(self, thing: object) -> Argument:
        """Return dtypes as such, and a name for everything else."""
        if isinstance(thing, paddle.dtype):
            return Dtype(str(thing).removeprefix("paddle."))
        if isinstance(thing, core.Place | core.CPUPlace | core.CUDAPlace | core.CUDAPinnedPlace):
            return Opaque(str(thing))
        return class_name(thing)

    def is_plain(self, name: str) -> bool:
        """Know the operators that may write into their arguments."""
        return not _places(name)

    def may_write(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Sequence[paddle.Tensor]:
        """Return what stands where an operator of this name may write."""
        found = [args[place] for place in _places(name) if place < len(args)]
        parts = [part for one in found for part in (one if isinstance(one, list) else (one,))]
        return [one for one in parts if isinstance(one, paddle.Tensor)]

    def may_draw(self, name: str) -> bool:
        """Look the last part of the name up, of operators in place and others alike."""
        return _may_draw(name)

    def drawn_inside(
        self,
        name: str,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        made: Any,  # noqa: ANN401
        before: Hashable,
    ) -> paddle.Tensor | None:
        """Draw once more, or take what recurrent layers return of what they keep between layers."""
        if name.rpartition(".")[2] != "rnn":
            return drawn_again(name, given[0], before) if isinstance(before, RandomState) else None
        layers = given[0][_LAYERS]
        kept: paddle.Tensor = made[1].astype("bool")
        return kept if layers == 2 else paddle.stack([kept] * (layers - 1))  # noqa: PLR2004

    def mode(self) -> int:
        """Ask Paddle's tracer for autocast and for its grad mode."""
        tracer: Any = framework._dygraph_tracer()  # type: ignore[no-untyped-call]
        mode = 0 if tracer._has_grad else _NO_GRAD
        dtype = tracer._amp_dtype
        # To compare levels takes 2 µs; without autocast this is the dtype.
        if dtype != "float32" and tracer._amp_level != core.AmpLevel.O0:
            mode |= _FLOAT16 if dtype == "float16" else _BFLOAT16
        return mode


_NO_GRAD, _FLOAT16, _BFLOAT16 = int(Mode.NO_GRAD), int(Mode.FLOAT16), int(Mode.BFLOAT16)


def _noise(given: tuple[Any, ...]) -> paddle.Tensor:
    """Return exponential numbers, whose logarithms are taken from the scores; but for a factor.

    A factor that all scores of one choice share does not change their softmax.
    """
    x, _, _, axis = given
    return 1.0 / _C_ops.gumbel_softmax(paddle.zeros_like(x), 1.0, False, axis)  # noqa: FBT003


def _slopes(given: tuple[Any, ...]) -> paddle.Tensor:
    """Return where between the two bounds the slope of each element lies, from 0 to 1.

    Only for elements below zero a slope is drawn; the others get 0.
    """
    x, low, high, _ = given
    is_below = x < 0
    ones: Any = 1.0 - 2.0 * is_below.astype(x.dtype)
    made: Any = _C_ops.rrelu(ones, low, high, False)  # noqa: FBT003
    places = (-made - low) / max(high - low, 1e-30)
    return paddle.where(is_below, places.clip(0.0, 1.0), paddle.zeros_like(x))


_AGAIN: dict[str, Callable[[tuple[Any, ...]], paddle.Tensor]] = {
    "gumbel_softmax": _noise,
    "rrelu": _slopes,
}
"""Operators by their last names, and what shows what they drew."""


_EXACT = (paddle.float32, paddle.float64)
"""Dtypes in which what is shown is what was drawn."""


def drawn_again(name: str, given: tuple[Any, ...], before: RandomState) -> paddle.Tensor | None:
    """Return what an operator drew, in the form in which its row of the table takes it.

    Args:
        name: Of the operator.
        given: Its positional arguments.
        before: The states of all generators before it was called.

    Returns:
        None for an operator of which that cannot be shown.
    """
    show = _AGAIN.get(name.rpartition(".")[2])
    if show is None or given[0].dtype not in _EXACT:
        return None
    with _put_back(given[0].place, before), paddle.no_grad():
        return show(given)


@contextmanager
def _put_back(place: Any, before: RandomState) -> Iterator[None]:  # noqa: ANN401
    """Put the generator of a device where it was, and afterwards where it is now."""
    generator = default_generator(place)
    now = generator.get_state()
    generator.set_state(before.of(place))
    try:
        yield
    finally:
        generator.set_state(now)
