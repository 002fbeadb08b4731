"""Arguments of operators as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from padiff.dumpfile import Argument, Dtype, Opaque, Slice, ValueRef

if TYPE_CHECKING:
    from padiff.dumpfile import JSON

__all__ = ["argument_to_json"]


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
