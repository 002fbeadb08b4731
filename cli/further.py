"""The commands with which a reader of the report looks further."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from padiff.comparer.report.escape import printable
from padiff.dumpfile.urls import url_of

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison

__all__ = ["commands_to_look_further"]

_OUTPUT = frozenset(
    {
        *("json_path", "html", "junit", "sarif", "markdown", "csv", "github", "stdout"),
        *("details", "max_rows", "verbose", "quiet", "explain_pairing", "jobs", "scheduler"),
        "parts",
    }
)
"""Options that do not decide what is compared."""


def commands_to_look_further(comparison: Comparison, context: click.Context) -> str:
    """Give the last lines of a report that found something; empty on a match.

    The commands repeat what was typed, but for the options that choose what is printed. A name
    that a terminal could not show as it is, is left out.
    """
    first = comparison.first
    if first is None:
        return ""
    base = _typed(context)
    commands = [[*base, "--html", "report.html"]]
    module = first.pair.end.address.module
    if module:
        commands.insert(0, [*base, "--include", module, "--verbose"])
    lines = [shlex.join(words) for words in commands]
    shown = [line for line in lines if printable(line) == line]
    return "".join(["\nlook further:\n", *(f"  {line}\n" for line in shown)]) if shown else ""


def _typed(context: click.Context) -> list[str]:
    """Give the command line, without the options about output."""
    words = context.command_path.split()
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if isinstance(parameter, click.Argument):
            words.append(url_of(value) or str(value))
        elif name not in _OUTPUT and isinstance(parameter, click.Option):
            values = value if isinstance(value, tuple) else (value,)
            for one in values:
                options += [parameter.opts[0], *([] if parameter.is_flag else [str(one)])]
    return [*words, *options]
