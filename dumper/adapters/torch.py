"""PyTorch, as padiff sees it.

A module is told by the class that it was written of, whatever torch has made of it since.

Layers of Keras on its torch backend keep parts and weights elsewhere: one holds those of a list
outside of ``_modules``, and in one dictionary of parameters its own variables beside those of all
layers inside. ``Sequential`` keeps a second model of the same layers, which is never called.
"""

from __future__ import annotations

import sys
from ctypes import string_at
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from padiff.dumper.adapter import Adapter, AfterCall, Array, BeforeCall, Handle, NamedTensor
from padiff.dumper.watch import Handles
from padiff.dumpfile import ConfigError

from .callhook import CallHook
from .signature import keywords_of
from .torch_gradients import hook_gradient
from .torch_operators import TorchOperators
from .torch_programs import parameters_of
from .torch_sharding import PLAIN, array_of, layout_of, local_of
from .torch_training import TorchTrainer, TorchWatch
from .torch_transfers import AS_BITS, TorchTransfers
from .torch_unseen import force_eager
from .walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Keywords, Transfer
    from padiff.dumper.operators import Operators
    from padiff.dumper.trainer import Trainer
    from padiff.dumper.watch import Watch
    from padiff.dumpfile import Layout


class TorchAdapter(Adapter):
    """The adapter for ``torch``."""

    name = "torch"
    trainer: Trainer = TorchTrainer()
    operators: Operators | None = TorchOperators()
    watch: Watch = TorchWatch()

    def __init__(self, transfers: TorchTransfers | None = None) -> None:
        """Copy from GPUs as told, from CUDA's by default."""
        self._transfers = transfers or TorchTransfers()

    def version(self) -> str:
        """Return the framework's version."""
        return str(torch.__version__)

    # -- recognising things

    def is_model(self, thing: object) -> bool:
        """Return whether this is a ``torch.nn.Module``."""
        return isinstance(thing, torch.nn.Module)

    def is_model_class(self, thing: object) -> bool:
        """Return whether this is ``torch.nn.Module`` or a subclass."""
        return isinstance(thing, type) and issubclass(thing, torch.nn.Module)

    def is_tensor(self, thing: object) -> bool:
        """Return whether this is a tensor or parameter that has elements of its own.

        Tensors without memory (meta, inside ``vmap``) and ragged ones cannot be stored; where
        one is met, the dump names its class.
        """
        return (
            isinstance(thing, torch.Tensor)
            and not thing.is_meta
            and not thing.is_nested
            and not _is_wrapped(thing)
        )

    def is_floating(self, tensor: torch.Tensor) -> bool:
        """Return whether its dtype is real or complex floating point."""
        return tensor.dtype.is_floating_point or tensor.dtype.is_complex

    # -- reading a model

    def named_modules(self, model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
        """Yield every (path, module), parents first, shared modules at each of their paths."""
        return walk(model, lambda one: parts(one) if is_keras(one) else one._modules.items())

    def unwrap(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return the user's module inside DataParallel, DDP or ``torch.compile``'s wrapper."""
        wrappers = (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)
        inner = model
        while True:
            name = "module" if isinstance(inner, wrappers) else "_orig_mod"
            held = inner._modules  # what is stored, never what a property computes
            found = held[name] if name in held else None  # noqa: SIM401 - TorchScript's has no get
            if found is None:
                return inner
            inner = found

    def own_tensors(self, module: torch.nn.Module) -> Iterator[NamedTensor]:
        """Yield the parameters, then the buffers; not lazy ones that have no shape yet."""
        if is_keras(module):
            yield from variables(module)
        for name, parameter in module._parameters.items():
            if parameter is not None and not is_lazy(parameter):
                yield NamedTensor(name=name, tensor=parameter, is_weight=True)
        for name, buffer in module._buffers.items():
            if buffer is not None and not is_lazy(buffer):
                is_saved = name not in module._non_persistent_buffers_set
                yield NamedTensor(name=name, tensor=buffer, is_weight=False, is_saved=is_saved)

    def class_bases(self, module: torch.nn.Module) -> Sequence[type]:
        """Return the classes from the module's own up to ``torch.nn.Module``."""
        order = class_of(module).__mro__
        return order[: order.index(torch.nn.Module) + 1]

    # -- tensors

    def elements(self, tensor: torch.Tensor) -> Array:
        """Return the elements, C-contiguous, in their own dtype and memory where possible."""
        if type(tensor) not in PLAIN:
            tensor = local_of(tensor)
        is_native = tensor.layout is _STRIDED and tensor.dtype in _NATIVE
        if is_native and not (tensor.is_conj() or tensor.is_neg()):
            return np.asarray(array_of(tensor), order="C")
        plain = tensor.detach()
        if plain.is_quantized:
            plain = plain.dequantize()
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        plain = plain.resolve_conj().resolve_neg()
        bits = AS_BITS.get(plain.dtype)
        if bits is None:
            return np.asarray(array_of(plain), order="C")
        return np.asarray(array_of(plain.contiguous().view(bits[0]))).view(bits[1])

    local = staticmethod(local_of)  # a call less, for what is asked for most

    def layout(self, tensor: torch.Tensor) -> Layout | None:
        """Read the mesh and the placements of a DTensor."""
        return layout_of(tensor)

    def transfer(self, tensor: torch.Tensor) -> Transfer | None:
        """Begin to copy a plain tensor from a GPU; give None for all others."""
        tensor = local_of(tensor)
        return self._transfers.begin(tensor) if self._transfers.takes(tensor) else None

    def small_bytes(
        self, tensor: torch.Tensor, limit: int
    ) -> tuple[bytes, str, tuple[int, ...]] | None:
        """Copy the memory of a small tensor: numpy takes five times as long."""
        dtype = tensor.dtype
        if (
            type(tensor) not in PLAIN
            or dtype not in _COPIED
            or not tensor.is_cpu
            or tensor.layout is not _STRIDED
            or not 0 < (size_bytes := tensor.nbytes) < limit
            or tensor.is_conj()
            or tensor.is_neg()
        ):
            return None
        place = tensor.data_ptr()
        if place and tensor.is_contiguous():
            return string_at(place, size_bytes), _COPIED[dtype], tensor.shape
        if dtype in AS_BITS:
            return None
        return array_of(tensor).tobytes(), _COPIED[dtype], tensor.shape

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a new leaf of the same elements, dtype, device and wish for a gradient."""
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    def content_key(self, tensor: torch.Tensor) -> Hashable | None:
        """Return storage address, place in it, dtype and in-place version; None where unknown."""
        if type(tensor) not in PLAIN:
            tensor = local_of(tensor)
        if tensor.layout is not _STRIDED:
            return None
        try:
            version = tensor._version
        except RuntimeError:  # of inference
            return None
        return (
            tensor.data_ptr(),
            version,
            tensor.dtype,
            tensor.get_device(),
            tensor.is_conj() or tensor.is_neg(),
            tensor.shape,
            tensor.stride(),
        )

    def requires_grad(self, tensor: torch.Tensor) -> bool:
        """Return whether a gradient will flow into the tensor."""
        return tensor.requires_grad

    def gradient(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """Return the accumulated gradient (``main_grad`` first, as Megatron keeps it), or None."""
        main: torch.Tensor | None = getattr(parameter, "main_grad", None)
        return parameter.grad if main is None else main

    def in_backward(self) -> bool:
        """Return whether this thread is inside a backward pass (a checkpointed call runs again)."""
        return torch._C._current_graph_task_id() != -1

    def random_state(self) -> Hashable:
        """Return the bytes of the CPU's generator, and how far those of other devices have come."""
        host = torch.default_generator.get_state().numpy().tobytes()
        if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return host
        devices = torch.cuda.default_generators
        return host, tuple((one.initial_seed(), one.get_offset()) for one in devices)

    # -- hooks

    def recording(self) -> AbstractContextManager[object]:
        """Run compiled models eagerly: inside a compiled graph no module calls back."""
        return force_eager()

    def hook_calls(self, module: torch.nn.Module, before: BeforeCall, after: AfterCall) -> Handle:
        """Call back around every execution: last before ``forward``, first after it."""

        def pre(inner: torch.nn.Module, args: Any, kwargs: Any) -> None:  # noqa: ANN401
            before(inner, args, kwargs)

        def post(inner: torch.nn.Module, args: Any, output: Any) -> None:  # noqa: ANN401
            after(inner, output)

        hooks = torch.nn.Module
        return Handles(
            # torch's own methods: those of scripted modules refuse
            hooks.register_forward_pre_hook(module, CallHook(pre), with_kwargs=True),
            hooks.register_forward_hook(module, CallHook(post), prepend=True),
        )

    def hook_entry(self, module: torch.nn.Module, callback: Callable[[], None]) -> Handle:
        """Call back first: FSDP gathers a module's weights in a hook of its own."""

        def entered(_module: object, _args: object) -> None:
            callback()

        hooks = torch.nn.Module
        handle: Handle = hooks.register_forward_pre_hook(module, CallHook(entered), prepend=True)
        return handle

    def hook_gradient(
        self, tensor: torch.Tensor, callback: Callable[[torch.Tensor], None]
    ) -> Handle:
        """Call back with the tensor's total gradient; its graph edge as of now is what counts."""
        return hook_gradient(tensor, callback)

    # -- running a model

    def seed(self, seed: int) -> None:
        """Seed torch's generators on all devices."""
        torch.manual_seed(seed)

    def set_training(self, model: torch.nn.Module, *, training: bool) -> None:
        """Set the training flag of the model and everything in it.

        Raises:
            ConfigError: It is a model of Keras, which trains where its call says so.
        """
        if is_keras(model):
            switch_keras(self.named_modules(model), training=training)
            return
        try:
            model.train(training)
        except NotImplementedError:  # an exported program runs in the mode it was exported in
            for _, module in self.named_modules(model):
                module.training = training

    def place(
        self, model: torch.nn.Module, *, device: str | None, dtype: str | None
    ) -> torch.nn.Module:
        """Move and cast a model; ``dtype`` touches floating parameters and buffers only."""
        try:
            return model.to(
                device=None if device is None else torch.device(device),
                dtype=None if dtype is None else _dtype(dtype),
            )
        except (RuntimeError, AssertionError, TypeError) as error:
            first = str(error).partition("\n")[0]
            raise ConfigError(
                f"cannot place the model on device {device!r} with dtype {dtype!r}: {first}"
            ) from error

    def model_dtype(self, model: torch.nn.Module) -> str:
        """Name the most frequent dtype of the floating parameters, ``""`` without any.

        Of complex ones that of their parts: inputs of a spectral model are real.
        """
        counts: dict[str, int] = {}
        for parameter in _parameters(self, model):
            if self.is_floating(parameter):
                name = str(parameter.dtype.to_real()).removeprefix("torch.")
                counts[name] = counts.get(name, 0) + parameter.numel()
        return max(counts, key=lambda name: counts[name]) if counts else ""

    def model_device(self, model: torch.nn.Module) -> str:
        """Name the device of the first parameter, ``cpu`` without any."""
        first = next(_parameters(self, model), None)
        return "cpu" if first is None else str(first.device)

    def tensor(
        self, array: Array, *, device: str, dtype: str | None, requires_grad: bool = False
    ) -> torch.Tensor:
        """Make a tensor that shares no memory with the array; 0-d stays 0-d."""
        source = np.array(array, order="C", dtype=array.dtype.newbyteorder("="))
        native = next((key for key, (_, to) in AS_BITS.items() if source.dtype == to), None)
        if native is None:
            made = torch.from_numpy(source)
        else:
            bits = AS_BITS[native][0]
            width = np.int16 if bits is torch.int16 else np.uint8
            made = torch.from_numpy(source.view(width)).view(native)
        made = made.to(device=device, dtype=None if dtype is None else _dtype(dtype))
        return made.requires_grad_(requires_grad)

    def forward_keywords(self, model: torch.nn.Module) -> Keywords:
        """Return what ``forward`` accepts by keyword."""
        return parameters_of(model) or keywords_of(model.forward)

    def mean_loss(self, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return each output's mean in float32, then the mean of the means."""
        means = []
        for output in outputs:
            real = torch.view_as_real(output) if output.dtype.is_complex else output
            means.append(real.to(torch.float32).mean())
        return torch.stack(means).mean()

    def backward(self, loss: torch.Tensor) -> None:
        """Run the backward pass from a scalar."""
        loss.backward()  # type: ignore[no-untyped-call]

    def assign(self, tensor: torch.Tensor, array: Array) -> None:
        """Overwrite a parameter or buffer in place; its dtype and device stay."""
        with torch.no_grad():
            source = self.tensor(array, device=str(tensor.device), dtype=None)
            if source.shape != tensor.shape:
                raise ConfigError(
                    f"cannot assign a weight: expected shape {tuple(tensor.shape)}, "
                    f"found {tuple(source.shape)}"
                )
            tensor.copy_(source)

    def notes(self, model: torch.nn.Module) -> Sequence[str]:
        """State the fused paths that hooks disable, and modules whose inside is not seen."""
        fused = (
            torch.nn.TransformerEncoderLayer,
            torch.nn.TransformerEncoder,
            torch.nn.MultiheadAttention,
        )
        paths = list(self.named_modules(model))
        modules = [module for _, module in paths]
        found = sorted({type(m).__name__ for m in modules if isinstance(m, fused)})
        notes = []
        compiled = [path or "(root)" for path, module in paths if _is_compiled(module)]
        if compiled:
            notes.append(f"what torch.compile compiled ran eagerly: {', '.join(compiled)}")
        if found:
            notes.append(
                f"hooks disable torch's fused inference path of {', '.join(found)}: "
                "in eval mode without gradients the results may differ in the last bits from "
                "those without recording"
            )
        if any(isinstance(m, torch.jit.ScriptModule) for m in modules):
            notes.append(
                "calls inside scripted modules run without Python and are not recorded: each "
                "scripted module is one operator"
            )
        stores = (store for m in modules for store in (m._parameters, m._buffers))
        if any(is_lazy(one) for store in stores for one in store.values() if one is not None):
            notes.append(
                "lazy parameters get their shape in the first call: their values are not "
                "recorded; call the model once before recording"
            )
        return notes


_STRIDED = torch.strided
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_NATIVE = frozenset({
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
    torch.float32, torch.float64, torch.complex64, torch.complex128,
})  # fmt: skip
"""Dtypes that numpy has too."""
_COPIED = (
    {dtype: str(dtype).removeprefix("torch.") for dtype in (*_NATIVE, *AS_BITS)}
    if sys.byteorder == "little"
    else {}
)
"""Names of the dtypes whose memory holds what a dump does."""


def _is_compiled(module: torch.nn.Module) -> bool:
    """Return whether ``torch.compile`` made it, or its forward, or compiled it in place."""
    held = vars(module)
    forward = held.get("forward")
    return (
        "_orig_mod" in module._modules
        or held.get("_compiled_call_impl") is not None
        or hasattr(forward, "_torchdynamo_orig_callable")
    )


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ConfigError(f"cannot use dtype {name!r}: torch has no such dtype")
    return found


def _parameters(adapter: TorchAdapter, model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yield each parameter once, of a tree of any depth; torch's own iterator recurses."""
    seen: set[int] = set()
    for _, module in adapter.named_modules(model):
        for owned in adapter.own_tensors(module):
            if owned.is_weight and id(owned.tensor) not in seen:
                seen.add(id(owned.tensor))
                yield owned.tensor


_ROOT = "__torch__"
_MANGLED = "___torch_mangle_"
"""TorchScript tells classes of one name apart by a level of this name and a number."""


def class_of(module: torch.nn.Module) -> type:
    """Return the class that a scripted, traced or fully sharded module was made from.

    For any other module, and where that class is not imported, its own class. FSDP2 gives a sharded
    module a class made for it. All scripted modules are instances of one
    class, which says nothing about them.
    """
    own = type(module)
    sharded = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    if sharded is not None and isinstance(module, sharded):
        return own.__mro__[own.__mro__.index(sharded) + 1]
    if not isinstance(module, torch.jit.ScriptModule):
        return own
    levels = str(getattr(module._c._type(), "qualified_name", str)()).split(".")
    if levels[0] != _ROOT:
        return own
    *path, name = (level for level in levels[1:] if not level.startswith(_MANGLED))
    found = getattr(sys.modules.get(".".join(path)), name, None)
    return found if isinstance(found, type) and issubclass(found, torch.nn.Module) else own


_HIDDEN = ("_torch_params", "_functional")


def is_keras(module: torch.nn.Module) -> bool:
    """Return whether this is a layer or model of Keras."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(module, keras.Layer)


def parts(layer: Any) -> Iterator[tuple[str, torch.nn.Module]]:  # noqa: ANN401 - keras.Layer
    """Yield the layers inside: attributes by their names, those of lists by the layers' own."""
    attributes = {name: one for name, one in layer._modules.items() if name not in _HIDDEN}
    yield from attributes.items()
    seen = set(map(id, attributes.values()))
    for one in layer._layers:
        if id(one) not in seen and not isinstance(one, sys.modules["keras"].layers.InputLayer):
            yield one.name, one


def variables(layer: Any) -> Iterator[NamedTensor]:  # noqa: ANN401 - keras.Layer
    """Yield what a layer owns itself, weights first."""
    for held, is_weight in (
        (layer._trainable_variables, True),
        (layer._non_trainable_variables, False),
    ):
        for one in held:
            yield NamedTensor(name=one.name, tensor=one._value, is_weight=is_weight)


def switch_keras(modules: Iterable[tuple[str, torch.nn.Module]], *, training: bool) -> None:
    """Set the flag of each layer; torch's own method does not find those of lists.

    Raises:
        ConfigError: The layers should train: they do not ask the flag.
    """
    if training:
        raise ConfigError(
            "cannot run a model of Keras in training mode: its layers ask for an argument of the "
            "call, not for a mode",
            hint="return a torch.nn.Module whose forward calls model(x, training=True)",
        )
    for _, module in modules:
        module.training = False
