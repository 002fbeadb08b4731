"""Watches every call of torch's functions by a ``TorchFunctionMode``, and of what it misses.

Some draw on their way: what attention and recurrent layers drop, slopes. What they return does not
tell what was dropped. On a CPU they draw as dropouts of the same shape do, so another generator
draws once more from the state that theirs had before.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import resolve_name

from padiff.dumper.operators import Operators
from padiff.dumpfile import Argument, Dtype, Mode, Opaque

from .patched import class_name
from .torch_sharding import PLAIN, collective_argument, is_allocated, local_of
from .torch_unseen import OperatorMode, force_eager, watch_unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.operators import RunOperator


_VIEWS = frozenset({"T", "mT", "H", "mH", "real", "imag", "data"})
"""Properties that make another tensor."""
_SILENT = frozenset({
    "size", "dim", "ndimension", "numel", "nelement", "stride", "storage_offset", "element_size",
    "is_contiguous", "is_pinned", "is_floating_point", "is_complex", "is_signed", "is_conj",
    "is_neg", "is_inference", "is_same_size", "is_coalesced", "is_set_to", "is_shared",
    "is_tensor", "is_storage", "is_distributed", "get_device", "data_ptr", "storage",
    "untyped_storage", "storage_type", "typed_storage", "type_name", "dense_dim", "sparse_dim",
    "has_names", "__len__", "__hash__", "__repr__", "__str__", "__format__", "__dir__",
    "__dlpack_device__", "__reduce_ex__", "__deepcopy__", "requires_grad_", "register_hook",
    "register_post_accumulate_grad_hook", "retain_grad", "backward", "set_", "share_memory_",
    "_is_view", "_is_zerotensor", "_has_compatible_shallow_copy_type", "_make_subclass",
    "is_grad_enabled", "result_type", "promote_types", "can_cast", "_assert", "broadcast_shapes",
    "is_nonzero_static", "_wrap_tensor_autograd", "sym_size", "sym_stride", "sym_numel",
    "sym_storage_offset", "_assert_scalar", "_assert_async", "_assert_tensor_metadata",
})  # fmt: skip
"""Functions that make no value and read no element."""
_DRAWING = frozenset({
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout",
    "feature_alpha_dropout", "rrelu", "rrelu_", "scaled_dot_product_attention",
    "multi_head_attention_forward", "lstm", "gru", "rnn_tanh", "rnn_relu", "rand", "randn",
    "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli",
    "multinomial", "poisson", "binomial", "normal_", "uniform_", "bernoulli_", "cauchy_",
    "exponential_", "geometric_", "log_normal_", "random_", "native_dropout",
    "fractional_max_pool2d", "fractional_max_pool3d", "dropout_", "alpha_dropout_",
    "feature_dropout_", "feature_alpha_dropout_", "stft", "kaiming_uniform_",
})  # fmt: skip
"""Last names of functions that may draw; whether one did is seen by the generator's state."""
_OPENED = frozenset({
    "torch.nn.functional.gumbel_softmax",
    "torch.nn.functional.triplet_margin_with_distance_loss",
})  # fmt: skip
"""Functions in Python that draw and cut gradients on their way, or call what they are given: their
own calls are recorded."""
_UNSCALE = "_amp_foreach_non_finite_check_and_unscale_"
"""What a gradient scaler calls ahead of the update."""
_WRITING = {
    "_fused_adagrad_": (0, 2, 3), "_fused_adam_": (0, 2, 3, 4, 5), "_fused_adamw_": (0, 2, 3, 4, 5),
    "_fused_sgd_": (0, 2), "batch_norm": (1, 2), "instance_norm": (1, 2),
    "torch.batch_norm": (3, 4), "torch.instance_norm": (3, 4), "native_batch_norm": (3, 4),
    "_native_batch_norm_legit": (3, 4), "torch.Tensor.data.__set__": (0,),
    _UNSCALE: (0, 1),
}  # fmt: skip
"""Where arguments stand that a function writes while torch counts no change: running statistics,
and lists of what whole updates change. A full name goes before the last part of it."""
_SET_DATA = "torch.Tensor.data.__set__"
"""What ``x.data = y`` calls: the only property that gives a tensor other elements."""
_STRIDES = "as_strided"
"""The function that tells places in memory: where its operand lies there is an argument, too."""
_NOT_PLAIN = frozenset({*_WRITING, _STRIDES, "__set__"})
_TRAINING = {
    "batch_norm": "training", "instance_norm": "use_input_stats", "native_batch_norm": "training",
    "_native_batch_norm_legit": "training",
}  # fmt: skip
"""The argument by which these functions are told to use, and note, the statistics of the batch."""
_PLACE_OF_TRAINING = 5
_COLLECTIVES = "torch.distributed."
_FUNCTIONAL = "_c10d_functional."
_WAIT = f"{_FUNCTIONAL}wait_tensor"
_UPDATED = {
    "all_reduce": (0, "tensor"), "all_reduce_coalesced": (0, "tensors"),
    "broadcast": (0, "tensor"), "reduce": (0, "tensor"),
}  # fmt: skip
"""Where collectives have the buffers that they take and overwrite."""
_FILLED = {
    "recv": (0, "tensor"), "irecv": (0, "tensor"), "all_gather": (0, "tensor_list"),
    "all_gather_into_tensor": (0, "output_tensor"), "all_gather_single": (0, "output_tensor"),
    "all_gather_coalesced": (0, "output_tensor_lists"), "gather": (1, "gather_list"),
    "scatter": (0, "tensor"), "reduce_scatter": (0, "output"),
    "reduce_scatter_tensor": (0, "output"), "reduce_scatter_single": (0, "output"),
    "all_to_all": (0, "output_tensor_list"), "all_to_all_single": (0, "output"),
}  # fmt: skip
"""Where they have those that they only fill."""


_FAMILIES = frozenset({"linalg", "fft", "special"})
"""What names of ATen's operators begin with that are functions of a module of torch."""
_OTHER = frozenset({"no_stats"})
"""Overloads that take other arguments at the places of those of the same name."""
_BUILT_IN = (BuiltinFunctionType, MethodDescriptorType)
"""Classes of the functions that are operators of ATen, under the same signature."""
_STRIDED = torch.strided
_FARTHEST = 1 << 40
"""No tensor begins so many bytes behind its storage: what is above this is an address."""
_tracing_state = torch._C._get_tracing_state
_is_wrapped: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@cache
def _name(function: Callable[..., Any]) -> str:
    """Return the public name of a function, ``""`` for one that makes no value."""
    function = _public(function)
    name = (resolve_name(function) or "").replace("torch.functional.", "torch.")
    short = getattr(function, "__name__", "")
    if name.endswith(".__get__"):
        owner = name.removesuffix(".__get__")
        return owner if owner.rpartition(".")[2] in _VIEWS else ""
    if getattr(function, "__module__", "") == "torch.distributed.distributed_c10d":
        return f"{_COLLECTIVES}{short}"
    if (
        (name.endswith(".__set__") and name != _SET_DATA)
        or short in _SILENT
        or "grad_enabled" in short
    ):
        return ""
    return name or f"torch.{short}"


def _public(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of torch that an operator of ATen is, or the operator without overload.

    ``aten.add.Tensor`` is ``torch.add``, ``aten.linear.default`` ``torch.nn.functional.linear``.
    """
    if isinstance(function, OpOverload) and function._overloadname not in _OTHER:
        function = function.overloadpacket
    if not isinstance(function, OpOverloadPacket) or not str(function).startswith("aten."):
        return function
    name: str = function.__name__
    family, _, rest = name.partition("_")
    places = [(torch, name), (torch.Tensor, name), (torch.nn.functional, name)]
    if name.endswith("_"):
        places.reverse()
    if family in _FAMILIES:
        places.append((getattr(torch, family), rest))
    found = (getattr(place, last, None) for place, last in places)
    return next((one for one in found if isinstance(one, _BUILT_IN)), function)


@cache
def _may_draw(name: str) -> bool:
    return name.rpartition(".")[2] in _DRAWING


_ASKING = ("has_torch_function_unary", "has_torch_function_variadic")
"""What a function of ``torch.nn.functional`` asks first: whether somebody takes its call over."""


@cache
def _body(function: Callable[..., Any]) -> FunctionType:
    """Return a function of ``torch.nn.functional`` that calls what it is made of."""
    assert isinstance(function, FunctionType)
    known = {**function.__globals__, **dict.fromkeys(_ASKING, lambda *_: False)}
    opened = FunctionType(function.__code__, known, argdefs=function.__defaults__)
    opened.__kwdefaults__ = function.__kwdefaults__
    return opened


class _Mode(OperatorMode):
    """Hands each call over; torch takes the mode off while it works on one."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        name = _name(function)
        if not name or self.is_inside or _tracing_state() is not None:
            return function(*args, **(kwargs or {}))
        if name in _OPENED:
            with self:
                return _body(function)(*args, **(kwargs or {}))
        return self.run(name, function, args, kwargs or {})


class TorchOperators(Operators):
    """The operators of ``torch``."""

    writes_surely = True

    @contextmanager
    def watch(self, run: RunOperator) -> Iterator[None]:
        """Enter a function mode, which sees calls of this thread, and patch what it does not."""
        with watch_unseen(), _Mode(run):
            yield

    @contextmanager
    def watch_building(self, run: RunOperator) -> Iterator[None]:
        """Let nothing be compiled meanwhile: compilers refuse modes that they do not know."""
        with force_eager(), self.watch(run):
            yield

    def watch_thread(self, run: RunOperator) -> AbstractContextManager[object]:
        """Enter a function mode, which is one thread's."""
        return _Mode(run)

    def unwatched(self) -> AbstractContextManager[object]:
        """Put function modes aside: with one, each look at a shape or a dtype takes 5 µs."""
        context: AbstractContextManager[object] = torch._C.DisableTorchFunction()
        return context

    def stamp(self, tensor: torch.Tensor) -> tuple[Hashable, tuple[int, ...]]:
        """Return the in-place counter, which inference tensors lack, and the shape."""
        try:
            return tensor._version, tensor.shape
        except RuntimeError:
            return 0, tensor.shape

    def memory(self, tensor: torch.Tensor) -> Hashable:
        """Return the address of the storage."""
        if type(tensor) not in PLAIN:
            tensor = local_of(tensor)
        place = tensor.data_ptr()
        if not place:  # as without elements; to ask the storage makes an object of it
            return tensor.untyped_storage().data_ptr()
        offset = tensor.storage_offset()
        return place - offset * tensor.element_size() if offset else place

    def dtype(self, tensor: torch.Tensor) -> str:
        """Return the dtype's name without ``torch.``."""
        return _dtype_name(tensor.dtype)

    def shape(self, tensor: torch.Tensor) -> tuple[int, ...]:
        """Return the shape, which is a tuple."""
        return tensor.shape if type(tensor) in PLAIN else local_of(tensor).shape

    def is_recordable(self, tensor: torch.Tensor) -> bool:
        """Refuse what has no strided elements of its own: functorch's wrappers, meta, sparse.

        Where the storage was freed, the tensor begins as far behind 0 as in its storage.
        """
        if type(tensor) not in PLAIN:
            tensor = local_of(tensor)
            if isinstance(tensor, FakeTensor):
                return False
        return (
            not _is_wrapped(tensor)
            and tensor.layout is _STRIDED
            and not tensor.is_meta
            and not tensor.is_quantized
            and (
                tensor.data_ptr() > _FARTHEST
                or tensor.data_ptr() != tensor.storage_offset() * tensor.element_size()
                or is_allocated(tensor)
            )
        )

    def argument(self, thing: object) -> Argument:
        """Return dtypes as such, sizes as tuples, and a name for everything else."""
        if isinstance(thing, torch.dtype):
            return Dtype(_dtype_name(thing))
        if isinstance(thing, torch.Size):
            return tuple(int(size) for size in thing)
        if isinstance(thing, torch.SymInt | torch.SymFloat | torch.SymBool):
            return Opaque(type(thing).__name__)
        told = collective_argument(thing)
        if told is not None:
            return told
        if isinstance(thing, torch.device | torch.layout | torch.memory_format):
            return Opaque(str(thing).removeprefix("torch."))
        return class_name(thing)

    def is_plain(self, name: str) -> bool:
        """Know what writes unseen, and all that has to do with other processes."""
        is_alone = not name.startswith((_COLLECTIVES, _FUNCTIONAL))
        return is_alone and name.rpartition(".")[2] not in _NOT_PLAIN

    def is_unscaling(self, name: str) -> bool:
        """Know what a gradient scaler calls."""
        return name.rpartition(".")[2] == _UNSCALE

    def may_write(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Sequence[torch.Tensor]:
        """Return statistics, what whole updates and collectives write: torch counts all else."""
        short = name.rpartition(".")[2]
        if name.startswith(_COLLECTIVES):
            return _tensors_in(_argument(_UPDATED.get(short) or _FILLED.get(short), args, kwargs))
        places = _WRITING.get(name) or _WRITING.get(short, ())
        if short in _TRAINING:
            told = args[_PLACE_OF_TRAINING] if len(args) > _PLACE_OF_TRAINING else False
            if not kwargs.get(_TRAINING[short], told):
                return ()
        return _tensors_in([args[place] for place in places if place < len(args)])

    def read_by(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Leave out what a collective only fills, and how torch runs it."""
        if name.endswith(_STRIDES):
            operand = args[0] if args else kwargs["input"]
            offset = operand.storage_offset()
            return args, {**kwargs, "operand_stride": operand.stride(), "operand_offset": offset}
        if not name.startswith(_COLLECTIVES):
            return args, kwargs
        place = _FILLED.get(name.removeprefix(_COLLECTIVES))
        if place is not None:
            args = tuple(one for index, one in enumerate(args) if index != place[0])
        left_out = ("async_op", "" if place is None else place[1])
        return args, {key: one for key, one in kwargs.items() if key not in left_out}

    def is_pending(self, name: str, result: object) -> bool:
        """Look whether a collective returned something to wait for, or is one that always does."""
        if name.startswith(_FUNCTIONAL):
            return True
        is_collective = name.startswith(_COLLECTIVES)
        return is_collective and (hasattr(result, "wait") or name in _ASYNCHRONOUS)

    def is_wait(self, name: str) -> bool:
        """Know the one that functional collectives have."""
        return name == _WAIT

    def sends(self, name: str) -> bool:
        """Know all that has to do with other processes."""
        return name.startswith(_COLLECTIVES)

    def may_draw(self, name: str) -> bool:
        """Look the last part of the name up."""
        return _may_draw(name)

    def drawn_inside(
        self,
        name: str,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        made: object,
        before: Hashable,
    ) -> torch.Tensor | None:
        """Draw the same once more, as the CPU's generator does."""
        return drawn_inside(name, given, before)

    def mode(self) -> int:
        """Ask torch for the CPU's and the GPU's autocast, and for its grad mode."""
        mode = 0 if torch.is_grad_enabled() else _NO_GRAD
        if not torch._C._is_any_autocast_enabled():
            return mode
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                is_half = torch.get_autocast_dtype(device) is torch.float16
                mode |= Mode.FLOAT16 if is_half else Mode.BFLOAT16
        return int(mode)


_NO_GRAD = int(Mode.NO_GRAD)
_ASYNCHRONOUS = frozenset({f"{_COLLECTIVES}isend", f"{_COLLECTIVES}irecv"})


def _argument(
    place: tuple[int, str] | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> object:
    """Return an argument by its position or its keyword, None without any."""
    if place is None:
        return None
    return args[place[0]] if place[0] < len(args) else kwargs.get(place[1])


def _tensors_in(thing: object) -> list[torch.Tensor]:
    """Return a tensor, or those in nested lists."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    parts = thing if isinstance(thing, list | tuple) else ()
    return [one for part in parts for one in _tensors_in(part)]


Drops: TypeAlias = tuple[float, int, tuple[int, ...]]
"""The share that is dropped, how often, and the shape of what it is dropped from."""


def _attention(given: Mapping[str, Any]) -> Drops:
    """Return what is dropped of the weights (…, head, query, key)."""
    query, key = given["query"].shape, given["key"].shape
    batch: torch.Size = torch.broadcast_shapes(query[:-3], key[:-3])  # type: ignore[no-untyped-call]
    return given.get("dropout_p", 0.0), 1, (*batch, *query[-3:-1], key[-2])


def _multi_head(given: Mapping[str, Any]) -> Drops:
    """Return what is dropped of the weights (batch, head, query, key)."""
    query, key = given["query"].shape, given["key"].shape
    batch = query[1] if len(query) > 2 else 1  # noqa: PLR2004
    more = (given["bias_k"] is not None) + bool(given["add_zero_attn"])
    return given["dropout_p"], 1, (batch, given["num_heads"], query[0], key[0] + more)


def _layers(given: Mapping[str, Any]) -> Drops:
    """Return what is dropped between layers, of (position, batch, feature) or (row, feature)."""
    state, rows = given["hx"], given["input"].shape[:-1]
    state = state if isinstance(state, torch.Tensor) else state[0]
    width = state.shape[-1] * (2 if given["bidirectional"] else 1)
    rows = rows[::-1] if given.get("batch_first") else rows
    return given["dropout"], given["num_layers"] - 1, (*rows, width)


_QUERY = "query key value"
_MULTI_HEAD = (
    f"{_QUERY} embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v "
    "add_zero_attn dropout_p"
)
_RECURRENT = "hx params has_biases num_layers dropout train bidirectional"
_DROPPING: dict[str, tuple[str, Callable[[Mapping[str, Any]], Drops]]] = {
    "scaled_dot_product_attention": (f"{_QUERY} attn_mask dropout_p", _attention),
    "multi_head_attention_forward": (_MULTI_HEAD, _multi_head),
    **dict.fromkeys(
        ("lstm", "gru", "rnn_tanh", "rnn_relu"), (f"input {_RECURRENT} batch_first", _layers)
    ),
}
"""The first arguments of operators by their last names, and what they drop."""
_PACKED = f"input batch_sizes {_RECURRENT}"
"""The arguments of recurrent layers over rows of several lengths."""


def drawn_inside(
    name: str, given: tuple[tuple[Any, ...], Mapping[str, Any]], before: Hashable
) -> torch.Tensor | None:
    """Return what an operator drew on its way, in the form in which its row of the table takes it.

    Returns:
        Which elements were kept, as bool; several dropouts stand behind each other on one more axis
        in front. Of slopes where each lies between its bounds, from 0 to 1. None for an operator
        that draws nothing inside, and where the generator would be left in another state.
    """
    state = before[0] if isinstance(before, tuple) else before  # beside those of other devices
    draw = _DRAWERS.get(name.rpartition(".")[2])
    if draw is None or not isinstance(state, bytes):
        return None
    generator = torch.Generator()
    generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
    drawn = draw(name, given, generator)
    is_same = torch.equal(generator.get_state(), torch.default_generator.get_state())
    return drawn if is_same else None


def _slopes(
    _name: str, given: tuple[tuple[Any, ...], Mapping[str, Any]], generator: torch.Generator
) -> torch.Tensor | None:
    """Return where between the two bounds the slope of each element up to zero lies, else 0."""
    names = "input lower upper training inplace"
    defaults = {"lower": 1 / 8, "upper": 1 / 3, "inplace": False}
    told = {**defaults, **dict(zip(names.split(), given[0], strict=False)), **given[1]}
    x, low, high = told["input"], told["lower"], told["upper"]
    if told["inplace"] or x.device.type != "cpu":
        return None
    with torch.no_grad():
        is_below = x <= 0
        made = torch.rrelu(1.0 - 2.0 * is_below.to(x.dtype), low, high, True, generator=generator)  # noqa: FBT003
        places = (-made - low) / max(high - low, 1e-30)
        return torch.where(is_below, places.clamp(0.0, 1.0), 0.0)


def _kept(
    name: str, given: tuple[tuple[Any, ...], Mapping[str, Any]], generator: torch.Generator
) -> torch.Tensor | None:
    """Return which elements an operator keeps of what it makes on its way."""
    names, drops_of = _DROPPING[name.rpartition(".")[2]]
    args, kwargs = given
    if drops_of is _layers and len(args) > 1 and not torch.is_floating_point(args[1][0]):
        names = _PACKED
    told = {**dict(zip(names.split(), args, strict=False)), **kwargs}
    first = told[names.split()[0]]
    if first.device.type != "cpu" or first.is_nested:
        return None
    share, count, shape = drops_of(told)
    drawn = [
        torch.empty(shape, device="cpu").bernoulli_(1 - share, generator=generator)
        for _ in range(count)
    ]
    if names is _PACKED:
        drawn = [_padded(one, told["batch_sizes"]) for one in drawn]
    return (drawn[0] if count == 1 else torch.stack(drawn)) != 0


def _padded(rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Return rows that go on in each step at (position, batch); what is over counts as kept."""
    batch = int(counts[0])
    made = rows.new_ones((len(counts), batch, *rows.shape[1:]))
    made[torch.arange(batch) < counts[:, None]] = rows
    return made


_DRAWERS = {**dict.fromkeys(_DROPPING, _kept), "rrelu": _slopes}
"""What operators draw on their way, by their last names."""
