"""Text of TOML files that is safe whatever the names in a dump are."""

from __future__ import annotations

import re

__all__ = ["comment", "quoted"]

_SHORT = {'"': '\\"', "\\": "\\\\"}
_BMP = 0xFFFF
_UNSAFE = re.compile(r"[^ !#-\[\]-~]")
"""All but printable ASCII without quotation mark and backslash."""


def quoted(text: str) -> str:
    r"""Give a TOML basic string; everything but printable ASCII is escaped.

    >>> print(quoted('a"b\n\u202e'))
    "a\"b\u000A\u202E"
    """
    return f'"{_UNSAFE.sub(lambda found: _escaped(found[0]), text)}"'


def comment(text: str) -> str:
    """Give a comment of one line, harmless wherever it is printed."""
    shown = "".join(
        char if char.isascii() and char.isprintable() else _escaped(char) for char in text
    )
    return f"# {shown}".rstrip()


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isascii() and char.isprintable():
        return char
    return f"\\u{ord(char):04X}" if ord(char) <= _BMP else f"\\U{ord(char):08X}"
