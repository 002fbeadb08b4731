"""How text, numbers, words and containers of them stand in a JSON document, and are read back."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]
Schema = dict[str, Any]

_NAMED = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MOST_SHOWN = 60
"""Characters of a value that a message shows."""
_LONGEST_INTEGER = 64
"""Bits."""


@dataclass(frozen=True, slots=True)
class Form:
    """How values of one type stand in a document."""

    write: Write | None
    """None where they are JSON already."""
    read: Read
    """Raises ``ValueError`` with what was expected, for anything else."""
    schema: Schema
    """In JSON Schema."""


class WrongError(ValueError):
    """Something in a document is not what its type says; the way to it grows on the way out."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected, self.found = expected, found
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"expected {self.expected}, found {self.found}"


def wrong(expected: str, data: object) -> WrongError:
    """Return the error that something else was expected."""
    if data is None or isinstance(data, dict | list):
        return WrongError(expected, "null" if data is None else type(data).__name__)
    return WrongError(expected, shown(repr(data)))


def shown(text: str) -> str:
    """Return text that a message can hold, whoever wrote it."""
    safe = text.encode("ascii", "backslashreplace").decode()
    safe = safe if safe.isprintable() else repr(safe)[1:-1]
    return safe if len(safe) <= _MOST_SHOWN else f"{safe[:_MOST_SHOWN]}..."


def as_it_is(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Return a value."""
    return value


def _read_text(data: object) -> str:
    if type(data) is not str:
        raise wrong("a string", data)
    return data


def _read_integer(data: object) -> int:
    if type(data) is not int or data.bit_length() > _LONGEST_INTEGER:
        raise wrong(f"an integer of at most {_LONGEST_INTEGER} bits", data)
    return data


def _read_flag(data: object) -> bool:
    if type(data) is not bool:
        raise wrong("true or false", data)
    return data


def _read_number(data: object) -> float:
    if type(data) is float and math.isfinite(data):
        return data
    if type(data) is int and abs(data) <= sys.float_info.max:
        return float(data)
    if type(data) is str and data in _NAMED:
        return _NAMED[data]
    raise wrong("a number", data)


def _write_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(float(value))


PLAIN: dict[Any, Form] = {
    str: Form(None, _read_text, {"type": "string"}),
    int: Form(None, _read_integer, {"type": "integer"}),
    bool: Form(None, _read_flag, {"type": "boolean"}),
    float: Form(_write_number, _read_number, {"anyOf": [{"type": "number"}, {"enum": [*_NAMED]}]}),
}


def of_words(words: Mapping[str, object]) -> Read:
    """Return how one of several words is read."""

    def read(data: object) -> object:
        if type(data) is not str or data not in words:
            raise wrong(f"one of {', '.join(words)}", data)
        return words[data]

    return read


def _reader_of_list(inner: Read, made: Callable[[list[Any]], Any]) -> Read:
    def read(data: object) -> object:
        if type(data) is not list:
            raise wrong("a list", data)
        found: list[Any] = []
        try:
            for one in data:
                found.append(inner(one))  # noqa: PERF401 -- its length is the place of an error
        except WrongError as error:
            error.path.append(f"[{len(found)}]")
            raise
        return made(found)

    return read


def _sequence(inner: Form) -> Form:
    write = inner.write or as_it_is
    return Form(
        lambda items: (write(item) for item in items),
        _reader_of_list(inner.read, tuple),
        {"type": "array", "items": inner.schema},
    )


def _many(inner: Form) -> Form:
    """Return the form of a tuple of any length."""
    write, read = inner.write, _reader_of_list(inner.read, tuple)
    schema = {"type": "array", "items": inner.schema}
    if write is None:
        return Form(list, read, schema)
    return Form(lambda items: [write(item) for item in items], read, schema)


def _set(inner: Form) -> Form:
    write, read = inner.write or as_it_is, _reader_of_list(inner.read, frozenset)
    schema = {"type": "array", "items": inner.schema}
    return Form(lambda items: sorted(map(write, items)), read, schema)


def of_tuple(inner: Sequence[Form]) -> Form:
    """Return the form of a tuple of one length."""
    writers = [one.write or as_it_is for one in inner]

    def read(data: object) -> object:
        if type(data) is not list or len(data) != len(inner):
            raise wrong(f"a list of {len(inner)}", data)
        found: list[Any] = []
        try:
            for each, one in zip(inner, data, strict=True):
                found.append(each.read(one))
        except WrongError as error:
            error.path.append(f"[{len(found)}]")
            raise
        return tuple(found)

    return Form(
        lambda items: [write(item) for write, item in zip(writers, items, strict=True)],
        read,
        {
            "type": "array",
            "prefixItems": [one.schema for one in inner],
            "items": False,
            "minItems": len(inner),
        },
    )


def _mapping(key: Form, value: Form) -> Form:
    writers = key.write or as_it_is, value.write or as_it_is

    def read(data: object) -> object:
        if type(data) is not dict:
            raise wrong("an object", data)
        name, found = "", {}
        try:
            for name, one in data.items():
                found[key.read(name)] = value.read(one)
        except WrongError as error:
            error.path.append(f".{shown(name)}")
            raise
        return found

    return Form(
        lambda items: {writers[0](name): writers[1](one) for name, one in items.items()},
        read,
        {
            "type": "object",
            "propertyNames": key.schema,
            "additionalProperties": value.schema,
        },
    )


CONTAINERS: dict[Any, Callable[..., Form]] = {
    Sequence: _sequence,
    tuple: _many,
    frozenset: _set,
    Mapping: _mapping,
}


def careful(inner: Read) -> Read:
    """Return a reader that says what was expected where another only refuses."""

    def read(data: object) -> object:
        try:
            return inner(data)
        except ValueError as error:
            raise wrong(str(error), data) from None

    return read
