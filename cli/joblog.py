"""Makes text fit for a log: no name is a command to a CI service, paths begin in this folder.

These services read their commands from the output of the programs that they run: GitHub a line
that begins with ``::``, blanks aside, and ``##[`` anywhere (``ActionCommand.cs`` of its runner),
Azure Pipelines ``##vso[`` and TeamCity ``##teamcity[``.
"""

from __future__ import annotations

import contextlib
import os
import re

_AT_THE_START = re.compile(r"^(\s*):(?=:)", re.MULTILINE)
_ANYWHERE = re.compile(r"(?<=#)#(?=(?:vso|teamcity)?\[)", re.IGNORECASE)


def defused(text: str) -> str:
    r"""Escape one character of whatever would be a command.

    >>> print(defused("  ::error::x ##[warning]y"))
      \x3a:error::x #\x23[warning]y
    """
    return _ANYWHERE.sub(r"\\x23", _AT_THE_START.sub(r"\1\\x3a", text))


def defused_json(text: str) -> str:
    r"""Do the same to JSON or a string of TOML, which then still says the same.

    >>> print(defused_json('["##[warning]y"]'))
    ["#\u0023[warning]y"]
    """
    return _ANYWHERE.sub(r"\\u0023", text) if "##" in text else text  # a look, not a search


def from_here(text: str) -> str:
    """Return text in which paths below the current folder are relative to it."""
    with contextlib.suppress(OSError):  # the folder may be gone
        here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118 -- keeps `padiff --help` fast
        return text if here == os.sep else text.replace(here, "")
    return text
