"""Strict JSON: no duplicate keys, no bare nan, nothing but ASCII written."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, cast

from .bulk import collector_paused
from .untrusted import chunks_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .schema import JSON

_MAX_DEPTH = 32
_MOST_SHOWN = 60  # characters of a number


class StrictJSONError(ValueError):
    """The text is no strict JSON."""


def to_json(value: JSON, *, indent: int | None = None) -> str:
    """Write JSON text of ASCII characters only.

    >>> to_json({"a": [1, None]})
    '{"a":[1,null]}'
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(value, allow_nan=False, indent=indent, separators=separators)


@collector_paused()
def read_json(path: Path) -> JSON:
    """Read a file of strict JSON that may come from anybody.

    Raises:
        StrictJSONError: It is something else; a large hole, or a device, is found at once.
        OSError: It cannot be read.
    """
    found = bytearray()
    for chunk in chunks_of(path):
        if b"\0" in chunk:
            raise StrictJSONError("a zero byte is no JSON")
        found += chunk
    return from_json(found, parse_float=_finite)


def from_json(
    data: bytes | bytearray, *, parse_float: Callable[[str], float] | None = None
) -> JSON:
    """Read strict JSON from UTF-8.

    Args:
        data: The text.
        parse_float: Reads each number that is no integer; by default one that no float can hold
            becomes infinite, and whoever takes the number looks.

    Raises:
        StrictJSONError: It is something else.

    >>> from_json(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    padiff.dumpfile.strictjson.StrictJSONError: duplicate key 'a'
    """
    check = _unique if b":" in data else None  # else all objects are empty: no key stands twice
    try:
        found = json.loads(
            data.decode(),
            parse_float=parse_float,
            parse_constant=_refuse,
            object_pairs_hook=check,
        )
        return cast("JSON", found)
    except RecursionError:
        raise StrictJSONError("nested too deeply") from None
    except MemoryError:
        raise StrictJSONError("too large for the memory that there is") from None
    except ValueError as error:
        raise StrictJSONError(str(error)) from None


def plain(value: object) -> JSON:
    """Turn a Python value into JSON: non-finite numbers become strings, odd keys and things text.

    >>> plain({"eps": float("inf"), "size": (1, 2)})
    {'eps': 'inf', 'size': [1, 2]}
    """
    return _plain(value, 0)


def is_plain(value: object) -> bool:
    """Return whether a value read from JSON is finite and not nested beyond all use."""
    return _is_plain(value, 0)


def _plain(value: object, depth: int) -> JSON:
    if value is None or isinstance(value, bool | str):
        return value if type(value) in {bool, str, type(None)} else str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if depth < _MAX_DEPTH and isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    return repr(value)


def _is_plain(value: object, depth: int) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list | dict):
        items = value.values() if isinstance(value, dict) else value
        return depth < 2 * _MAX_DEPTH and all(_is_plain(item, depth + 1) for item in items)
    return True


def _refuse(constant: str) -> None:
    raise StrictJSONError(f"bare {constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise StrictJSONError(f"{text[:_MOST_SHOWN]} is more than a number can be")
    return number


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise StrictJSONError(f"duplicate key {key!r}")
            seen.add(key)
    return found
