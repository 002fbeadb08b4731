"""Keeps a name in what padiff prints from being a command to the service that runs a CI job.

These services read their commands from the output of the programs that they run: GitHub a line
that begins with ``::``, blanks aside, and ``##[`` anywhere (``ActionCommand.cs`` of its runner),
Azure Pipelines ``##vso[`` and TeamCity ``##teamcity[``.
"""

from __future__ import annotations

import re

__all__ = ["defused", "defused_json"]

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
