"""Arguments of operators as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from padiff.dumpfile import Argument, Dtype, Opaque, Slice, ValueRef

if TYPE_CHECKING:
    from padiff.dumpfile import JSON


def argument_to_json(argument: Argument) -> JSON:
    """Return an argument; what JSON does not know is an object that says what it is.

    >>> argument_to_json((ValueRef(3), Slice(0, 2), 1.5, Dtype("float16")))
    [{'value': 3}, {'slice': [0, 2, None]}, 1.5, {'dtype': 'float16'}]
    """
    if isinstance(argument, tuple):
        return [argument_to_json(part) for part in argument]
    if isinstance(argument, Mapping):
        return {"items": {key: argument_to_json(part) for key, part in argument.items()}}
    if isinstance(argument, Slice):
        parts = (argument.start, argument.stop, argument.step)
        return {"slice": [argument_to_json(part) for part in parts]}
    return _single(argument)


def _single(argument: Argument) -> JSON:
    if isinstance(argument, ValueRef):
        return {"value": argument.id}
    if isinstance(argument, Dtype):
        return {"dtype": argument.name}
    if isinstance(argument, Opaque):
        return {"opaque": argument.text}
    if isinstance(argument, float) and math.isfinite(argument):
        return argument
    if argument is None or isinstance(argument, bool | int | str):
        return argument
    return {"ellipsis": True} if argument is ... else {"number": str(argument)}


def argument_from_json(data: object) -> Argument:
    """Return the argument that ``argument_to_json`` wrote.

    Raises:
        ValueError: It is none.

    >>> argument_from_json([{"value": 3}, {"slice": [0, 2, None]}, {"number": "inf"}])
    (ValueRef(id=3), Slice(start=0, stop=2, step=None), inf)
    """
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return tuple(map(argument_from_json, data))
    if isinstance(data, dict) and len(data) == 1:
        [(word, part)] = data.items()
        if word in _READERS:
            return _READERS[word](part)
    raise ValueError("an argument of an operator")


def _value(data: object) -> Argument:
    if not isinstance(data, int):
        raise ValueError("the id of a value")  # noqa: TRY004 -- of parsed text
    return ValueRef(data)


def _slice(data: object) -> Argument:
    if not isinstance(data, list) or len(data) != len(_SLICE):
        raise ValueError(f"a list of {', '.join(_SLICE)}")
    return Slice(*map(argument_from_json, data))


def _items(data: object) -> Argument:
    if not isinstance(data, dict):
        raise ValueError("an object")  # noqa: TRY004 -- of parsed text
    return {key: argument_from_json(part) for key, part in data.items()}


def _number(data: object) -> Argument:
    found = complex(str(data))
    return found.real if "j" not in str(data) else found


_SLICE = ("start", "stop", "step")
_READERS: dict[str, Callable[[object], Argument]] = {
    "value": _value,
    "slice": _slice,
    "items": _items,
    "number": _number,
    "dtype": lambda data: Dtype(str(data)),
    "opaque": lambda data: Opaque(str(data)),
    "ellipsis": lambda _: ...,
}
