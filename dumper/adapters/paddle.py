"""PaddlePaddle, as padiff sees it (written against 3.3, eager mode).

Paddle facts that shape this file, each held by a test in ``tests/frameworks``:

- ``Tensor.numpy()`` gives bfloat16 as uint16 and float8 as int8, keeps a transposed layout, and
  fails on sparse-rows gradients.
- The in-place version counter is blind to ``set_value``, to optimizers and to the kernels that
  write BatchNorm statistics, so that only tensors inside the graph have a content key.
- An unused output of an operation with several gets a gradient of zeros (torch: none), and
  ``clear_grad`` leaves zeros (torch: none).
- Parameters are also what Paddle uses for BatchNorm statistics, and recurrent layers own their
  weights a second time under flat names.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import paddle
from paddle import nn

from padiff.dumper.adapter import (
    AfterCall,
    Array,
    BeforeCall,
    Handle,
    Model,
    Module,
    NamedTensor,
    Tensor,
)
from padiff.dumper.watch import Handles
from padiff.dumpfile import ConfigError, RecordError

from .paddle_layers import folded_names, is_statistic, refuse_compiled, unlisted, walk
from .paddle_training import PaddleTrainer
from .paddle_watch import BackwardPasses, PaddleWatch
from .signature import keywords_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Keywords
    from padiff.dumper.trainer import Trainer
    from padiff.dumper.watch import Watch

__all__ = ["PaddleAdapter"]

_BITS: Final = {
    paddle.bfloat16: np.dtype(ml_dtypes.bfloat16),
    paddle.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    paddle.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
}
"""Dtypes whose bits ``Tensor.numpy()`` hands out under an integer name."""

_WIDER: Final = {"uint16": np.int32, "uint32": np.int64, "uint64": np.int64}
"""Integers that Paddle lacks (it would take uint16 for bfloat16 bits), and what holds them."""

_LOST_RESERVE: Final = "Tensor holds no memory"


class _GradientHook:
    """A tensor's hook; Paddle warns when an in-place change has moved the tensor off it."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def remove(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            self._handle.remove()


class PaddleAdapter:
    """The adapter of PaddlePaddle."""

    name = "paddle"
    trainer: Trainer = PaddleTrainer()
    watch: Watch = PaddleWatch()

    def __init__(self) -> None:
        """Count no backward pass yet."""
        self._passes = BackwardPasses()

    def version(self) -> str:
        """Give the framework's version."""
        return str(paddle.version.full_version)

    # -- recognising things

    def is_model(self, thing: object) -> bool:
        """Tell whether this is a ``paddle.nn.Layer``."""
        return isinstance(thing, nn.Layer)

    def is_model_class(self, thing: object) -> bool:
        """Tell whether this is ``paddle.nn.Layer`` or a subclass."""
        return isinstance(thing, type) and issubclass(thing, nn.Layer)

    def is_tensor(self, thing: object) -> bool:
        """Tell whether this is an eager tensor or parameter."""
        return isinstance(thing, paddle.Tensor)

    def is_floating(self, tensor: Tensor) -> bool:
        """Tell whether its dtype is real or complex floating point."""
        return bool(tensor.is_floating_point() or tensor.is_complex() or tensor.dtype in _BITS)

    # -- reading a model

    def named_modules(self, model: Model) -> Iterator[tuple[str, Module]]:
        """Yield every (dotted path, layer), parents first, shared ones at each of their paths."""
        return walk(model, "", ())

    def unwrap(self, model: Model) -> Model:
        """Take off ``paddle.DataParallel``; refuse compiled layers.

        Raises:
            RecordError: A layer was compiled by ``to_static`` or loaded from a compiled program.
        """
        while isinstance(model, paddle.DataParallel):
            model = model._layers  # the only name it has
        for path, layer in walk(model, "", ()):
            refuse_compiled(path, layer)
        return model

    def own_tensors(self, module: Module) -> Iterator[NamedTensor]:
        """Yield what the layer owns: recurrent weights under their cells, derived ones never."""
        skip = folded_names(module)
        for name, tensor in module._parameters.items():  # no public local view
            if tensor is not None and name not in skip:
                is_weight = not is_statistic(module, name)
                yield NamedTensor(name=name, tensor=tensor, is_weight=is_weight)
        for name, tensor in unlisted(module):
            yield NamedTensor(name=name, tensor=tensor, is_weight=True)
        for name, tensor in module._buffers.items():
            if tensor is not None and name not in skip:
                yield NamedTensor(name=name, tensor=tensor, is_weight=False)

    def class_bases(self, module: Module) -> Sequence[type]:
        """Give the method resolution order from the layer's class to ``paddle.nn.Layer``."""
        order = type(module).__mro__
        return order[: order.index(nn.Layer) + 1]

    def is_training(self, module: Module) -> bool:
        """Give the layer's training flag."""
        return bool(module.training)

    # -- tensors

    def snapshot(self, tensor: Tensor) -> Array:
        """Copy the elements to host memory now, C-contiguous, in their native dtype."""
        if tensor.is_selected_rows():
            return _dense_rows(tensor)
        if not tensor.is_dense():
            tensor = tensor.to_dense()
        bits = _BITS.get(tensor.dtype)
        array: Array = tensor.numpy()
        if not array.flags.c_contiguous:
            array = array.copy(order="C")  # not ascontiguousarray: that makes 0-d arrays 1-d
        return array if bits is None else array.view(bits)

    def content_key(self, tensor: Tensor) -> Hashable | None:
        """Give a key that is equal only for equal content; only tensors inside the graph have one.

        Leaves have none: ``set_value``, optimizers and BatchNorm kernels write into them without
        raising the in-place version.
        """
        if tensor.is_leaf or not tensor.is_dense() or not tensor.size:
            return None
        place, strides = tensor.data_ptr(), tuple(tensor.strides)
        shape = tuple(tensor.shape)
        return place, shape, strides, str(tensor.dtype), tensor.inplace_version

    def identity(self, tensor: Tensor) -> Hashable:
        """Give a key that is equal for the same tensor object."""
        return id(tensor)

    def requires_grad(self, tensor: Tensor) -> bool:
        """Tell whether a gradient will flow into the tensor."""
        return not tensor.stop_gradient and self.is_floating(tensor)

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """Give the accumulated gradient, ``main_grad`` of mixed-precision training first."""
        main = getattr(parameter, "main_grad", None)
        return parameter.grad if main is None else main

    def in_backward(self) -> bool:
        """Tell whether this thread is inside a backward pass (``recompute`` runs layers again)."""
        is_flagged: bool = paddle.base.core.eager._is_run_in_backward()  # type: ignore[no-untyped-call]
        return is_flagged or self._passes.depth > 0

    # -- hooks

    def recording(self) -> AbstractContextManager[object]:
        """Count backward passes; compiled layers are refused when they are hooked."""
        return self._passes.watched()

    def hook_calls(self, module: Module, before: BeforeCall, after: AfterCall) -> Handle:
        """Call back around every execution, inside the hooks that the user put there before."""

        def enter(layer: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            before(layer, args, kwargs)

        def leave(layer: Module, _args: tuple[Any, ...], result: object) -> None:
            after(layer, result)

        return Handles(
            module.register_forward_pre_hook(enter, with_kwargs=True),
            module.register_forward_post_hook(leave, prepend=True),
        )

    def hook_gradient(self, tensor: Tensor, callback: Callable[[Tensor], None]) -> Handle:
        """Call back with the total gradient of the tensor as it is now."""

        def arrived(gradient: Tensor) -> None:
            callback(gradient)

        return _GradientHook(tensor.register_hook(arrived))

    # -- running a model

    def seed(self, seed: int) -> None:
        """Seed Paddle's random generators on all devices."""
        paddle.seed(seed)

    def set_training(self, model: Model, *, training: bool) -> None:
        """Set the training flag; in eval, recurrent layers without dropout keep training.

        Paddle's recurrent kernels lose what their backward needs in eval mode. Without dropout
        both modes compute the same, so that only such layers stay in training mode.
        """
        if training:
            model.train()
            return
        model.eval()
        for layer in model.sublayers(include_self=True):
            if isinstance(layer, nn.layer.rnn.RNNBase) and not layer.dropout:
                layer.training = True

    def place(self, model: Model, *, device: str | None, dtype: str | None) -> Model:
        """Move and cast a model; integer buffers keep their dtype.

        Raises:
            ConfigError: The device or dtype is unknown or not available.
        """
        if device is not None:
            device = _device(device)
            paddle.device.set_device(device)
        if device is None and dtype is None:
            return model
        target = None if dtype is None else _floating(dtype)
        # Layer.to would cast integer buffers as well.
        model._to_impl(device=device, dtype=target, floating_only=True)
        return model

    def model_dtype(self, model: Model) -> str:
        """Name the most frequent dtype of the floating parameters, ``""`` without any."""
        found: Counter[str] = Counter()
        for parameter in model.parameters():
            if self.is_floating(parameter):
                found[_dtype_name(parameter)] += math.prod(parameter.shape)
        return found.most_common(1)[0][0] if found else ""

    def model_device(self, model: Model) -> str:
        """Name the device of the first parameter, ``cpu`` without any."""
        place = next((parameter.place for parameter in model.parameters()), None)
        if place is None or place.is_cpu_place():
            return "cpu"
        return f"gpu:{place.gpu_device_id()}" if place.is_gpu_place() else str(place)

    def tensor(
        self, array: Array, *, device: str, dtype: str | None, requires_grad: bool = False
    ) -> Tensor:
        """Make a tensor from host memory, cast to ``dtype`` if given; 0-d stays 0-d."""
        wider = _WIDER.get(array.dtype.name)
        array = np.array(array if wider is None else array.astype(wider), order="C")
        bits = next((kind for kind, known in _BITS.items() if known == array.dtype), None)
        if bits is None:
            tensor = paddle.to_tensor(array, place=_device(device))
        elif bits == paddle.bfloat16:
            tensor = paddle.to_tensor(array.view(np.uint16), place=_device(device))
        else:
            tensor = paddle.to_tensor(array.view(np.uint8), place=_device(device)).view(bits)
        if dtype is not None and _dtype_name(tensor) != dtype:
            tensor = tensor.astype(getattr(paddle, dtype))
        tensor.stop_gradient = not requires_grad
        return tensor

    def forward_keywords(self, model: Model) -> Keywords:
        """Tell what ``forward`` accepts by keyword."""
        return keywords_of(model.forward)

    def mean_loss(self, outputs: Sequence[Tensor]) -> Tensor:
        """Give PaDiff's default loss: each output's mean in float32, then the mean of the means."""
        means = [_real(output).astype("float32").mean() for output in outputs]
        return paddle.stack(means).mean()

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass from a scalar.

        Raises:
            RecordError: A recurrent layer with dropout ran in eval mode, which has no backward.
        """
        try:
            loss.backward()
        except RuntimeError as error:
            if _LOST_RESERVE not in str(error):
                raise
            raise RecordError(
                "cannot run backward: Paddle's recurrent layers have no backward in eval mode, "
                "and one with dropout cannot be put into training mode without changing it",
                hint="build the model with dropout 0, or use --train, or --phase forward",
            ) from error

    def assign(self, tensor: Tensor, array: Array) -> None:
        """Overwrite a parameter or buffer in place; dtype and device stay."""
        fresh = self.tensor(array, device=_place_name(tensor), dtype=_dtype_name(tensor))
        if tuple(fresh.shape) != tuple(tensor.shape):
            expected, found = tuple(tensor.shape), tuple(fresh.shape)
            raise ConfigError(f"cannot assign a weight: expected shape {expected}, found {found}")
        with paddle.no_grad():
            tensor.copy_(fresh, blocking=True)  # set_value refuses parameters that were cast

    def notes(self, model: Model) -> Sequence[str]:
        """State which recurrent layers run in training mode inside an eval model."""
        if all(layer.training for _, layer in walk(model, "", ())):
            return []
        kept = [
            path or "(root)"
            for path, layer in walk(model, "", ())
            if isinstance(layer, nn.layer.rnn.RNNBase) and layer.training
        ]
        if not kept:
            return []
        names = ", ".join(kept)
        note = (
            "recurrent layers without dropout ran in training mode (same values; Paddle has no "
            f"backward for them in eval mode): {names}"
        )
        return [note]


def _dense_rows(gradient: Tensor) -> Array:
    """Add up the rows of a sparse gradient, as an optimizer would."""
    rows = gradient.get_selected_rows()
    parts = gradient.numpy()
    dense = np.zeros((rows.height(), *parts.shape[1:]), parts.dtype)
    np.add.at(dense, rows.rows(), parts)
    return dense


def _real(tensor: Tensor) -> Tensor:
    return paddle.as_real(tensor) if tensor.is_complex() else tensor


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("paddle.")


def _place_name(tensor: Tensor) -> str:
    place = tensor.place
    return f"gpu:{place.gpu_device_id()}" if place.is_gpu_place() else "cpu"


def _device(name: str) -> str:
    """Check a device name and put it in Paddle's words.

    Raises:
        ConfigError: It is unknown, or this build of Paddle cannot use it.
    """
    ours = name.replace("cuda", "gpu")
    try:
        paddle.device._convert_to_place(ours)  # set_device would switch
    except (ValueError, RuntimeError) as error:
        raise ConfigError(
            f"cannot use device {name!r} in this build of paddle: {_first_line(error)}",
            hint="cpu always works; gpu and gpu:N need a GPU build of Paddle",
        ) from error
    return ours


def _floating(dtype: str) -> str:
    known = {"float16", "float32", "float64", "bfloat16"}
    if dtype not in known:
        expected = ", ".join(sorted(known))
        raise ConfigError(f"cannot cast the model: expected a dtype of {expected}, found {dtype!r}")
    return dtype


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
