"""TOML from anybody: bounded in size, depth and time, and every error of one kind."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from .untrusted import read_bounded

if TYPE_CHECKING:
    from pathlib import Path

_MOST_BYTES = 16 << 20
_MOST_PARTS = 32
_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""(?:""?)?|\Z)'
    r"|'''.*?(?:'''(?:''?)?|\Z)"
    r'|"(?:\\.|[^"\\\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+",
    re.DOTALL,
)
"""Strings, also those that do not end, and comments: https://toml.io/en/v1.0.0."""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{_MOST_PARTS}}}", re.ASCII)


class StrictTOMLError(ValueError):
    """The file is no TOML, or more of it than can be meant."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read a file.

    Raises:
        StrictTOMLError: It is something else, or too deep.
        OSError: It cannot be read, or is too large.
    """
    try:
        return from_toml(read_bounded(path, _MOST_BYTES).decode())
    except UnicodeDecodeError as error:
        raise StrictTOMLError(str(error)) from None


def from_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        StrictTOMLError: It is something else, or too deep.

    >>> from_toml("a.b = 1")
    {'a': {'b': 1}}
    """
    # The parser's time grows with the square of a key's length.
    if _LONG_KEY.search(_TEXT.sub("_", text)):
        raise StrictTOMLError(f"a key has more than {_MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise StrictTOMLError("nested too deeply") from None
    except ValueError as error:
        raise StrictTOMLError(str(error)) from None
