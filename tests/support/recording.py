"""What the recorder's tests share: the laboratory each framework offers, and a dump read back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from padiff.dumpfile import Index, Manifest, Phase, RecordInfo, Role, open_dump

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy.typing as npt

    Array = npt.NDArray[Any]

Thing = Any
"""An object of the framework: a module, a tensor, a parameter."""


class Lab(Protocol):
    """One framework, as far as the neutral test bodies need it."""

    name: str
    nn: Thing
    """The namespace that has Linear, LayerNorm, Identity …"""

    def module(
        self, forward: Callable[..., Any], *, class_name: str = "Model", **children: object
    ) -> Thing:
        """Build a module with these attributes whose forward is the function (self comes first)."""

    def convolution(self, channels_in: int, channels_out: int) -> Thing:
        """Build a 3 by 3 convolution with padding 1."""

    def batch_norm(self, channels: int) -> Thing:
        """Build a batch normalisation over images."""

    def parameter(self, array: Array) -> Thing:
        """Build a trainable parameter."""

    def tensor(self, array: Array, *, requires_grad: bool = False) -> Thing:
        """Build a tensor of the array's dtype."""

    def array(self, tensor: Thing) -> Array:
        """Copy a tensor to numpy."""

    def gradients(
        self, made: Thing, of: list[Thing], *, create_graph: bool = False
    ) -> Sequence[Thing]:
        """Give the gradients of tensors to the caller, instead of keeping them."""

    def gradient(self, tensor: Thing) -> Array | None:
        """Copy a leaf's gradient to numpy."""

    swap: tuple[object, ...]
    """Arguments by which ``Tensor.transpose`` turns a matrix."""

    def cast(self, tensor: Thing, dtype: str) -> Thing:
        """Cast a tensor to the dtype of that name."""

    def checkpoint(self, function: Callable[..., Any], x: Thing, *, reentrant: bool) -> Thing:
        """Run a function whose inner activations are computed again in the backward pass."""

    def modules(self, model: Thing) -> list[tuple[str, Any]]:
        """List all modules with their paths."""

    def clear_gradients(self, model: Thing) -> None:
        """Set every parameter's gradient to None."""

    def optimizer(self, model: Thing, *, rate: float) -> Thing:
        """Build stochastic gradient descent with momentum 0.9."""

    def mean(self, tensor: Thing) -> Thing:
        """Give the mean of all elements."""

    def has_hooks(self, model: Thing) -> bool:
        """Tell whether any module calls back."""

    def relu_(self, tensor: Thing) -> Thing:
        """Apply ReLU in place."""

    def no_grad(self) -> AbstractContextManager[Any]:
        """Disable gradients."""

    def freeze(self, parameter: Thing) -> None:
        """Make a parameter require no gradient."""

    def seed(self, seed: int) -> None:
        """Seed the framework."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A dump's only step, with every array in memory."""

    manifest: Manifest
    index: Index
    arrays: dict[int, Array] = field(default_factory=dict)
    """By record id; records without a value are left out."""

    @classmethod
    def read(cls, path: Path, number: int = 0) -> Recorded:
        """Read one step of a valid dump."""
        dump = open_dump(path)
        assert list(dump.problems()) == []
        with dump.open(number, 0) as step:
            records = [item for item in step.index.records if item.value is not None]
            arrays = {item.id: step.array(item).copy() for item in records}
            return cls(dump.manifest, step.index, arrays)

    def find(self, role: Role, module: str = "", slot: str = "", call: int = 0) -> RecordInfo:
        """Give the only record at an address, of a buffer as it was before the step."""
        found = [
            item
            for item in self.index.records
            if item.role is role
            and (role is not Role.BUFFER or item.phase is Phase.FORWARD)
            and item.slot == slot
            and self.index.modules[item.module].path == module
            and (item.call is None or self.index.calls[item.call].index == call)
        ]
        assert len(found) == 1, f"{len(found)} records at {module!r}#{call} {role}{slot}"
        return found[0]

    def array(self, role: Role, module: str = "", slot: str = "", call: int = 0) -> Array:
        """Give the array at an address; it must have one."""
        return self.arrays[self.find(role, module, slot, call).id]

    def slots(self, role: Role, module: str = "") -> list[str]:
        """Name the slots recorded of a module in one role, in order."""
        modules = self.index.modules
        wanted = [item for item in self.index.records if item.role is role]
        return [item.slot for item in wanted if modules[item.module].path == module]

    def calls(self) -> list[str]:
        """Name the calls in execution order, as ``path#index``."""
        modules = self.index.modules
        return [f"{modules[call.module].path}#{call.index}" for call in self.index.calls]
