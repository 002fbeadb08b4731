"""JSON that a person can read and a line-based tool can search: a record stands on one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import GeneratorType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["json_pieces"]


def _listed(thing: object) -> list[object]:
    """Return an iterator inside what goes on one line as a list."""
    if isinstance(thing, Iterator):
        return list(thing)
    raise TypeError(f"expected what JSON knows, found {type(thing).__name__}")


_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=True, default=_listed)
"""Without ``indent``, which the module's encoder in C does not know."""
_OUTER = 1
"""Level up to which an object has a line for each entry: the document, and what is in it."""
_WORDY = frozenset({dict, str})
"""Of which a list has a line for each entry, and the object that holds such a list."""


def json_pieces(data: object) -> Iterator[str]:
    r"""Encode as strict JSON, piece by piece: ASCII, no bare nan or inf, ends in a line break.

    The document, the objects in it, and objects that hold a list of objects or strings have a line
    for each entry, a blank further in for each level. So have their lists, but those of numbers.
    All else is on the line of the entry it belongs to.

    Args:
        data: What ``json`` takes; lists of objects may be iterators, of which one entry is asked
            for at a time.

    Raises:
        ValueError: A number is not finite.
        TypeError: It holds something that JSON does not.

    >>> data = {"sizes": [1, 2], "pairs": [{"a": {"b": 1}}, {"a": None}]}
    >>> print("".join(json_pieces(data)), end="")
    {
     "sizes": [1, 2],
     "pairs": [
      {"a": {"b": 1}},
      {"a": null}
     ]
    }
    """
    yield from _laid_out(data, 0)
    yield "\n"


def _laid_out(data: object, level: int) -> Iterator[str]:
    if isinstance(data, dict) and _is_open(data, level):
        yield from _object(data, level)
    elif isinstance(data, Iterator) or (isinstance(data, list) and _has_lines(data)):
        yield from _list(data, level)
    else:
        yield _ENCODER.encode(data)


def _object(data: dict[str, object], level: int) -> Iterator[str]:
    start = "\n" + " " * (level + 1)
    for place, (name, value) in enumerate(data.items()):
        yield f"{',' if place else '{'}{start}{_ENCODER.encode(name)}: "
        yield from _laid_out(value, level + 1)
    yield "\n" + " " * level + "}"


def _list(entries: Iterable[object], level: int) -> Iterator[str]:
    start = "\n" + " " * (level + 1)
    first = "[" + start
    separator = first
    for entry in entries:
        if isinstance(entry, dict) and not _is_open(entry, level + 1):
            yield separator + _ENCODER.encode(entry)  # nearly all of a long document
        else:
            yield separator
            yield from _laid_out(entry, level + 1)
        separator = "," + start
    yield "[]" if separator is first else "\n" + " " * level + "]"


def _is_open(data: dict[str, object], level: int) -> bool:
    """Tell whether an object has a line for each entry."""
    if level <= _OUTER:
        return bool(data)
    if GeneratorType in map(type, data.values()):
        return True
    lists = [value for value in data.values() if type(value) is list and value]
    return any(type(entries[0]) in _WORDY for entries in lists)


def _has_lines(entries: list[object]) -> bool:
    """Tell whether a list has a line for each entry."""
    return bool(entries) and type(entries[0]) in {*_WORDY, list}
