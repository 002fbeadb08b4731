"""A case: one call of one operator as data, from which it can be run anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Dtype, numpy_dtype

from .elements import filled

__all__ = [
    "Argument",
    "Case",
    "Dtype",
    "Fill",
    "HeldTensor",
    "Layout",
    "Tensor",
    "rounded",
    "tensors_of",
]


class Fill(StrEnum):
    """What elements a tensor holds, from the simplest on."""

    SMALL = "small"
    NORMAL = "normal"
    WIDE = "wide"
    SPECIAL = "special"
    TINY = "tiny"


class Layout(StrEnum):
    """How a tensor lies in memory."""

    CONTIGUOUS = "contiguous"
    TRANSPOSED = "transposed"
    """The axes in reverse order."""
    STRIDED = "strided"
    """Every other element along the last axis of a larger tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor: elements by fill and seed, or spelled out."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    fill: Fill = Fill.SMALL
    seed: int = 0
    low: float | None = None
    """No element is below."""
    high: float | None = None
    layout: Layout = Layout.CONTIGUOUS
    elements: tuple[float | int | bool, ...] | None = None
    """In row-major order; None: those of fill and seed."""
    takes_gradient: bool = True
    """Of floats: whether the gradient by it is asked for."""

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def array(self) -> npt.NDArray[np.generic]:
        """Return the elements in the tensor's dtype and shape."""
        if self.elements is not None:
            return rounded(np.array(self.elements, dtype=np.float64), self.dtype, self.shape)
        wide = filled(self.fill, self.count, self.seed, self.low, self.high)
        if self.dtype == "bool":
            wide = wide > 0
        elif not self.dtype.startswith(("float", "bfloat", "complex")):
            wide = np.floor(wide)
        elif self.dtype.startswith("complex"):
            wide = wide + 1j * filled(self.fill, self.count, self.seed + 1, self.low, self.high)
        return rounded(wide, self.dtype, self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTensor(Tensor):
    """A tensor with elements that are at hand."""

    held: npt.NDArray[np.generic]
    value: int | None = None
    """Which value of the program it is; None: a number of its own."""

    def array(self) -> npt.NDArray[np.generic]:
        """Return the elements."""
        return self.held


def rounded(
    wide: npt.NDArray[np.generic], dtype: str, shape: tuple[int, ...]
) -> npt.NDArray[np.generic]:
    """Return numbers in a dtype by name."""
    with np.errstate(all="ignore"):
        return wide.astype(numpy_dtype(dtype)).reshape(shape)


Argument: TypeAlias = "Tensor | Dtype | bool | int | float | str | tuple[Argument, ...] | None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call of one operator."""

    operator: str
    """Name in the table."""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    """By the names of the operator's first framework; what is left out is not passed."""
    seed: int = 0
    """Of the gradients that arrive at the outputs."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Its tensors, in order."""
        return tuple(one for _, one in self.named_tensors)

    @property
    def named_tensors(self) -> tuple[tuple[str, Tensor], ...]:
        """Its tensors with the names of their arguments; those of a list have a place, too."""
        return tuple(
            (name if isinstance(argument, Tensor) else f"{name}[{place}]", tensor)
            for name, argument in self.arguments.items()
            for place, tensor in enumerate(tensors_of(argument))
        )

    @property
    def size(self) -> tuple[int, int, int, int, int]:
        """What makes one case simpler than another: elements, arguments, fills, layouts, seeds."""
        held = self.tensors
        return (
            sum(one.count for one in held),
            len(self.arguments) + sum(len(one.shape) for one in held),
            sum(list(Fill).index(one.fill) for one in held),
            sum(list(Layout).index(one.layout) for one in held),
            self.seed + sum(one.seed for one in held),
        )


def tensors_of(argument: Argument) -> Iterator[Tensor]:
    """Yield the tensors inside an argument, in order."""
    if isinstance(argument, Tensor):
        yield argument
    elif isinstance(argument, tuple):
        for each in argument:
            yield from tensors_of(each)
