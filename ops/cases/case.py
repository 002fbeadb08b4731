"""A case: one call of one operator as data, from which it can be run anywhere.

Read from JSON, every entry is checked, whoever wrote it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import DTYPE_NAMES, ConfigError, Dtype, numpy_dtype

from .elements import filled


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


VERSION = 1
_LARGEST = 1 << 24
"""Elements of one tensor: far beyond what a test of an operator needs."""
_DEFAULTS = {one.name: one.default for one in dataclasses.fields(Tensor)}


def cases_to_json(cases: list[Case]) -> dict[str, Any]:
    """Return a document with cases."""
    return {"padiff_cases": VERSION, "cases": [case_to_json(one) for one in cases]}


def cases_from_json(data: Any, source: str) -> list[Case]:  # noqa: ANN401 -- read from a file
    """Read a document with cases.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(data, dict) or data.get("padiff_cases") != VERSION:
        raise ConfigError(
            f"cannot read cases from {source!r}: expected 'padiff_cases': {VERSION}",
            hint="write cases with `padiff ops test --save` or `padiff ops generate`",
        )
    cases = data.get("cases")
    if not isinstance(cases, list):
        raise ConfigError(f"cannot read cases from {source!r}: expected a list 'cases'")
    return [case_from_json(one, f"case {place} of {source!r}") for place, one in enumerate(cases)]


def case_to_json(case: Case) -> dict[str, Any]:
    """Return a case as JSON."""
    arguments = {name: _to_json(one) for name, one in case.arguments.items()}
    return {"operator": case.operator, "arguments": arguments, "seed": case.seed}


def _to_json(one: Argument) -> Any:  # noqa: ANN401
    if isinstance(one, Tensor):
        told = {
            name: _to_json(getattr(one, name))
            for name, default in _DEFAULTS.items()
            if getattr(one, name) != default
        }
        return {"tensor": told}
    if isinstance(one, Dtype):
        return {"dtype": one.name}
    if isinstance(one, tuple):
        return [_to_json(each) for each in one]
    if isinstance(one, float) and not math.isfinite(one):
        return {"float": str(one)}
    return one


def case_from_json(data: Any, where: str) -> Case:  # noqa: ANN401
    """Read a case.

    Raises:
        ConfigError: An entry is missing, unknown or of the wrong type.
    """
    try:
        operator, seed = str(data["operator"]), int(data.get("seed", 0))
        arguments = {str(name): _from_json(one) for name, one in data["arguments"].items()}
    except (AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"cannot read {where}: {type(error).__name__}: {error}") from error
    return Case(operator=operator, arguments=arguments, seed=seed)


def _from_json(one: Any) -> Argument:  # noqa: ANN401
    if isinstance(one, list):
        return tuple(_from_json(each) for each in one)
    if not isinstance(one, dict):
        if one is None or isinstance(one, bool | int | float | str):
            return one
        raise TypeError(f"expected an argument, found {type(one).__name__}")
    if set(one) == {"float"}:
        return float(one["float"])
    if set(one) == {"dtype"}:
        return Dtype(name=one["dtype"])
    if set(one) != {"tensor"}:
        raise ValueError(f"expected 'tensor', 'dtype' or 'float', found {sorted(one)}")
    return _tensor(one["tensor"])


def _tensor(data: dict[str, Any]) -> Tensor:
    unknown = set(data) - set(_DEFAULTS)
    if unknown:
        raise ValueError(f"a tensor has no {sorted(unknown)}")
    entries = dict(data)
    entries["shape"] = tuple(map(int, data["shape"]))
    entries["fill"] = Fill(data.get("fill", Fill.SMALL))
    entries["layout"] = Layout(data.get("layout", Layout.CONTIGUOUS))
    if data.get("elements") is not None:
        entries["elements"] = tuple(_from_json(each) for each in data["elements"])
    found = Tensor(**entries)
    if found.dtype not in DTYPE_NAMES:
        raise ValueError(f"expected a dtype, found {found.dtype!r}")
    if min(found.shape, default=0) < 0 or found.count > _LARGEST:
        raise ValueError(f"expected a shape of at most {_LARGEST} elements, found {found.shape}")
    if found.elements is not None and len(found.elements) != found.count:
        raise ValueError(f"expected {found.count} elements, found {len(found.elements)}")
    return found
