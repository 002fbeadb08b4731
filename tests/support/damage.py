"""Damages files: by bytes, or by the structure of JSON and TOML."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**31,
    2**62,
    2**70,
    10**400,
    0.5,
    1e308,
    "",
    "a",
    "nan",
]
ODD += ["inf", "../../x", "\x1b[31m", "\x00", "é" * 50, "9" * 5000, [], {}, [[]], {"a": {}}]
TOKENS = [b"0", b"-1", b"[[", b"]]", b'"', b"=", b"\n", b"\xff", b"\x00", b"**", b"{i}", b"1e999"]
TOKENS += [b"'" * 3, b"\\", b"inf", b"nan", b"[" * 5000, b"(" * 3000, b"?" * 200, b"*" * 200]
VALUES = ['""', '"a"', '"**.**"', '"{i}{i}.{j}"', '"../../x"', '"\\u0000"', f'"{"x" * 5000}"']
VALUES += ["0", "-1", "1e999", "nan", "9" * 30, "true", "[]", "[[]]", "{}", "{a = {}}"]
"""Of TOML."""


def flip(data: bytes, chance: random.Random) -> bytes:
    """Damage bytes: bits, runs, lengths, ends; the beginning more often, where headers are."""
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
        limit = len(found) if chance.random() < 0.4 else min(len(found), 3000)
        at = chance.randrange(max(limit, 1))
        kind = chance.randrange(6)
        if kind == 0 and found:
            found[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            found[at : at + 1] = bytes([chance.choice([0, 1, 127, 128, 255])])
        elif kind == 2:
            word = chance.choice([0, 1, 2**31, 2**40, 2**63, 2**64 - 1, len(data)])
            found[at : at + 8] = word.to_bytes(8, "little")
        elif kind == 3:
            found[at : at + chance.randrange(1, 64)] = b""
        elif kind == 4:
            found[at:at] = chance.choice(TOKENS)
        else:
            other = chance.randrange(max(len(found), 1))
            found[at : at + 32] = found[other : other + 32]
    return bytes(found[: chance.randrange(len(found) + 1)] if chance.random() < 0.1 else found)


def nudge(data: bytes, chance: random.Random) -> bytes:
    """Change a few bytes where they are, so that all else stays in its place."""
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        at = chance.randrange(len(found))
        found[at] = chance.choice([0, 1, 2, 127, 128, 255, found[at] ^ 1, chance.randrange(256)])
    return bytes(found)


def bend_toml(data: bytes, chance: random.Random) -> bytes:
    """Damage a TOML document so that it mostly stays one: a value, a key or a line."""
    lines = data.decode().splitlines()
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(len(lines))
        key, equals, _ = lines[at].partition(" = ")
        kind = chance.random()
        if equals and kind < 0.6:
            lines[at] = f"{key} = {chance.choice(VALUES)}"
        elif kind < 0.75:
            lines[at : at + 1] = []
        elif kind < 0.9:
            lines.insert(at, chance.choice(lines))
        else:
            lines[at] = lines[at].replace(chance.choice("abeilprt"), "x", 1)
        lines = lines or [""]
    return "\n".join(lines).encode()


def bend(data: bytes, chance: random.Random) -> bytes:
    """Damage a JSON document: a value, a key or an element becomes something else or goes."""
    document = json.loads(data)
    for _ in range(chance.choice([1, 1, 2, 4])):
        document = _bent(document, chance)
    return json.dumps(document).encode()


def _bent(document: Any, chance: random.Random) -> Any:  # noqa: ANN401
    inner = document
    outer: Any = None
    key: Any = None
    while isinstance(inner, list | dict) and inner and chance.random() < 0.8:
        keys = range(len(inner)) if isinstance(inner, list) else list(inner)
        outer, key = inner, chance.choice(list(keys)[:2000])
        inner = inner[key]
    if outer is None:
        return document
    kind = chance.random()
    if kind < 0.7:
        outer[key] = copy.deepcopy(chance.choice(ODD))
    elif kind < 0.85:
        del outer[key]
    elif isinstance(outer, list):
        outer.extend([inner] * chance.choice([1, 3, 100]))
    else:
        outer[f"{key}x"] = inner
    return document
