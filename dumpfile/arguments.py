"""What an operator was called with: plain data, and references to values of its program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import EllipsisType

DRAWN = "drawn"
"""The argument that says which elements an operator kept; no framework passes it."""


@dataclass(slots=True, unsafe_hash=True)
class ValueRef:
    """An argument that is a value of the program; not frozen, as that takes longer to make."""

    id: int
    """Position in the program's table of values."""


@dataclass(frozen=True, slots=True)
class Dtype:
    """An argument that is a dtype of the framework."""

    name: str
    """As in ``dtypes.py`` where a dump can hold it: ``float32``, ``bfloat16`` …"""


@dataclass(frozen=True, slots=True)
class Opaque:
    """An argument that is neither a tensor nor plain data: a device, a generator, a function."""

    text: str
    """What it is, for people."""


@dataclass(frozen=True, slots=True)
class Slice:
    """An argument that is a slice of an index."""

    start: Argument = None
    stop: Argument = None
    step: Argument = None


Argument = (
    None
    | bool
    | int
    | float
    | complex
    | str
    | EllipsisType
    | ValueRef
    | Dtype
    | Opaque
    | Slice
    | tuple["Argument", ...]
    | Mapping[str, "Argument"]
)
"""One argument of an operator; lists are tuples."""


def referenced_values(argument: Argument) -> list[int]:
    """Return the ids of all values inside an argument, in order, repeated ones repeated.

    >>> referenced_values((ValueRef(3), {"mask": ValueRef(1)}, 2.0))
    [3, 1]
    """
    if isinstance(argument, ValueRef):
        return [argument.id]
    parts: tuple[Argument, ...] = ()
    if isinstance(argument, tuple):
        parts = argument
    elif isinstance(argument, Mapping):
        parts = tuple(argument.values())
    elif isinstance(argument, Slice):
        parts = (argument.start, argument.stop, argument.step)
    return [found for part in parts for found in referenced_values(part)]


def renumbered(argument: Argument, number: Callable[[int], int]) -> Argument:
    """Return an argument in which values have other ids.

    >>> renumbered((ValueRef(3), {"mask": ValueRef(1)}, 2.0), lambda value: value + 10)
    (ValueRef(id=13), {'mask': ValueRef(id=11)}, 2.0)
    """
    if isinstance(argument, ValueRef):
        return ValueRef(number(argument.id))
    if isinstance(argument, tuple):
        return tuple(renumbered(part, number) for part in argument)
    if isinstance(argument, Mapping):
        return {key: renumbered(part, number) for key, part in argument.items()}
    if isinstance(argument, Slice):
        parts = (argument.start, argument.stop, argument.step)
        return Slice(*(renumbered(part, number) for part in parts))
    return argument
