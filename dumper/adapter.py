"""What a framework must be able to do for padiff. One adapter per framework implements this.

Nothing outside ``dumper/adapters/<framework>.py`` imports a framework: the recorder and the
runner see models and tensors as opaque objects and ask the adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from padiff.dumpfile import Layout

    from .operators import Operators
    from .trainer import Trainer
    from .watch import Watch

Array = npt.NDArray[Any]
Model = Any
Module = Any
Tensor = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTensor:
    """A parameter or buffer that a module itself owns."""

    name: str
    """Local name, without the module's path: ``weight``, ``_mean``."""
    tensor: Tensor
    is_weight: bool
    """True for what an optimizer could train; False for buffers and for parameters that the
    framework uses as buffers (Paddle's BatchNorm statistics)."""
    is_saved: bool = True
    """Whether the framework saves it with the weights; False for buffers that a constructor
    computes (``persistent=False``, ``persistable=False``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keywords:
    """What a function accepts by keyword."""

    names: tuple[str, ...]
    """The parameters that have a name."""
    takes_any: bool
    """Whether it takes other names too (``**kwargs``)."""
    placed: tuple[str, ...] = ()
    """The first parameters, if they are taken by their places alone although they have names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """The elements of a tensor on their way to host memory, as they were when it began."""

    array: Array
    """Where they arrive; C-contiguous. Not to be read before ``wait``."""
    wait: Callable[[], object]
    """Returns once they are there. Any thread may call it, once."""


class Handle(Protocol):
    """Something attached to the model that can be taken off again."""

    def remove(self) -> None:
        """Take it off; harmless when it is off already."""


BeforeCall = Callable[[Module, tuple[Any, ...], dict[str, Any]], None]
AfterCall = Callable[[Module, Any], None]


class Adapter(Protocol):
    """One framework, as padiff sees it.

    What has a body here is how most do it: an adapter that is a subclass need not say it again.
    """

    name: str
    """``torch``, ``paddle``; what ``--framework`` takes and the manifest states."""
    trainer: Trainer
    """Its optimizers and schedules."""
    operators: Operators | None
    """Its operators; None where they cannot be recorded, and a dump holds no program."""
    watch: Watch
    """What happens anywhere in the process; for scripts that know nothing of padiff."""

    def version(self) -> str:
        """Return the framework's version."""

    # -- recognising things

    def is_model(self, thing: object) -> bool:
        """Return whether this is an instance of the framework's module class."""

    def is_model_class(self, thing: object) -> bool:
        """Return whether this is the framework's module class or a subclass."""

    def is_tensor(self, thing: object) -> bool:
        """Return whether this is one of the framework's tensors (parameters included)."""

    def is_floating(self, tensor: Tensor) -> bool:
        """Return whether its dtype is real or complex floating point."""

    # -- reading a model

    def named_modules(self, model: Model) -> Iterator[tuple[str, Module]]:
        """Yield every (dotted path, module), parents first, shared ones at each of their paths.

        The root comes first with path ``""``. Wrappers (DataParallel, compiled modules) have
        been taken off by ``unwrap`` before.
        """

    def unwrap(self, model: Model) -> Model:
        """Return the user's module inside DataParallel, DDP or a compiled wrapper."""
        return model

    def own_tensors(self, module: Module) -> Iterator[NamedTensor]:
        """Yield the parameters and buffers that the module itself owns, aliases folded."""

    def class_bases(self, module: Module) -> Sequence[type]:
        """Return the method resolution order from the module's class to the framework's base."""

    def is_training(self, module: Module) -> bool:
        """Return the module's training flag."""
        return bool(getattr(module, "training", False))

    # -- tensors

    def local(self, tensor: Tensor) -> Tensor:
        """Return the tensor with the elements that this process holds, once they are there.

        The tensor itself, unless the framework has spread it over processes or is still making
        it. No collective is started, and the same object comes each time while nothing changes.
        """
        return tensor

    def layout(self, tensor: Tensor) -> Layout | None:
        """Return how a tensor lies over processes; None if the framework has not spread it."""
        del tensor
        return None

    def elements(self, tensor: Tensor) -> Array:
        """Return the elements as ``snapshot`` does, but in the tensor's own memory where possible.

        Those of ``local``. They are to be read at once, before the tensor can change, and never to
        be written. The memory can be freed and resized afterwards as it could before.
        """

    def transfer(self, tensor: Tensor) -> Transfer | None:
        """Begin to copy the elements to host memory, while the device goes on with its work.

        None where ``elements`` is as good: the tensor is in host memory already, or the framework
        cannot do it.
        """
        del tensor
        return None

    def small_bytes(self, tensor: Tensor, limit: int) -> tuple[bytes, str, tuple[int, ...]] | None:
        """Copy the elements of a small tensor at once; give their dtype's name and its shape, too.

        The elements come as dumps write them: in C order and little-endian. None for a tensor of
        ``limit`` bytes or more, without elements, spread over processes, not in host memory, or
        where ``elements`` is as fast. It is as good, so that an adapter may lack this.
        """
        del tensor, limit
        return None

    def snapshot(self, tensor: Tensor) -> Array:
        """Copy the elements to host memory now, C-contiguous, in the tensor's own dtype.

        bfloat16 and float8 come as ml_dtypes' types.
        """
        return np.array(self.elements(tensor), order="C", copy=True)

    def copy(self, tensor: Tensor) -> Tensor:
        """Return a new leaf of the same elements, dtype, device and wish for a gradient."""

    def content_key(self, tensor: Tensor) -> Hashable | None:
        """Return a key that is equal only for equal content while both tensors live.

        Built from storage address, offset, shape, strides, dtype and in-place version; None if the
        framework cannot promise it. The recorder keeps the tensor alive while it uses the key.
        """
        del tensor
        return None

    def identity(self, tensor: Tensor) -> Hashable:
        """Return a key that is equal for the same tensor object (tied parameters)."""
        return id(tensor)

    def requires_grad(self, tensor: Tensor) -> bool:
        """Return whether a gradient will flow into the tensor."""

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """Return a parameter's accumulated gradient (Paddle's ``main_grad`` first), or None."""

    def in_backward(self) -> bool:
        """Return whether this thread is inside a backward pass: a call now is a recomputation."""
        return False

    def random_state(self) -> Hashable:
        """Return something that is another whenever a shared random generator was drawn from.

        Read at the beginning and the end of every recorded call: it must be quick.
        """

    # -- hooks

    def recording(self) -> AbstractContextManager[object]:
        """Prepare the framework for a recording, and undo that: compiled code runs eagerly."""

    def hook_calls(self, module: Module, before: BeforeCall, after: AfterCall) -> Handle:
        """Call back around every execution of a module, with the user's own hooks outside.

        ``before`` sees positional and keyword arguments, ``after`` the result; neither changes
        them.
        """

    def hook_entry(self, module: Module, callback: Callable[[], None]) -> Handle:
        """Call back at the beginning of every execution, before all that is hooked to it."""

    def hook_gradient(self, tensor: Tensor, callback: Callable[[Tensor], None]) -> Handle:
        """Call back once with the total gradient of a tensor that requires one, during backward.

        The gradient is that of the tensor as it is now: a later in-place change does not move it.
        """

    # -- running a model

    def seed(self, seed: int) -> None:
        """Seed the framework's random generators on all devices."""

    def set_training(self, model: Model, *, training: bool) -> None:
        """Set the training flag of the model and everything in it."""

    def place(self, model: Model, *, device: str | None, dtype: str | None) -> Model:
        """Move and cast a model; floating parameters and buffers only. None leaves as is.

        Raises:
            ConfigError: The device or dtype is unknown or not available.
        """

    def model_dtype(self, model: Model) -> str:
        """Name the most frequent dtype of the floating parameters, ``""`` without any."""

    def model_device(self, model: Model) -> str:
        """Name the device of the first parameter, ``cpu`` without any."""

    def tensor(
        self, array: Array, *, device: str, dtype: str | None, requires_grad: bool = False
    ) -> Tensor:
        """Make a tensor from host memory, cast to ``dtype`` if given; 0-d stays 0-d."""

    def forward_keywords(self, model: Model) -> Keywords:
        """Return what ``forward`` accepts by keyword."""

    def mean_loss(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return PaDiff's default loss: the mean of each output's mean, all in float32."""

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass from a scalar."""

    def assign(self, tensor: Tensor, array: Array) -> None:
        """Overwrite a parameter or buffer in place; dtype and device stay, shapes must agree."""

    def notes(self, model: Model) -> Sequence[str]:
        """State what recording changes in this model, such as fused paths that hooks disable.

        The model is as the user has it, possibly wrapped.
        """
        del model
        return ()
