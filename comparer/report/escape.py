"""Make text that came out of a dump harmless: a dump may be from anyone."""

from __future__ import annotations


def printable(text: str, *, ascii_only: bool = True) -> str:
    r"""Escape what could break a line or drive a terminal.

    Control characters, escape sequences, line and paragraph separators, bidirectional overrides,
    private and unassigned characters and lone surrogates become backslash escapes.

    Args:
        text: Any text; a name, path, class or message.
        ascii_only: Whether all of non-ASCII is escaped too, for plain output.

    >>> printable("a\x1b[31mb\nc")
    'a\\x1b[31mb\\nc'
    """
    escaped = text
    if not text.isprintable():
        escaped = "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
            for char in text
        )
    return escaped.encode("ascii", "backslashreplace").decode("ascii") if ascii_only else escaped
