"""What a model gives that is no tensor, as arrays: numbers, text, objects by their attributes.

Only stored attributes are read, from ``__dict__`` and ``__slots__``: a property may compute, draw
numbers, or fail.
"""

from __future__ import annotations

from types import MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import RecordError, dtype_name

from .nested import MAX_DEPTH, MAX_SCALARS, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .nested import IsTensor

Array = npt.NDArray[Any]
MOST_VISITED = 4096
"""Containers, objects and leaves that are looked at in one result."""
_NUMBERS = bool | int | float | complex | np.generic
_LONGEST_TEXT = 1 << 20


def parts_of_result(value: object, is_tensor: IsTensor) -> Iterator[tuple[str, Any]]:
    """Yield (slot, array) of what ``flatten`` of a result leaves out, and tensors inside objects.

    Text is an array of its bytes, a short sequence of numbers one array, a set of numbers or text a
    list in order. Attributes that begin with an underscore count where they hold tensors or arrays.
    What can be called is no data: a model that hangs on its result is not part of it.
    """
    yield from _Walk(is_tensor).enter("", value, is_inside=False, is_private=False)


class _Walk:
    """One descent; enters each object once."""

    def __init__(self, is_tensor: IsTensor) -> None:
        self._is_tensor = is_tensor
        self._seen: dict[int, object] = {}
        self._visited = 0

    def enter(
        self, slot: str, value: object, *, is_inside: bool, is_private: bool, depth: int = 0
    ) -> Iterator[tuple[str, Any]]:
        """Yield the parts of a value.

        Args:
            slot: Its place.
            value: Anything.
            is_inside: Whether an object that is no container is around it.
            is_private: Whether it is an attribute that begins with an underscore.
            depth: How many containers and objects are around it.
        """
        value = _in_order(value)
        self._visited += 1
        if self._visited > MOST_VISITED or depth > MAX_DEPTH or value is None:
            return
        if self._is_tensor(value):
            if is_inside:
                yield slot, value
            return
        array = _array_of(value)
        if array is not None:
            if isinstance(value, np.ndarray) or not is_private:
                yield slot, array
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        parts = parts_of(value)
        is_object = parts is None
        for step, part in _attributes(value) if parts is None else parts:
            yield from self.enter(
                slot + step,
                part,
                is_inside=is_inside or is_object,
                is_private=is_private or (is_object and step.startswith("._")),
                depth=depth + 1,
            )


def _in_order(value: object) -> object:
    """Return a set of numbers or of text as a list in order; all else as it is."""
    if not isinstance(value, set | frozenset):
        return value
    is_plain = all(type(one) is str for one in value) or all(
        type(one) in (bool, int, float) for one in value
    )
    return sorted(value) if is_plain else value


def _array_of(value: object) -> Array | None:
    """Return numbers, text or an array as an array that a dump can hold; None for all else."""
    if isinstance(value, bytes):
        return np.frombuffer(value[:_LONGEST_TEXT], np.uint8)
    if isinstance(value, str):
        data = value[:_LONGEST_TEXT].encode("utf-8", "surrogatepass")
        return np.frombuffer(data, np.uint8)
    is_series = type(value) in (tuple, list) and _are_numbers(value)
    if not (is_series or isinstance(value, np.ndarray | _NUMBERS)):
        return None
    try:
        array = np.asarray(value)
        dtype_name(array.dtype)
    except (RecordError, OverflowError, ValueError):
        return None
    return array


def _are_numbers(value: Any) -> bool:  # noqa: ANN401 - a tuple or list
    """Return whether a sequence is short and of numbers alone, so that it is one array."""
    is_short = 0 < len(value) <= MAX_SCALARS
    return is_short and all(isinstance(part, bool | int | float) for part in value)


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """Yield the stored attributes of an object with their slot steps; no property is read."""
    if callable(value) or isinstance(value, ModuleType):
        return
    try:
        stored = object.__getattribute__(value, "__dict__")
    except AttributeError:
        stored = {}
    if isinstance(stored, dict):
        yield from ((f".{name}", part) for name, part in list(stored.items()))
    # Members of a type written in C, such as a generator's code, are how it works, and no data.
    for kind in (one for one in type(value).__mro__ if "__slots__" in vars(one)):
        for name, slot in list(vars(kind).items()):
            if isinstance(slot, MemberDescriptorType):
                try:
                    yield f".{name}", slot.__get__(value, type(value))
                except AttributeError:  # never set
                    continue
