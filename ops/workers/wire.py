"""Messages between the judge and a worker: a line of JSON about elements, and the elements.

This file needs the standard library alone and imports nothing of padiff: see ``main``.
"""

from __future__ import annotations

import json
import os
from typing import Any

_HEAD = 16
"""Bytes that hold the sizes of the two parts of a message."""


class Closed(Exception):  # noqa: N818 -- the end of a conversation is no error
    """The other end is gone."""


def write_message(stream: int, head: dict[str, Any], body: bytes = b"") -> None:
    """Write a message as a whole.

    Raises:
        Closed: Nobody reads it.
    """
    text = json.dumps(head).encode()
    sizes = len(text).to_bytes(_HEAD // 2) + len(body).to_bytes(_HEAD // 2)
    left = memoryview(sizes + text + body)
    try:
        while left:
            left = left[os.write(stream, left) :]
    except BrokenPipeError as error:
        raise Closed from error


def read_message(stream: int) -> tuple[dict[str, Any], bytes]:
    """Read one message and not a byte more.

    Raises:
        Closed: There is none.
    """
    sizes = _read(stream, _HEAD)
    text = _read(stream, int.from_bytes(sizes[: _HEAD // 2]))
    return json.loads(text), _read(stream, int.from_bytes(sizes[_HEAD // 2 :]))


def _read(stream: int, count: int) -> bytes:
    parts = []
    while count:
        part = os.read(stream, count)
        if not part:
            raise Closed
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
