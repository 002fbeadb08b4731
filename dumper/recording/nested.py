"""Flatten whatever a module takes or returns into tensors, literals and container names.

Slots spell the way to a tensor: ``[0]`` into tuples and lists, ``['mask']`` into mappings,
``.logits`` into dataclasses and named tuples; a bare tensor has the slot ``""``.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from padiff.dumpfile import JSON

MAX_DEPTH = 32
"""Containers nested deeper than this are named, not entered."""
MAX_SCALARS = 64
"""Sequences of scalars up to this length are kept as one literal."""
MAX_TEXT = 200
"""Longest text kept of a literal."""

IsTensor = Callable[[object], bool]


@dataclass(slots=True)
class Flat:
    """The parts of one nested value, each by its slot."""

    tensors: list[tuple[str, Any]] = field(default_factory=list)
    """Tensors in the order of the containers; the same tensor may stand at several slots."""
    literals: dict[str, JSON] = field(default_factory=dict)
    """Everything that is neither tensor nor container."""
    containers: dict[str, str] = field(default_factory=dict)
    """Class names of containers other than plain tuple, list and dict."""


def flatten(value: object, is_tensor: IsTensor) -> Flat:
    """Take one value apart; cycles and objects that are no containers end as literals."""
    flat = Flat()
    if is_tensor(value):
        flat.tensors.append(("", value))
    else:
        _Walk(flat, is_tensor).enter("", value)
    return flat


def flatten_call(args: tuple[Any, ...], kwargs: Mapping[str, Any], is_tensor: IsTensor) -> Flat:
    """Take a call's arguments apart: positional ones at ``[i]``, keyword ones at ``['name']``."""
    flat = Flat()
    walk = _Walk(flat, is_tensor)
    for index, value in enumerate(args):
        walk.enter(f"[{index}]", value)
    for name, value in kwargs.items():
        walk.enter(f"[{name!r}]", value)
    return flat


class _Walk:
    """One descent; knows the containers that it is inside of."""

    def __init__(self, flat: Flat, is_tensor: IsTensor) -> None:
        self._flat = flat
        self._is_tensor = is_tensor
        self._inside: list[int] = []

    def enter(self, slot: str, value: object) -> None:
        if self._is_tensor(value):
            self._flat.tensors.append((slot, value))
            return
        parts = None if _is_literal(value) else parts_of(value)
        if parts is None:
            self._flat.literals[slot] = literal(value)
        elif id(value) in self._inside:
            self._flat.literals[slot] = "<cycle>"
        elif len(self._inside) >= MAX_DEPTH:
            self._flat.literals[slot] = f"<{type(value).__name__} nested too deeply>"
        else:
            if type(value) not in (tuple, list, dict):
                self._flat.containers[slot] = type(value).__name__
            self._inside.append(id(value))
            for step, part in parts:
                self.enter(slot + step, part)
            self._inside.pop()


def parts_of(value: object) -> Iterator[tuple[str, Any]] | None:
    """Return the parts of a container with their slot steps, None if it is no container.

    Dataclasses come before mappings: transformers' ModelOutput is both, and its field names
    are what its users write.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [item.name for item in dataclasses.fields(value)]
        return ((f".{name}", getattr(value, name)) for name in names if hasattr(value, name))
    if isinstance(value, Mapping):
        return ((f"[{key!r}]"[:MAX_TEXT], part) for key, part in list(value.items()))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return ((f".{name}", part) for name, part in zip(value._fields, value, strict=True))
    if isinstance(value, tuple | list):
        return ((f"[{index}]", part) for index, part in enumerate(list(value)))
    return None


def _is_literal(value: object) -> bool:
    """Return whether the value is a scalar, or a short plain sequence of scalars."""
    if value is None or isinstance(value, bool | int | float | str):
        return True
    if isinstance(value, tuple | list) and not hasattr(value, "_fields") and value:
        return len(value) <= MAX_SCALARS and all(
            item is None or isinstance(item, bool | int | float | str) for item in value
        )
    return False


def literal(value: object) -> JSON:
    """Put a value that is no tensor into JSON, bounded in length.

    Objects of unknown classes are only named: their ``repr`` could print whole tensors, take
    long, or hold addresses that change from run to run.

    >>> literal((1, 2.5, None)), literal(float("nan")), literal(slice(1, None))
    ([1, 2.5, None], 'nan', 'slice(1, None, None)')
    """
    result: JSON
    if isinstance(value, enum.Enum):
        result = f"{type(value).__name__}.{value.name}"
    elif value is None or isinstance(value, bool):
        result = value
    elif isinstance(value, int):
        result = int(value) if abs(value) < 2**63 else str(value)[:MAX_TEXT]
    elif isinstance(value, float):
        result = float(value) if math.isfinite(value) else str(float(value))
    elif isinstance(value, str):
        result = str(value)[:MAX_TEXT]
    elif isinstance(value, tuple | list):
        result = [literal(item) for item in value[:MAX_SCALARS]]
    else:
        result = _named(value)
    return result


def _named(value: object) -> str:
    """Describe a value of another class in one short line that is the same in every run."""
    kind = type(value)
    if isinstance(value, complex | bytes | slice | range) or value is Ellipsis:
        return repr(value)[:MAX_TEXT]
    if kind.__name__.lower() in ("dtype", "device", "size", "layout", "vartype", "datatype"):
        return str(value)[:MAX_TEXT]
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return f"<{getattr(value, '__module__', None) or ''}.{value.__qualname__}>"[:MAX_TEXT]
    return f"<{kind.__module__}.{kind.__qualname__}>"[:MAX_TEXT]
