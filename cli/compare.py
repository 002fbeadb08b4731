"""``padiff compare``: where do two dumps first diverge?"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup
from click.core import ParameterSource

from padiff.comparer.judging.noise import DEFAULT_FACTOR, FloorSide
from padiff.comparer.report.escape import printable
from padiff.dumpfile import Phase
from padiff.dumpfile.urls import url_of

from .command import both_sides, command, map_option, option_group
from .formats import Format, Wanted, drawing_options, exit_code_of, file_options
from .waiting import Steps

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison

    from .formats import Drawing


_OPTIONS = (
    click.option(
        "--atol",
        type=float,
        help="Absolute tolerance; without --rtol it only loosens. [default: by dtype]",
    ),
    click.option("--rtol", type=float, help="Relative tolerance. [default: by dtype]"),
    click.option(
        "--mode",
        metavar="strict|mean|quantile=SHARE",
        help="Judge every element, the mean absolute difference, or a share such as quantile=0.999 "
        "of the elements.  [default: strict]",
    ),
    click.option(
        "--max-mismatched",
        metavar="SHARE",
        help="Elements of a record that may disagree, as 10ppm, 0.1% or 1e-5.  [default: none]",
    ),
    click.option(
        "--policy",
        "policy_path",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Tolerances and rules from a TOML file; options and --rule here win over it.",
    ),
    click.option(
        "--floor",
        type=click.Choice([str(side) for side in FloorSide]),
        help="Judge against the noise floor that `padiff dump --repeat` measured on this side.",
    ),
    click.option(
        "--floor-factor",
        type=click.FloatRange(min=0),
        default=DEFAULT_FACTOR,
        show_default=True,
        help="Times the noise floor is what a record may differ by.",
    ),
    click.option(
        "--golden",
        type=click.Path(path_type=Path),
        metavar="DUMP",
        help="A more precise dump of the same model: each side's error is taken against it.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Processes that compare. [default: what pays]",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Compare on a Dask scheduler's workers, by address or file, or another executor's.",
    ),
    click.option(
        "--parts",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Shared folder for what workers found.  [default: beside the report]",
    ),
    click.option(
        "--rule",
        "rules",
        multiple=True,
        metavar="PATTERN:OPTIONS",
        help="Tolerances for some modules, as '*.norm:atol=1e-3,rtol=0,role=output'; may repeat, "
        "later ones win.",
    ),
)


def judging(  # noqa: PLR0913 -- one parameter per option
    *,
    mode: str | None,
    atol: float | None,
    rtol: float | None,
    rules: tuple[str, ...],
    max_mismatched: str | None,
    policy_path: Path | None,
    floor: str | None,
    floor_factor: float,
    golden: Path | None,
    jobs: int | None,
    scheduler: str | None,
    parts: Path | None,
) -> dict[str, Any]:
    """Return fields of ``CompareSettings``: the policy file's, or what was typed instead of them.

    Raises:
        ConfigError: A word or the policy file cannot be read.
    """
    from padiff.comparer import Mode, ToleranceRule  # noqa: PLC0415 -- after the options
    from padiff.comparer.judging.policyfile import (  # noqa: PLC0415
        Policy,
        parse_mode,
        parse_share,
        read_policy,
    )

    policy = Policy() if policy_path is None else read_policy(policy_path)
    share = max_mismatched
    chosen, quantile = (policy.mode, policy.quantile) if mode is None else parse_mode(mode)
    return {
        "atol": policy.atol if atol is None else atol,
        "rtol": policy.rtol if rtol is None else rtol,
        "rules": (*policy.rules, *map(ToleranceRule.parse, rules)),
        "mode": chosen or Mode.STRICT,
        "quantile": quantile,
        "max_mismatched": policy.max_mismatched if share is None else parse_share(share),
        "floor": None if floor is None else FloorSide(floor),
        "floor_factor": floor_factor,
        "golden": golden,
        "jobs": jobs,
        "scheduler": scheduler,
        "parts": parts,
    }


judging_options = option_group("judged_by", judging, {"When a difference counts": _OPTIONS})
"""Adds the options to a command, which gets what ``judging`` makes of them as ``judged_by``."""


_SELECTED = (
    click.option(
        "--step", type=click.IntRange(min=0), multiple=True, help="Only this step; may repeat."
    ),
    click.option(
        "--rank", type=click.IntRange(min=0), multiple=True, help="Only this rank; may repeat."
    ),
    click.option(
        "--phase",
        "phases",
        type=click.Choice([str(phase) for phase in Phase]),
        multiple=True,
        help="Report only this phase; may repeat. Earlier phases are still judged, so that what "
        "merely follows from them is not blamed.",
    ),
    click.option(
        "--include",
        multiple=True,
        metavar="PATTERN",
        help="Only these modules and what is inside: a glob of module paths or type:CLASS, with "
        "@self or @sublayers; may repeat.",
    ),
    click.option(
        "--exclude", multiple=True, metavar="PATTERN", help="Leave these modules out; may repeat."
    ),
)
_PAIRED = (
    click.option(
        "--min-coverage",
        type=click.FloatRange(0, 1),
        help="Share of the values that must have been judged. "
        "[default: 1 for equal structures, else 0.8, or 0.5 where all of the other side's were]",
    ),
    click.option(
        "--allow-missing",
        multiple=True,
        metavar="PATTERN",
        help="Modules or weights that may lack a counterpart; may repeat.",
    ),
    map_option,
    click.option(
        "--layout",
        "layouts",
        multiple=True,
        metavar="TEXT",
        help="Layout over ranks, as '**.wo output=R over tp'.",
    ),
)


def selecting(  # noqa: PLR0913 -- one parameter per option
    *,
    step: tuple[int, ...],
    rank: tuple[int, ...],
    phases: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    min_coverage: float | None,
    allow_missing: tuple[str, ...],
    map_path: Path | None,
    layouts: tuple[str, ...],
) -> dict[str, Any]:
    """Return fields of ``CompareSettings``.

    Raises:
        ConfigError: The map file or a layout cannot be read.
    """
    from padiff.pairing import RanksEntry, read_map  # noqa: PLC0415 -- after the options

    return {
        "steps": step or None,
        "ranks": rank or None,
        "phases": tuple(map(Phase, phases)) or None,
        "include": include,
        "exclude": exclude,
        "min_coverage": min_coverage,
        "allow_missing": allow_missing,
        "map_file": None if map_path is None else read_map(map_path),
        "layouts": tuple(map(RanksEntry.parse, layouts)),
    }


selecting_options = option_group(
    "selected", selecting, {"What is compared": _SELECTED, "What may lack a partner": _PAIRED}
)
"""Adds the options to a command, which gets what ``selecting`` makes of them as ``selected``."""


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
