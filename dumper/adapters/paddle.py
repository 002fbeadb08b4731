"""PaddlePaddle, as padiff sees it (written against 3.3, eager mode).

Paddle facts that shape this file, each held by a test in ``tests/frameworks``:

- The in-place version counter is blind to ``set_value``, to optimizers and to the kernels that
  write BatchNorm statistics, so that only tensors inside the graph have a content key.
- An unused output of an operation with several gets a gradient of zeros (torch: none), and
  ``clear_grad`` leaves zeros (torch: none).
- Parameters are also what Paddle uses for BatchNorm statistics, and recurrent layers own their
  weights a second time under flat names.

Gradients are total ones, those that ``paddle.grad`` takes of leaves too. Of layers it is told what
is inside, what is owned and what cannot be seen.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import paddle
from paddle import nn
from paddle.jit.pir_translated_layer import PirTranslatedLayer
from paddle.nn.layer.rnn import RNNBase

from padiff.dumper.adapter import (
    Adapter,
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

from .callhook import CallHook
from .paddle_operators import PaddleOperators
from .paddle_random import GeneratorProbe
from .paddle_sharding import layout_of
from .paddle_tensors import (
    device_name,
    dtype_name,
    elements,
    floating,
    is_floating,
    place_name,
    real,
    small_bytes,
    tensor_of,
)
from .paddle_training import BackwardPasses, PaddleTrainer, PaddleWatch
from .signature import keywords_of
from .walk import walk as walk_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Keywords
    from padiff.dumper.operators import Operators
    from padiff.dumper.trainer import Trainer
    from padiff.dumper.watch import Watch
    from padiff.dumpfile import Layout


_PARTS: Final = {"complex64": "float32", "complex128": "float64"}
"""Dtype of the real and imaginary parts."""
_LOST_RESERVE: Final = "Tensor holds no memory"


class PaddleAdapter(Adapter):
    """The adapter of PaddlePaddle."""

    name = "paddle"
    trainer: Trainer = PaddleTrainer()
    operators: Operators | None = PaddleOperators()
    watch: Watch = PaddleWatch()

    def __init__(self) -> None:
        """Count no backward pass yet."""
        self._passes = BackwardPasses()
        self._gradients = GradientHooks()
        self._probe = GeneratorProbe()

    def version(self) -> str:
        """Return the framework's version."""
        return str(paddle.version.full_version)

    # -- recognising things

    def is_model(self, thing: object) -> bool:
        """Return whether this is a ``paddle.nn.Layer``."""
        return isinstance(thing, nn.Layer)

    def is_model_class(self, thing: object) -> bool:
        """Return whether this is ``paddle.nn.Layer`` or a subclass."""
        return isinstance(thing, type) and issubclass(thing, nn.Layer)

    def is_tensor(self, thing: object) -> bool:
        """Return whether this is an eager tensor or parameter, and no output that was left out."""
        return isinstance(thing, paddle.Tensor) and (
            thing._is_initialized() or thing.is_dist() or 0 in thing.shape
        )

    def is_floating(self, tensor: Tensor) -> bool:
        """Return whether its dtype is real or complex floating point."""
        return is_floating(tensor)

    # -- reading a model

    def named_modules(self, model: Model) -> Iterator[tuple[str, Module]]:
        """Yield every (dotted path, layer), parents first, shared ones at each of their paths."""
        return walk(model)

    def unwrap(self, model: Model) -> Model:
        """Take off ``paddle.DataParallel`` and fleet's wrappers; refuse compiled programs.

        Raises:
            RecordError: A layer was loaded from a compiled program.
        """
        while (inner := inside(model)) is not None:
            model = inner
        for path, layer in walk(model):
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
                is_saved = name not in module._non_persistable_buffer_names_set
                yield NamedTensor(name=name, tensor=tensor, is_weight=False, is_saved=is_saved)

    def class_bases(self, module: Module) -> Sequence[type]:
        """Return the method resolution order from the layer's class to ``paddle.nn.Layer``."""
        order = type(module).__mro__
        return order[: order.index(nn.Layer) + 1]

    # -- tensors

    def layout(self, tensor: Tensor) -> Layout | None:
        """Read the mesh and the placements of a distributed tensor."""
        return layout_of(tensor)

    def elements(self, tensor: Tensor) -> Array:
        """Return the elements, C-contiguous, in their own dtype and memory where possible."""
        return elements(tensor)

    def small_bytes(self, tensor: Tensor, limit: int) -> tuple[bytes, str, tuple[int, ...]] | None:
        """Copy the memory of a small contiguous tensor: numpy takes three times as long."""
        return small_bytes(tensor, limit)

    def copy(self, tensor: Tensor) -> Tensor:
        """Return a new leaf of the same elements, dtype, device and wish for a gradient."""
        made = tensor.detach().clone()
        made.stop_gradient = tensor.stop_gradient
        return made

    def content_key(self, tensor: Tensor) -> Hashable | None:
        """Return a key that is equal only for equal content, None outside the graph.

        Leaves have none: ``set_value``, optimizers and BatchNorm kernels write into them without
        raising the in-place version.
        """
        if tensor.is_leaf or not tensor.is_dense():
            return None
        shape = tensor.shape
        if 0 in shape:
            return None
        return (
            tensor.data_ptr(),
            tensor._inplace_version(),
            id(tensor.dtype),
            *shape,
            *tensor.strides,
        )

    def requires_grad(self, tensor: Tensor) -> bool:
        """Return whether a gradient will flow into the tensor."""
        return not tensor.stop_gradient and is_floating(tensor)

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """Return the accumulated gradient, ``main_grad`` of mixed-precision training first."""
        main = getattr(parameter, "main_grad", None)
        return parameter.grad if main is None else main

    def in_backward(self) -> bool:
        """Return whether this thread runs a backward pass (``recompute`` runs layers again)."""
        is_flagged: bool = paddle.base.core.eager._is_run_in_backward()  # type: ignore[no-untyped-call]
        return is_flagged or self._passes.depth > 0

    def random_state(self) -> Hashable:
        """Return what the CPU's generator would draw next, and how far those of GPUs have come."""
        return self._probe.state()

    # -- hooks

    def recording(self) -> AbstractContextManager[object]:
        """Notice backward passes, and run what ``to_static`` has compiled eagerly."""
        exits = ExitStack()
        exits.enter_context(eagerly())
        exits.enter_context(self._passes.watched())
        exits.callback(self.watch.handed(self._gradients.handed).remove)
        return exits

    def hook_calls(self, module: Module, before: BeforeCall, after: AfterCall) -> Handle:
        """Call back around every execution, inside the hooks that the user put there before."""

        def enter(layer: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            before(layer, args, kwargs)

        def leave(layer: Module, _args: tuple[Any, ...], result: object) -> None:
            after(layer, result)

        return Handles(
            module.register_forward_pre_hook(CallHook(enter), with_kwargs=True),
            module.register_forward_post_hook(CallHook(leave), prepend=True),
        )

    def hook_entry(self, module: Module, callback: Callable[[], None]) -> Handle:
        """Call back first: sharded layers may gather their weights in a hook of their own."""

        def entered(_layer: object, _args: object) -> None:
            callback()

        handle: Handle = module.register_forward_pre_hook(CallHook(entered))
        module._forward_pre_hooks.move_to_end(handle._hook_id, last=False)  # type: ignore[attr-defined]
        return handle

    def hook_gradient(self, tensor: Tensor, callback: Callable[[Tensor], None]) -> Handle:
        """Call back with the total gradient of the tensor as it is now."""
        return self._gradients.add(tensor, callback)

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
            if isinstance(layer, RNNBase) and not layer.dropout:
                layer.training = True

    def place(self, model: Model, *, device: str | None, dtype: str | None) -> Model:
        """Move and cast a model; integer buffers keep their dtype.

        Raises:
            ConfigError: The device or dtype is unknown or not available.
        """
        if device is not None:
            device = device_name(device)
            paddle.device.set_device(device)
        if device is None and dtype is None:
            return model
        target = None if dtype is None else floating(dtype)
        # Layer.to would cast integer buffers as well.
        model._to_impl(device=device, dtype=target, floating_only=True)
        return model

    def model_dtype(self, model: Model) -> str:
        """Name the most frequent dtype of the floating parameters, ``""`` without any.

        Of complex ones that of their parts: inputs of a spectral model are real.
        """
        found: Counter[str] = Counter()
        for parameter in parameters_of(model):
            if self.is_floating(parameter):
                name = dtype_name(parameter)
                found[_PARTS.get(name, name)] += math.prod(parameter.shape)
        return found.most_common(1)[0][0] if found else ""

    def model_device(self, model: Model) -> str:
        """Name the device of the first parameter, ``cpu`` without any."""
        place = next((parameter.place for parameter in parameters_of(model)), None)
        if place is None or place.is_cpu_place():
            return "cpu"
        return f"gpu:{place.gpu_device_id()}" if place.is_gpu_place() else str(place)

    def tensor(
        self, array: Array, *, device: str, dtype: str | None, requires_grad: bool = False
    ) -> Tensor:
        """Make a tensor from host memory, cast to ``dtype`` if given; 0-d stays 0-d."""
        return tensor_of(array, device=device, dtype=dtype, requires_grad=requires_grad)

    def forward_keywords(self, model: Model) -> Keywords:
        """Return what ``forward`` accepts by keyword."""
        return keywords_of(model.forward)

    def mean_loss(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return PaDiff's default loss: the mean of each output's mean, all in float32."""
        means = [real(output).astype("float32").mean() for output in outputs]
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
                hint="set the dropout of these layers to 0, as eval mode does; or use "
                'phase="forward"',
            ) from error

    def assign(self, tensor: Tensor, array: Array) -> None:
        """Overwrite a parameter or buffer in place; dtype and device stay."""
        fresh = self.tensor(array, device=place_name(tensor), dtype=dtype_name(tensor))
        if tuple(fresh.shape) != tuple(tensor.shape):
            expected, found = tuple(tensor.shape), tuple(fresh.shape)
            raise ConfigError(f"cannot assign a weight: expected shape {expected}, found {found}")
        with paddle.no_grad():
            tensor.copy_(fresh, blocking=True)  # set_value refuses parameters that were cast

    def notes(self, model: Model) -> Sequence[str]:
        """State which layers ran eagerly, or in training mode inside an eval model."""
        layers = [(path or "(root)", layer) for path, layer in walk(model)]
        notes = []
        compiled = [path for path, layer in layers if is_compiled(layer)]
        if compiled:
            notes.append("what to_static compiled ran eagerly: " + ", ".join(compiled))
        kept = [path for path, layer in layers if layer.training and isinstance(layer, RNNBase)]
        if kept and not all(layer.training for _, layer in layers):
            notes.append(
                "recurrent layers without dropout ran in training mode (same values; Paddle has "
                "no backward for them in eval mode): " + ", ".join(kept)
            )
        return notes


class GradientHooks:
    """The hooks on tensors that one adapter has set."""

    def __init__(self) -> None:
        """Have set none yet."""
        self._of_leaf: dict[int, list[_Hook]] = defaultdict(list)
        """By identity; a hook keeps its leaf alive until it is taken off."""

    def add(self, tensor: Tensor, callback: Callable[[Tensor], None]) -> Handle:
        """Call back with the total gradient of the tensor as it is now."""
        return _Hook(tensor, callback, self._of_leaf)

    def handed(self, tensor: Tensor, gradient: Tensor) -> None:
        """Call back for a leaf of which ``paddle.grad`` gave the gradient.

        Paddle runs the hooks of all tensors on its way but those of the leaves at its end (torch
        runs them all): a gradient penalty on the model's input would go unnoticed.
        """
        for hook in list(self._of_leaf.get(id(tensor), ())):
            hook.arrived(gradient)


class _Hook:
    """A tensor's hook.

    Paddle's own handle keeps the tensor, so that no activation would die before the step ends. What
    is inside the graph is only referred to; once the hook is off, it does nothing where it is left.
    """

    def __init__(
        self,
        tensor: Tensor,
        callback: Callable[[Tensor], None],
        of_leaf: dict[int, list[_Hook]],
    ) -> None:
        self._callback: Callable[[Tensor], None] | None = callback
        self._number = tensor._register_grad_hook(self.arrived)
        self._leaf = tensor if tensor.is_leaf else None
        self._inner = None if tensor.is_leaf else weakref.ref(tensor)
        self._known = of_leaf
        self._identity = id(tensor)
        if self._leaf is not None:
            of_leaf[self._identity].append(self)

    def arrived(self, gradient: Tensor | None) -> None:
        """Call back, unless the hook is off or none came, as to BatchNorm's statistics."""
        if self._callback is not None and gradient is not None:
            self._callback(gradient)

    def remove(self) -> None:
        """Take it off; it is off already where an in-place change has moved the tensor off it."""
        self._callback = None
        if self._leaf is not None:
            self._forget()
        tensor = self._leaf if self._inner is None else self._inner()
        if tensor is not None:
            tensor._remove_grad_hook(self._number)

    def _forget(self) -> None:
        own = self._known.get(self._identity, [])
        if self in own:
            own.remove(self)
        if not own:
            self._known.pop(self._identity, None)


_FLEET: Final = "paddle.distributed.fleet"
_WRAPPERS: Final = {
    "paddle.distributed.parallel.DataParallel": "_layers",
    f"{_FLEET}.meta_parallel.meta_parallel_base.MetaParallelBase": "_layers",
    f"{_FLEET}.utils.mix_precision_utils.MixPrecisionLayer": "_layers",
    f"{_FLEET}.meta_parallel.sharding.group_sharded_stage2.GroupShardedStage2": "_layer",
    f"{_FLEET}.meta_parallel.sharding.group_sharded_stage3.GroupShardedStage3": "_layer",
}
"""Wrappers, and the only name that each has for what it wraps."""
_STATISTICS: Final = ("_mean", "_variance")
_POWER_VECTORS: Final = ("weight_u", "weight_v")


def walk(layer: nn.Layer) -> Iterator[tuple[str, nn.Layer]]:
    """Yield a layer and what it contains at every path; a layer inside itself is not followed."""
    # named_sublayers skips shared ones
    return walk_modules(layer, lambda one: one._sub_layers.items())


def parameters_of(layer: nn.Layer) -> Iterator[paddle.Tensor]:
    """Yield each parameter once, of a tree of any depth; Paddle's own iterator recurses."""
    seen: set[int] = set()
    for _, one in walk(layer):
        for parameter in one._parameters.values():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                yield parameter


def inside(layer: nn.Layer) -> nn.Layer | None:
    """Return the layer inside a wrapper for devices or mixed precision; None if it is none."""
    for kind in type(layer).__mro__:
        name = _WRAPPERS.get(f"{kind.__module__}.{kind.__qualname__}")
        found = None if name is None else getattr(layer, name, None)
        if isinstance(found, nn.Layer):
            return found
    return None


def refuse_compiled(path: str, layer: nn.Layer) -> None:
    """Refuse a layer that is nothing but a compiled program.

    Raises:
        RecordError: It was loaded from one.
    """
    if isinstance(layer, paddle.jit.TranslatedLayer | PirTranslatedLayer):
        raise RecordError(
            f"cannot record module {path or '(root)'!r}: expected an eager layer, found a compiled "
            f"{type(layer).__name__}, whose inner calls cannot be seen",
            hint="record the layer that the program was made of",
        )


def is_compiled(layer: nn.Layer) -> bool:
    """Return whether ``to_static`` has compiled a layer's forward."""
    kind = paddle.jit.dy2static.program_translator.StaticFunction
    return isinstance(vars(layer).get("forward"), kind)


@contextmanager
def eagerly() -> Iterator[None]:
    """Run what ``to_static`` has compiled eagerly: inside a program no layer calls back."""
    translator = paddle.jit.dy2static.program_translator.ProgramTranslator()
    before = translator.enable_to_static
    paddle.jit.enable_to_static(False)  # noqa: FBT003
    try:
        yield
    finally:
        paddle.jit.enable_to_static(before)


def folded_names(layer: nn.Layer) -> frozenset[str]:
    """Name the tensors of a layer that are another's alias, derived, or a kernel's own state."""
    own = layer._parameters
    folded = {
        name[: -len(suffix)]
        for suffix in ("_orig", "_v")
        for name in own
        if name.endswith(suffix) and (suffix == "_orig" or f"{name[:-2]}_g" in own)
    }  # weight_norm and spectral_norm keep the weight they compute as a buffer
    if isinstance(layer, nn.layer.rnn.RNNBase):
        cells = {
            id(parameter) for child in layer.sublayers() for parameter in child._parameters.values()
        }
        folded |= {name for name, parameter in own.items() if id(parameter) in cells}
        folded.add("_dropout_state")
    return frozenset(folded)


def is_statistic(layer: nn.Layer, name: str) -> bool:
    """Return whether a layer keeps what others call a buffer as a parameter of this name."""
    if isinstance(layer, nn.SpectralNorm):
        return name in _POWER_VECTORS
    norms = (nn.layer.norm._BatchNormBase, nn.BatchNorm)  # the common base
    return isinstance(layer, norms) and name in _STATISTICS


def unlisted(layer: nn.Layer) -> Iterator[tuple[str, paddle.Tensor]]:
    """Yield parameters that a layer keeps in plain lists, where Paddle itself does not see them."""
    if isinstance(layer, nn.AdaptiveLogSoftmaxWithLoss):
        for number, tail in enumerate(layer.tail_weights):
            for place, tensor in enumerate(tail):
                yield f"tail_weights.{number}.{place}", tensor
