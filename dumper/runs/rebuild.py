"""Put other tensors into the place of those that a module returned, in any container."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from padiff.dumper.recording.nested import MAX_DEPTH

if TYPE_CHECKING:
    from padiff.dumper.adapter import Tensor


def rebuilt(value: object, changed: Mapping[int, Tensor], depth: int = 0) -> Any:  # noqa: ANN401
    """Return a copy of a nested value in which some tensors are others.

    Goes wherever ``nested.flatten`` goes: lists, tuples, named tuples, dataclasses, and mappings
    such as transformers' ``ModelOutput``. A container without a changed tensor is kept as it is,
    and the caller's own is never written to.

    Args:
        value: What a module returned.
        changed: New tensors by the ``id`` of the old ones.
        depth: How many containers are around the value.
    """
    if id(value) in changed:
        return changed[id(value)]
    if depth > MAX_DEPTH or isinstance(value, type):
        return value

    def parts(names: Mapping[Any, object]) -> dict[Any, Any]:
        new = {name: rebuilt(part, changed, depth + 1) for name, part in names.items()}
        return {name: part for name, part in new.items() if part is not names[name]}

    found: Any = value
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        held = {name: getattr(value, name) for name in names if hasattr(value, name)}
        found = _with_fields(value, parts(held))
    elif isinstance(value, Mapping):
        found = _with_items(value, parts(value))
    elif isinstance(value, tuple | list):
        found = _with_places(value, parts(dict(enumerate(value))))
    return found


def _with_fields(value: Any, new: Mapping[str, object]) -> Any:  # noqa: ANN401
    if not new:
        return value
    made = copy.copy(value)
    for name, part in new.items():
        try:
            setattr(made, name, part)  # ModelOutput keeps its keys in step with its attributes
        except dataclasses.FrozenInstanceError:
            object.__setattr__(made, name, part)
    return made


def _with_items(value: Any, new: Mapping[Any, object]) -> Any:  # noqa: ANN401
    made = copy.copy(value) if new else value
    for name, part in new.items():
        made[name] = part
    return made


def _with_places(value: Any, new: Mapping[int, object]) -> Any:  # noqa: ANN401
    if not new:
        return value
    every = [new.get(place, part) for place, part in enumerate(value)]
    if isinstance(value, list):
        made = copy.copy(value)
        made[:] = every
        return made
    return type(value)(*every) if hasattr(value, "_fields") else type(value)(every)
