"""One side as recorded: values and operators of one step and rank, by the framework's names."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import EllipsisType

    from padiff.dumpfile import Phase

__all__ = [
    "Argument",
    "Dtype",
    "LeafKind",
    "Opaque",
    "Operator",
    "Program",
    "Site",
    "Slice",
    "Value",
    "ValueRef",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRef:
    """An argument that is a value of the program."""

    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dtype:
    """An argument that names a dtype: ``float32``, ``bfloat16``, ``int64``, ``bool`` …."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """An argument that is neither a tensor nor plain data: a device, a layout, a generator."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A slice of an index; each part is an argument of its own."""

    start: Argument = None
    stop: Argument = None
    step: Argument = None


Argument: TypeAlias = (
    "bool | int | float | complex | str | EllipsisType | Slice | Dtype | Opaque | ValueRef"
    " | tuple[Argument, ...] | Mapping[str, Argument] | None"
)
"""What an operator took at one place: plain data, or a reference to a value."""


class LeafKind(StrEnum):
    """Where a value comes from that no operator of the program made."""

    INPUT = "input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    RANDOM = "random"
    HOLE = "hole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A line of the user's code."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One tensor at one moment."""

    id: int
    dtype: str
    """One of ``padiff.dumpfile.DTYPE_NAMES``."""
    shape: tuple[int, ...]
    kind: LeafKind | None = None
    """Where a leaf comes from; None for a value that an operator made."""
    name: str = ""
    """The name of a leaf, such as the path of a parameter."""
    producer: int | None = None
    """The operator that made the value; None for a leaf."""
    slot: int = 0
    """The place among the producer's outputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One execution of a framework function on tensors."""

    id: int
    name: str
    """The framework's public name: ``torch.nn.functional.linear``, ``torch.Tensor.add_`` …"""
    positional: tuple[Argument, ...] = ()
    keywords: Mapping[str, Argument] = field(default_factory=dict)
    outputs: tuple[int, ...] = ()
    """The values that it made, a changed input last if the operator returned something else."""
    call: int | None = None
    """The call of a module that it ran in; None outside all modules."""
    phase: Phase | None = None
    in_place: bool = False
    random: bool = False
    """Whether its outcome was drawn: its outputs then are leaves."""
    autocast: str | None = None
    site: Site | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The operators and values of one step and rank; ids are positions."""

    framework: str
    values: tuple[Value, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[int, ...] = ()
    """The values of the root module's result."""
