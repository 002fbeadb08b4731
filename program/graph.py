"""One side as recorded: values and operators of one step and rank, by the framework's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from padiff.dumpfile import (
    Argument,
    Dtype,
    LeafKind,
    Opaque,
    Phase,
    Slice,
    ValueRef,
    referenced_values,
)

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
    no_grad: bool = False
    """Whether the framework built no graph: in ``no_grad``, and in the forward pass of a function
    with a backward pass of its own."""
    spread: bool = False
    """Whether it took or made tensors that are spread over processes: its values are parts."""
    site: Site | None = None
    _taken: list[int] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def taken(self) -> list[int]:
        """The ids of the values in its arguments, in order, repeated ones repeated."""
        found = self._taken
        if found is None:  # looked for once: they are asked for again and again
            found = referenced_values((*self.positional, *self.keywords.values()))
            object.__setattr__(self, "_taken", found)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The operators and values of one step and rank; ids are positions."""

    framework: str
    values: tuple[Value, ...]
    operators: tuple[Operator, ...]
    outputs: tuple[int, ...] = ()
    """The values of the root module's result."""

    def behind(self, values: Iterable[int]) -> set[int]:
        """Return values, and all that operators made them of."""
        found = set(values)
        for operator in reversed(self.operators):
            if not found.isdisjoint(operator.outputs):
                found.update(operator.taken)
        return found
