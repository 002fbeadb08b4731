"""``padiff compare``: where do two dumps first diverge?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import cloup

from .command import command
from .drawing import drawing_options
from .exitcodes import exit_code_of
from .formats import Format, Wanted, file_options
from .judging import judging_options
from .selecting import selecting_options
from .waiting import Steps

if TYPE_CHECKING:
    from .drawing import Drawing

__all__ = ["compare"]


@command(
    examples="""
    padiff compare padiff_dump/torch padiff_dump/paddle
    padiff compare padiff_dump/torch padiff_dump/paddle --atol 1e-4 --html report.html
    padiff compare baseline.padiff.zip padiff_dump/net --include 'encoder.*' --phase forward
    padiff compare torch.npz paddle.npz
    """
)
@click.argument("reference", type=click.Path(path_type=Path))
@click.argument("candidate", type=click.Path(path_type=Path))
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
        help="Another function is a divergence even where rounding does more to these inputs than "
        "the difference. Without it that is a finding in the report.",
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

    from .further import commands_to_look_further  # noqa: PLC0415

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
