"""``padiff compare``: where do two dumps first diverge?"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup
from click.core import ParameterSource

from padiff.comparer.report.escape import printable
from padiff.dumpfile.urls import url_of

from .command import both_sides, command
from .compare_options import judging_options, selecting_options
from .formats import Format, Wanted, drawing_options, exit_code_of, file_options
from .waiting import Steps

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison

    from .formats import Drawing


@command(
    examples="""
    padiff compare padiff_dump/torch padiff_dump/paddle
    padiff compare padiff_dump/torch padiff_dump/paddle --atol 1e-4 --html report.html
    padiff compare baseline.padiff.zip padiff_dump/net --include 'encoder.*' --phase forward
    padiff compare torch.npz paddle.npz
    """
)
@both_sides
@selecting_options
@judging_options
@cloup.option_group(
    "Executing both programs",
    click.option(
        "--execute/--no-execute",
        default=True,
        show_default=True,
        help="Execute both recorded programs in float64: same function, same leaves, sound "
        "execution? Without, verdicts rest on tolerances alone.",
    ),
    click.option(
        "--strict",
        is_flag=True,
        help="A difference of function that rounding hides on these inputs is a divergence, not a "
        "finding.",
    ),
)
@cloup.option_group(
    "Files and formats",
    click.option(
        "--json",
        "json_path",
        type=click.Path(path_type=Path, allow_dash=True),
        metavar="FILE",
        help="Write the whole result as JSON; '-' prints it instead of the report.",
    ),
    file_options,
    click.option(
        "--format",
        "stdout",
        type=click.Choice([str(form) for form in Format]),
        default=str(Format.TEXT),
        show_default=True,
        help="What to print.",
    ),
    click.option(
        "--details",
        is_flag=True,
        help="Look as closely for --json as --html does.",
    ),
    click.option("--quiet", "-q", is_flag=True, help="Print no report; the exit code tells."),
)
@drawing_options
def compare(  # noqa: PLR0913 -- one parameter per option
    reference: Path,
    candidate: Path,
    *,
    selected: dict[str, Any],
    judged_by: dict[str, Any],
    json_path: Path | None,
    github: bool,
    stdout: str,
    details: bool,
    execute: bool,
    strict: bool,
    drawing: Drawing,
    quiet: bool,
    **files: Path | None,
) -> int:
    """Find where the dump CANDIDATE first diverges from the dump REFERENCE.

    Files of named arrays (.npy, .npz, .safetensors) and folders of them compare like dumps. Needs
    no framework. Exit code 0 if they match, 1 if they diverge, 2 if they could not be compared or
    nothing of the model's result was judged.
    """
    from padiff.arrayfiles import as_dumps  # noqa: PLC0415 -- after the options
    from padiff.comparer import CompareSettings  # noqa: PLC0415
    from padiff.comparer import compare as compare_dumps  # noqa: PLC0415
    from padiff.dumpfile.packed import unpacked  # noqa: PLC0415

    from .compare import commands_to_look_further  # noqa: PLC0415

    wanted = Wanted.from_options({"json": json_path, **files}, github=github, stdout=Format(stdout))
    judged_by["parts"] = judged_by["parts"] or wanted.folder
    settings = CompareSettings(**selected, **judged_by, execute=execute, strict=strict)
    with (
        unpacked(reference) as one,
        unpacked(candidate) as other,
        as_dumps(one, other) as (known, found),
    ):
        result = compare_dumps(known, found, settings, watch=Steps())
        if details or wanted.has_page:
            from padiff.comparer.detail import look_closer  # noqa: PLC0415 -- few need it

            result = replace(result, details=look_closer(known, found, result))
    further = commands_to_look_further(result, click.get_current_context())
    wanted.write(result, lambda: drawing.text(result, further=further), quiet=quiet)
    return exit_code_of(result.verdict)


_OUTPUT = frozenset(
    {
        *("json_path", "html", "junit", "sarif", "markdown", "csv", "github", "stdout"),
        *("details", "max_rows", "verbose", "quiet", "explain_pairing", "jobs", "scheduler"),
        *("parts", "overview"),
    }
)
"""Options that do not decide what is compared."""


def commands_to_look_further(comparison: Comparison, context: click.Context) -> str:
    """Return the last lines of a report that found something; empty on a match.

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
    """Return the command line, without the options about output."""
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
