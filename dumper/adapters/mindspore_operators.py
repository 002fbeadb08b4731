"""Watches every call of MindSpore's operators in PyNative mode.

All that computes is reached in one of few ways: the ``__call__`` of a class of primitives, public
or inner, a method of tensors that is built in, or one of the callable objects behind
``mindspore.mint``. Each is replaced for as long as it lasts. What a primitive was made with is
recorded as keywords, so that a public one and the inner one of that name read alike.
"""

from __future__ import annotations

import threading
from functools import cache, partial, wraps
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import mindspore
from mindspore import _c_expression as built_in
from mindspore.common.dtype import Type
from mindspore.graph.api import _pynative_executor as executor
from mindspore.ops import Primitive
from mindspore.ops.auto_generate import pyboost_inner_prim

from padiff.dumpfile import Argument, Dtype, Mode

from .mindspore_tensors import dtype_name, name_of
from .patched import Busy, Listeners, PatchedOperators, class_name

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence


_OPERATORS: Final = frozenset({
    "__abs__", "__add__", "__and__", "__getitem__", "__iadd__", "__ifloordiv__", "__imod__",
    "__imul__", "__isub__", "__itruediv__", "__mod__", "__mul__", "__or__", "__pow__",
    "__setitem__", "__sub__", "__truediv__", "__xor__", "_item", "_tolist",
})  # fmt: skip
"""Methods of tensors with underscores that compute or read numbers."""
_SILENT: Final = frozenset({
    "asnumpy", "assign_value_cpp", "const_arg", "data", "data_sync", "device", "dim", "dtype",
    "getitem_index_info", "hooks", "init", "init_finished", "init_flag", "is_complex",
    "is_contiguous", "is_init", "is_meta", "is_pinned", "is_shared", "is_signed", "move_to",
    "offload", "offload_file_path", "param_info", "pin_memory", "register_hook", "remove_hook",
    "requires_grad_", "set_", "set_cast_dtype", "set_device_address", "set_dtype",
    "set_init_flag", "set_param_info", "setitem_index_info", "shape", "storage", "storage_offset",
    "stride", "symbolic_shape", "to_dlpack", "untyped_storage", "virtual_flag", "wait_pipeline",
    "get_bytes", "index_of_parent_", "parent_tensor_",
})  # fmt: skip
"""Methods of tensors that make no value and read no element."""
_NO_OPERATORS: Final = frozenset({
    "CellBackwardHook", "CompileOp", "DType", "DtypeToEnum", "DumpGradient", "Generator", "GetGrad",
    "HookBackward", "InsertGradientOf", "IsConstant", "IsDimUnKnown", "IsParameter",
    "MixedPrecisionCast", "Morph", "Print", "ProxyOp", "Rank", "SameTypeShape", "Shape",
    "StringToEnum", "TensorShape", "TopTypeof", "make_range", "typeof",
})  # fmt: skip
"""Classes of primitives that compute no value."""
_DRAWING: Final = ("dropout", "random", "normal", "uniform", "bernoulli", "multinomial", "rand")
"""Parts of the names of operators that may draw."""
_WRITING: Final = {
    "BatchNorm": (3, 4), "BatchNormExt": (3, 4), "__setitem__": (0,), "SGD": (0, 3, 5),
    "ApplyMomentum": (0, 1), "Adam": (0, 1, 2), "AdamWeightDecay": (0, 1, 2), "Assign": (0,),
    "ApplyRMSProp": (0, 1, 2), "ApplyAdagrad": (0, 1), "AssignAdd": (0,), "AssignSub": (0,),
    "AdamW": (0, 1, 2), "Lamb": (0, 1, 2), "ApplyAdaMax": (0, 1, 2), "ApplyAdadelta": (0, 1, 2),
}  # fmt: skip
"""Operators that write into arguments at these positions; MindSpore counts no change."""
_INNER: Final = "_Pyboost", "Prim"
"""What the name of an inner class of primitives has around that of the public one."""
_CALL: Final = "__call__"
_INSTANCE: Final = "_instance"


@cache
def _places(name: str) -> tuple[int, ...]:
    """Return which positional arguments an operator may write into."""
    short = name.rpartition(".")[2]
    in_place = (short.endswith("_") and not short.endswith("__")) or short.startswith(
        ("Inplace", "__i")
    )
    return _WRITING.get(short, (0,) if in_place and short != "__invert__" else ())


_thread = Listeners()


def busy() -> Busy:
    """Return the context in which nobody hears of this thread's operators."""
    return Busy(_thread)


def _as_method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return what replaces a method of tensors."""

    @wraps(function)
    def operator(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        thread = _thread
        if thread.is_busy or not thread.runs:
            return function(*args, **kwargs)
        thread.is_busy = True
        try:
            return thread.runs[-1](name, function, args, kwargs)
        finally:
            thread.is_busy = False

    return operator


def _as_functional(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return what replaces the call of an object behind ``mindspore.mint``."""

    @wraps(call)
    def operator(own: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        thread = _thread
        if thread.is_busy or not thread.runs:
            return call(own, *args, **kwargs)
        thread.is_busy = True
        try:
            return thread.runs[-1](name, partial(call, own), args, kwargs)
        finally:
            thread.is_busy = False

    return operator


def _as_primitive(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return what replaces the call of a class of primitives."""

    @wraps(call)
    def operator(own: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        name, thread = own.name if type(own) is Primitive else type(own).__name__, _thread
        if thread.is_busy or not thread.runs or name in _NO_OPERATORS:
            return call(own, *args, **kwargs)
        made_with = _made_with(own)

        def without_settings(*given: Any, **named: Any) -> Any:  # noqa: ANN401
            named = {key: value for key, value in named.items() if key not in made_with}
            return call(own, *given, **named)

        thread.is_busy = True
        try:
            name = f"mindspore.ops.{name}"
            return thread.runs[-1](name, without_settings, args, made_with | kwargs)
        finally:
            thread.is_busy = False

    return operator


def _made_with(primitive: Primitive) -> dict[str, Any]:
    """Return what a primitive was made with, as its class names it."""
    found: dict[str, Any] = {}
    kind: Any = type(primitive)
    for name in _settings_of(kind):
        held = getattr(primitive, "init_attrs", {}) or {}
        value = held.get(name, getattr(primitive, name, None))
        found[name] = value
    return found


@cache
def _settings_of(kind: Any) -> tuple[str, ...]:  # noqa: ANN401 - a class of primitives
    """Return the names of the parameters with which a class of primitives is made."""
    try:
        parameters = list(signature(kind.__init__).parameters.values())[1:]
    except (TypeError, ValueError):
        return ()
    return tuple(one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD)


Found: TypeAlias = "dict[tuple[type, str], tuple[Any, Any]]"
"""By holder and name: what is there, None where it is inherited, and its replacement."""


class _Bindings:
    """All that computes, and what replaces it."""

    def __init__(self) -> None:
        self._users = 0
        self._lock = threading.Lock()
        self._known: Found = {}

    def install(self) -> None:
        """Replace everything, unless it is replaced already."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            self._prepare()
            for (holder, name), (_, replacement) in self._known.items():
                setattr(holder, name, replacement)

    def remove(self) -> None:
        """Put everything back that nobody needs replaced any more."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for (holder, name), (original, _) in self._known.items():
                if original is None:
                    delattr(holder, name)
                else:
                    setattr(holder, name, original)

    def _prepare(self) -> None:
        """Find everything: users may have made classes of primitives since the last time."""
        found = {
            (kind, _CALL): (call, _as_primitive(call))
            for kind in _with_subclasses(Primitive)
            if isinstance(call := vars(kind).get(_CALL), FunctionType)
        }
        if not self._known:
            found |= {**_methods(), **_inner(), **_functionals(), **_constructor()}
        self._known = found | self._known


def _methods() -> Found:
    """Find the built-in methods of tensors that compute or read numbers."""
    return {
        (mindspore.Tensor, name): (None, _as_method(f"mindspore.Tensor.{name}", method))
        for name, method in vars(built_in.TensorPy).items()
        if type(method).__name__ == "method_descriptor"
        and name not in _SILENT
        and (name in _OPERATORS or not name.startswith("_"))
        and name not in vars(mindspore.Tensor)
    }


def _inner() -> Found:
    """Find the inner classes of primitives."""
    found: Found = {}
    for name, kind in vars(pyboost_inner_prim).items():
        if name.startswith(_INNER[0]) and isinstance(kind, type):
            public = name.removeprefix(_INNER[0]).removesuffix(_INNER[1])
            call = vars(kind)[_CALL]
            found[kind, _CALL] = call, _as_functional(f"mindspore.ops.{public}", call)
    return found


def _functionals() -> Found:
    """Find the objects behind ``mindspore.mint``."""
    found: Found = {}
    for name in dir(built_in):
        if name.endswith(_INSTANCE):
            kind = type(getattr(built_in, name))
            public = name.removesuffix(_INSTANCE).removeprefix("_")
            call = vars(kind)[_CALL]
            found[kind, _CALL] = call, _as_functional(f"mindspore.mint.{public}", call)
    return found


def _constructor() -> Found:
    """Find what makes tensors of numbers: the call of the class itself."""
    meta = type(mindspore.Tensor)
    original = getattr(meta, _CALL)
    call = _as_functional("mindspore.tensor", original)

    @wraps(original)
    def made(kind: type, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if kind is not mindspore.Tensor:
            return original(kind, *args, **kwargs)
        return call(kind, *args, **kwargs)

    return {(meta, _CALL): (vars(meta).get(_CALL), made)}


def _with_subclasses(kind: Any) -> Iterator[type]:  # noqa: ANN401 - a class
    yield kind
    for below in kind.__subclasses__():
        yield from _with_subclasses(below)


class MindSporeOperators(PatchedOperators):
    """The operators of ``mindspore``."""

    def __init__(self) -> None:
        """Replace nothing yet."""
        super().__init__(_Bindings(), _thread)

    def stamp(self, tensor: mindspore.Tensor) -> tuple[Hashable, tuple[int, ...]]:
        """Return the in-place counter, which most changes leave, and the shape."""
        return tensor._version, tuple(tensor.shape)

    def memory(self, tensor: mindspore.Tensor) -> Hashable:
        """Return the address at which the memory begins that a tensor and its views share."""
        if 0 in tensor.shape:
            return id(tensor)
        return int(tensor.data_ptr() - tensor.storage_offset() * tensor.itemsize)

    def dtype(self, tensor: mindspore.Tensor) -> str:
        """Return the dtype's name as dumps spell it."""
        return dtype_name(tensor)

    def is_recordable(self, tensor: mindspore.Tensor) -> bool:
        """Refuse parameters that are not there yet."""
        return not getattr(tensor, "has_init", False)

    def argument(self, thing: object) -> Argument:
        """Return dtypes as such, and a name for everything else."""
        if isinstance(thing, Type):
            return Dtype(name_of(thing))
        return class_name(thing)

    def is_plain(self, name: str) -> bool:
        """Know the operators that may write into their arguments."""
        return not _places(name)

    def may_write(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Sequence[mindspore.Tensor]:
        """Return what stands where an operator of this name may write."""
        if name.endswith("BatchNorm") and not kwargs.get("is_training"):
            return ()
        found = [args[place] for place in _places(name) if place < len(args)]
        return [one for one in found if isinstance(one, mindspore.Tensor)]

    def may_draw(self, name: str) -> bool:
        """Look for the names of what draws."""
        short = name.rpartition(".")[2].lower()
        return any(part in short for part in _DRAWING)

    def mode(self) -> int:
        """Ask MindSpore for its grad mode; mixed precision belongs to Cells."""
        return 0 if executor.enable_grad() else int(Mode.NO_GRAD)
