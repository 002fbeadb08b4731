"""JAX with the modules of flax.nnx, as padiff sees them.

JAX facts that shape this file: arrays never change, so that weights are the variables that hold
them; a module has no hooks, so that the ``__call__`` of its class is replaced while anybody
listens; there is no backward pass to hook, so that ``jax_tape`` keeps what one needs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import jax
import numpy as np

from padiff.dumper.adapter import Adapter, AfterCall, Array, BeforeCall, Handle, NamedTensor
from padiff.dumpfile import ConfigError, numpy_dtype

from .jax_calls import hook_call, hook_entered
from .jax_modules import children, held_by, is_variable, nnx_package, variables
from .jax_operators import JaxOperators
from .jax_tape import TAPE, Removal, is_array, quiet, raw
from .jax_training import JaxTrainer, JaxWatch
from .signature import keywords_of
from .walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from padiff.dumper.adapter import Keywords
    from padiff.dumper.operators import Operators
    from padiff.dumper.trainer import Trainer
    from padiff.dumper.watch import Watch

Tensor = Any
Module = Any


class JaxAdapter(Adapter):
    """The adapter for ``jax``: modules of flax.nnx."""

    name = "jax"
    trainer = cast("Trainer", JaxTrainer())
    operators: Operators | None = JaxOperators()
    watch = cast("Watch", JaxWatch())

    def version(self) -> str:
        """Return the versions of JAX and, if it is there, of flax."""
        flax = sys.modules.get("flax")
        return f"{jax.__version__}, flax {flax.__version__}" if flax else str(jax.__version__)

    # -- recognising things

    def is_model(self, thing: object) -> bool:
        """Return whether this is a ``flax.nnx.Module``."""
        return nnx_package() is not None and isinstance(thing, nnx_package().Module)

    def is_model_class(self, thing: object) -> bool:
        """Return whether this is ``flax.nnx.Module`` or a subclass."""
        return (
            nnx_package() is not None
            and isinstance(thing, type)
            and issubclass(thing, nnx_package().Module)
        )

    def is_tensor(self, thing: object) -> bool:
        """Return whether this is an array with elements, or a variable that holds one."""
        return is_array(thing) or (is_variable(thing) and is_array(raw(thing)))

    def is_floating(self, tensor: Tensor) -> bool:
        """Return whether its dtype is real or complex floating point."""
        return bool(jax.numpy.issubdtype(tensor.dtype, np.inexact))

    # -- reading a model

    def named_modules(self, model: Module) -> Iterator[tuple[str, Module]]:
        """Yield every (path, module), parents first, shared modules at each of their paths."""
        return walk(model, children)

    def own_tensors(self, module: Module) -> Iterator[NamedTensor]:
        """Yield parameters, then other variables and arrays; not the state of generators."""
        nnx = nnx_package()
        rest = []
        for name, held in held_by(module):
            for path, one in variables(name, held):
                if isinstance(one, nnx.Param):
                    yield NamedTensor(name=path, tensor=one, is_weight=True)
                elif not isinstance(one, nnx.RngState):
                    is_saved = isinstance(one, nnx.BatchStat)
                    rest.append(
                        NamedTensor(name=path, tensor=one, is_weight=False, is_saved=is_saved)
                    )
        yield from rest

    def class_bases(self, module: Module) -> Sequence[type]:
        """Return the classes from the module's own up to ``flax.nnx.Module``."""
        order = type(module).__mro__
        return order[: order.index(nnx_package().Module) + 1]

    def is_training(self, module: Module) -> bool:
        """Read the first of the flags that ``train()`` and ``eval()`` set, here or inside."""
        for _, one in self.named_modules(module):
            for flag in _FLAGS:
                if isinstance(vars(one).get(flag), bool):
                    return not vars(one)[flag]
        return False

    # -- tensors

    def local(self, tensor: Tensor) -> Tensor:
        """Return the array that a variable holds now."""
        return raw(tensor)

    def elements(self, tensor: Tensor) -> Array:
        """Return the elements in the array's own memory; JAX never writes there."""
        return np.asarray(raw(tensor), order="C")

    def copy(self, tensor: Tensor) -> Tensor:
        """Return a new array of the same elements and wish for a gradient."""
        with quiet():
            made = jax.numpy.array(raw(tensor), copy=True)
        if self.requires_grad(tensor):
            TAPE.lead(made)
        return made

    def content_key(self, tensor: Tensor) -> Hashable | None:
        """Return the identity of the array, which never changes."""
        return id(raw(tensor))

    def identity(self, tensor: Tensor) -> Hashable:
        """Return the identity of the array, or of the variable: tied weights are one variable."""
        return id(raw(tensor))

    def requires_grad(self, tensor: Tensor) -> bool:
        """Return whether it is a floating parameter, or was made of one since recording began."""
        if is_variable(tensor):
            return isinstance(tensor, nnx_package().Param) and self.is_floating(tensor)
        return TAPE.needs(tensor)

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """Return what the last backward passes found for the array that the parameter holds."""
        array = raw(parameter)
        found = TAPE.gradients.get(id(array))
        return found[1] if found is not None and found[0] is array else None

    def random_state(self) -> Hashable:
        """Count how often random numbers were drawn."""
        return TAPE.drawn

    # -- hooks

    def recording(self) -> AbstractContextManager[object]:
        """Run compiled functions primitive by primitive."""
        return TAPE.recording()

    def hook_calls(self, module: Module, before: BeforeCall, after: AfterCall) -> Handle:
        """Call back around every execution of the module's ``__call__``."""
        return hook_call(module, before, after)

    def hook_entry(self, module: Module, callback: Callable[[], None]) -> Handle:
        """Call back first, once gradients are led to what the module owns."""
        weights = [owned.tensor for owned in self.own_tensors(module) if owned.is_weight]

        def entered() -> None:
            for weight in weights:
                TAPE.lead(raw(weight))
            callback()

        return hook_entered(module, entered)

    def hook_gradient(self, tensor: Tensor, callback: Callable[[Tensor], None]) -> Handle:
        """Call back with the total gradient that the tape finds."""
        array = raw(tensor)
        if is_variable(tensor):
            TAPE.lead(array)
        return Removal(TAPE.wait(array, callback))

    # -- running a model

    def seed(self, seed: int) -> None:
        """Do nothing: JAX has no generator of the process; a model is built with its own."""

    def set_training(self, model: Module, *, training: bool) -> None:
        """Call the model's ``train()`` or ``eval()``."""
        model.train() if training else model.eval()

    def place(self, model: Module, *, device: str | None, dtype: str | None) -> Module:
        """Move and cast a model in place."""
        if device is None and dtype is None:
            return model
        target = None if device is None else _device(device)
        kind = None if dtype is None else _dtype(dtype)
        for _, module in self.named_modules(model):
            for owned in self.own_tensors(module):
                if is_variable(owned.tensor):
                    is_cast = kind is not None and self.is_floating(owned.tensor)
                    array = raw(owned.tensor)
                    moved = array.astype(kind) if is_cast else array
                    owned.tensor.set_value(jax.device_put(moved, target))
        return model

    def model_dtype(self, model: Module) -> str:
        """Name the most frequent dtype of the floating parameters, ``""`` without any."""
        counts: dict[str, int] = {}
        for one in self._weights(model):
            if self.is_floating(one):
                counts[one.dtype.name] = counts.get(one.dtype.name, 0) + one.size
        return max(counts, key=lambda name: counts[name]) if counts else ""

    def model_device(self, model: Module) -> str:
        """Name the device of the first parameter, ``cpu`` without any."""
        first = next(self._weights(model), None)
        return "cpu" if first is None else str(next(iter(raw(first).devices())).platform)

    def tensor(
        self, array: Array, *, device: str, dtype: str | None, requires_grad: bool = False
    ) -> Tensor:
        """Make an array of elements in host memory."""
        source = np.array(array, order="C", dtype=array.dtype.newbyteorder("="))
        with quiet():
            kind = None if dtype is None else _dtype(dtype)
            made = jax.device_put(jax.numpy.array(source, kind), _device(device))
        if requires_grad:
            TAPE.lead(made)
        return made

    def forward_keywords(self, model: Module) -> Keywords:
        """Return what ``__call__`` accepts by keyword."""
        return keywords_of(model.__call__)

    def mean_loss(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return each output's mean in float32, then the mean of the means."""
        means = []
        for output in outputs:
            is_complex = jax.numpy.iscomplexobj(output)
            real = jax.numpy.stack([output.real, output.imag], axis=-1) if is_complex else output
            means.append(jax.numpy.mean(real.astype(np.float32)))
        return jax.numpy.mean(jax.numpy.stack(means))

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass on the tape."""
        TAPE.backward(loss)

    def assign(self, tensor: Tensor, array: Array) -> None:
        """Let a variable hold other elements; its dtype and device stay."""
        before = raw(tensor)
        if before.shape != array.shape:
            raise ConfigError(
                f"cannot assign a weight: expected shape {before.shape}, found {array.shape}"
            )
        if not is_variable(tensor):
            raise ConfigError(
                "cannot assign a weight: expected a variable of flax, found an array, which JAX "
                "never changes",
                hint="hold it in an nnx.Variable",
            )
        with quiet():
            made = jax.numpy.array(np.asarray(array), before.dtype)
            tensor.set_value(jax.device_put(made, next(iter(before.devices()))))

    def _weights(self, model: Module) -> Iterator[Tensor]:
        for _, module in self.named_modules(model):
            yield from (owned.tensor for owned in self.own_tensors(module) if owned.is_weight)


_FLAGS = ("deterministic", "use_running_average")


def _device(name: str) -> Any:  # noqa: ANN401
    """Return a device by JAX's name: ``cpu``, ``cuda:0``.

    Raises:
        ConfigError: There is none.
    """
    platform, _, number = name.partition(":")
    try:
        return jax.devices(platform)[int(number or 0)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise ConfigError(f"cannot use device {name!r}: {error}") from error


def _dtype(name: str) -> Any:  # noqa: ANN401
    """Return a dtype by its name; 64 bits have to be switched on in JAX.

    Raises:
        ConfigError: There is no such dtype.
    """
    try:
        found = numpy_dtype(name)
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"cannot use dtype {name!r}: JAX has none of that name") from error
    if found.itemsize == np.dtype(np.float64).itemsize and found.kind in "fiu":
        jax.config.update("jax_enable_x64", True)  # noqa: FBT003
    return found
