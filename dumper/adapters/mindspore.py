"""MindSpore, as padiff sees it (written against 2.10, PyNative mode on a CPU).

MindSpore facts that shape this file: its in-place counter stays where it is when elements are
written, so that no tensor has a content key; gradients are made by a function of a function, of
which ``mindspore_tape`` uses the pieces; statistics of BatchNorm are parameters without gradient.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final

import mindspore
from mindspore import nn, ops
from mindspore.graph.api import _pynative_executor as executor

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
from padiff.dumpfile import ConfigError

from .mindspore_calls import CallHooks
from .mindspore_operators import MindSporeOperators, busy
from .mindspore_tape import Tape
from .mindspore_tensors import dtype_name, dtype_of, elements, tensor_of
from .mindspore_training import MindSporeTrainer
from .mindspore_watch import MindSporeWatch
from .signature import keywords_of
from .walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Keywords
    from padiff.dumper.operators import Operators
    from padiff.dumper.trainer import Trainer
    from padiff.dumper.watch import Watch

_STATISTICS: Final = frozenset({
    "moving_mean", "moving_variance", "running_mean", "running_var", "num_batches_tracked",
})  # fmt: skip
"""Parameters that MindSpore uses as buffers."""
_PARTS: Final = {"complex64": "float32", "complex128": "float64"}
"""Dtype of the real and imaginary parts."""

_TAPE: Final = Tape()
_CALLS: Final = CallHooks()
_CALLS.begins = _TAPE.begin


_CASTS = frozenset({"float16", "float32", "bfloat16"})
"""Dtypes to which a Cell casts what it takes; of another one it computes in that of its weights."""


class MindSporeAdapter(Adapter):
    """The adapter of MindSpore."""

    name = "mindspore"
    trainer: Trainer = MindSporeTrainer(_TAPE, _CALLS)
    operators: Operators | None = MindSporeOperators()
    watch: Watch = MindSporeWatch(_TAPE)

    def version(self) -> str:
        """Return the framework's version."""
        return str(mindspore.__version__)

    # -- recognising things

    def is_model(self, thing: object) -> bool:
        """Return whether this is a ``mindspore.nn.Cell``."""
        return isinstance(thing, nn.Cell)

    def is_model_class(self, thing: object) -> bool:
        """Return whether this is ``mindspore.nn.Cell`` or a subclass."""
        return isinstance(thing, type) and issubclass(thing, nn.Cell)

    def is_tensor(self, thing: object) -> bool:
        """Return whether this is a tensor or parameter."""
        return isinstance(thing, mindspore.Tensor)

    def is_floating(self, tensor: Tensor) -> bool:
        """Return whether its dtype is real or complex floating point."""
        return "float" in dtype_name(tensor) or "complex" in dtype_name(tensor)

    # -- reading a model

    def named_modules(self, model: Model) -> Iterator[tuple[str, Module]]:
        """Yield every (dotted path, Cell), parents first, shared ones at each of their paths."""
        return walk(model, lambda cell: cell._cells.items())

    def own_tensors(self, module: Module) -> Iterator[NamedTensor]:
        """Yield the parameters, then the buffers."""
        for name, tensor in module._params.items():
            if tensor is not None:
                yield NamedTensor(name=name, tensor=tensor, is_weight=name not in _STATISTICS)
        for name, tensor in getattr(module, "_buffers", {}).items():
            if isinstance(tensor, mindspore.Tensor):
                yield NamedTensor(name=name, tensor=tensor, is_weight=False)

    def class_bases(self, module: Module) -> Sequence[type]:
        """Return the method resolution order from the Cell's class to ``mindspore.nn.Cell``."""
        order = type(module).__mro__
        return order[: order.index(nn.Cell) + 1]

    # -- tensors

    def elements(self, tensor: Tensor) -> Array:
        """Return the elements, C-contiguous, in their own dtype and memory where possible."""
        with busy():
            return elements(tensor)

    def copy(self, tensor: Tensor) -> Tensor:
        """Return a new leaf of the same elements, dtype and wish for a gradient."""
        return self.tensor(
            self.snapshot(tensor), device="cpu", dtype=None, requires_grad=tensor._requires_grad
        )

    def requires_grad(self, tensor: Tensor) -> bool:
        """Return whether a gradient will flow into the tensor."""
        return bool(tensor._requires_grad) and self.is_floating(tensor)

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """Return the gradient that the last backward passes have made."""
        return _TAPE.gradient(parameter)

    def in_backward(self) -> bool:
        """Return whether this thread is inside a backward pass (``recompute`` runs Cells again)."""
        return bool(executor.get_current_autodiff_engine_id() != -1)

    def random_state(self) -> Hashable:
        """Return the default generator's bytes; primitives with seeds of their own have none."""
        with busy():
            return bytes(mindspore.get_rng_state().asnumpy().tobytes())

    # -- hooks

    def recording(self) -> AbstractContextManager[object]:
        """Build a graph of what runs from the first call on."""
        return _TAPE.recording()

    def hook_calls(self, module: Module, before: BeforeCall, after: AfterCall) -> Handle:
        """Call back around every execution of a Cell."""
        return _CALLS.around(module, before, after)

    def hook_entry(self, module: Module, callback: Callable[[], None]) -> Handle:
        """Call back at the beginning of every execution, before all that is hooked to it."""
        return _CALLS.entered(module, callback)

    def hook_gradient(self, tensor: Tensor, callback: Callable[[Tensor], None]) -> Handle:
        """Call back with the total gradient of the tensor as it is now."""
        if tensor._is_leaf:
            _TAPE.want([tensor])

        def arrived(gradient: Tensor | None) -> None:
            if gradient is not None:  # as for what nothing read
                callback(gradient)

        handle: Handle = tensor.register_hook(arrived)
        return handle

    # -- running a model

    def seed(self, seed: int) -> None:
        """Seed MindSpore's generators."""
        mindspore.set_seed(seed)
        mindspore.manual_seed(seed)

    def set_training(self, model: Model, *, training: bool) -> None:
        """Set the training flag of the model and everything in it."""
        model.set_train(training)

    def place(self, model: Model, *, device: str | None, dtype: str | None) -> Model:
        """Cast a model; floating parameters and buffers only.

        Raises:
            ConfigError: The device is another than the CPU, or the dtype is unknown.
        """
        if mindspore.get_context("mode") != mindspore.PYNATIVE_MODE:
            mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
        if device not in (None, "cpu"):
            raise ConfigError(
                f"cannot place the model on device {device!r}: MindSpore is recorded on a CPU"
            )
        if dtype is not None:
            if dtype in _CASTS:
                model.to_float(dtype_of(dtype))
            for _, cell in self.named_modules(model):
                for one in self.own_tensors(cell):
                    if self.is_floating(one.tensor):
                        one.tensor.set_dtype(dtype_of(dtype))
        _TAPE.want(model.trainable_params())
        return model

    def model_dtype(self, model: Model) -> str:
        """Name the most frequent dtype of the floating parameters, ``""`` without any."""
        found: Counter[str] = Counter()
        for parameter in model.get_parameters():
            if self.is_floating(parameter):
                name = dtype_name(parameter)
                found[_PARTS.get(name, name)] += math.prod(parameter.shape)
        return found.most_common(1)[0][0] if found else ""

    def model_device(self, model: Model) -> str:
        """Name the CPU."""
        del model
        return "cpu"

    def tensor(
        self, array: Array, *, device: str, dtype: str | None, requires_grad: bool = False
    ) -> Tensor:
        """Make a tensor from host memory; one that requires a gradient is a parameter."""
        del device
        with busy():
            made = tensor_of(array, dtype=dtype)
            return mindspore.Parameter(made, name="input") if requires_grad else made

    def forward_keywords(self, model: Model) -> Keywords:
        """Return what ``construct`` accepts by keyword."""
        return keywords_of(model.construct)

    def mean_loss(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return each output's mean in float32, then the mean of the means."""
        means = [ops.mean(_real(output).astype(mindspore.float32)) for output in outputs]
        return ops.mean(ops.stack(means))

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass from a scalar."""
        _TAPE.backward(loss)

    def assign(self, tensor: Tensor, array: Array) -> None:
        """Overwrite a parameter or buffer in place; its dtype stays."""
        fresh = self.tensor(array, device="cpu", dtype=dtype_name(tensor))
        if tuple(fresh.shape) != tuple(tensor.shape):
            expected, found = tuple(tensor.shape), tuple(fresh.shape)
            raise ConfigError(f"cannot assign a weight: expected shape {expected}, found {found}")
        with busy():
            ops.assign(tensor, fresh)


def _real(tensor: Tensor) -> Tensor:
    """Return a complex tensor with a last axis for its parts, others as they are."""
    return ops.view_as_real(tensor) if "complex" in dtype_name(tensor) else tensor
