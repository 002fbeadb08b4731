"""``padiff compare``: where do two dumps first diverge?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from padiff.comparer import CompareSettings, Verdict
from padiff.dumpfile import Phase
from padiff.dumpfile.packed import unpacked

from .arrays import as_dumps
from .formats import Format, Wanted, file_options
from .further import commands_to_look_further
from .judging import judging_options
from .output import render_to_text

if TYPE_CHECKING:
    from rich.console import Console


__all__ = ["compare"]


@click.command()
@click.argument("reference", type=click.Path(path_type=Path))
@click.argument("candidate", type=click.Path(path_type=Path))
@click.option(
    "--step", type=click.IntRange(min=0), multiple=True, help="Only this step; may repeat."
)
@click.option(
    "--rank", type=click.IntRange(min=0), multiple=True, help="Only this rank; may repeat."
)
@judging_options
@click.option(
    "--phase",
    "phases",
    type=click.Choice([str(phase) for phase in Phase]),
    multiple=True,
    help="Only this phase; may repeat.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="Only modules whose path matches the glob, or type:CLASS, and what is inside; may repeat.",
)
@click.option(
    "--exclude", multiple=True, metavar="PATTERN", help="Leave these modules out; may repeat."
)
@click.option(
    "--min-coverage",
    type=click.FloatRange(0, 1),
    help="Share of the values that must have been judged. "
    "[default: 1 for equal structures, else 0.8]",
)
@click.option(
    "--allow-missing",
    multiple=True,
    metavar="PATTERN",
    help="Modules or weights that may lack a counterpart; may repeat.",
)
@click.option(
    "--map",
    "map_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Map file (TOML) that says which module is which.",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write the whole result as JSON; '-' prints it instead of the report.",
)
@file_options
@click.option(
    "--format",
    "stdout",
    type=click.Choice([str(form) for form in Format]),
    default=str(Format.TEXT),
    show_default=True,
    help="What to print.",
)
@click.option(
    "--details",
    is_flag=True,
    help="Look closer at what diverged for --json, as --html does.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    help="Rows of each table of the report; 0: all.",
)
@click.option("--verbose", "-v", is_flag=True, help="Fold nothing, list all that diverged.")
@click.option("--quiet", "-q", is_flag=True, help="Print no report; the exit code tells.")
@click.option("--explain-pairing", is_flag=True, help="Say how every partner was found.")
def compare(  # noqa: PLR0913 -- one parameter per option
    reference: Path,
    candidate: Path,
    *,
    step: tuple[int, ...],
    rank: tuple[int, ...],
    judged_by: dict[str, Any],
    phases: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    min_coverage: float | None,
    allow_missing: tuple[str, ...],
    map_path: Path | None,
    json_path: Path | None,
    github: bool,
    stdout: str,
    details: bool,
    max_rows: int,
    verbose: bool,
    quiet: bool,
    explain_pairing: bool,
    **files: Path | None,
) -> int:
    """Find where the dump CANDIDATE first diverges from the dump REFERENCE.

    Files of named arrays (.npy, .npz, .safetensors) and folders of them compare like dumps. Needs
    no framework. Exit code 0 if they match, 1 if they diverge, 2 if they could not be compared.
    """
    from padiff.comparer import compare as compare_dumps  # noqa: PLC0415 -- after the options
    from padiff.comparer.detail import look_closer  # noqa: PLC0415
    from padiff.comparer.report.json_report import to_json  # noqa: PLC0415
    from padiff.comparer.report.terminal import render  # noqa: PLC0415
    from padiff.pairing import read_map  # noqa: PLC0415

    settings = CompareSettings(
        **judged_by,
        steps=step or None,
        ranks=rank or None,
        phases=tuple(map(Phase, phases)) or None,
        include=include,
        exclude=exclude,
        min_coverage=min_coverage,
        allow_missing=allow_missing,
        map_file=None if map_path is None else read_map(map_path),
    )
    wanted = Wanted.from_options({"json": json_path, **files}, github=github, stdout=Format(stdout))
    more = None
    with (
        unpacked(reference) as one,
        unpacked(candidate) as other,
        as_dumps(one, other) as (known, found),
    ):
        result = compare_dumps(known, found, settings)
        if details or wanted.has_page:
            more = look_closer(known, found, result)

    def draw(console: Console) -> None:
        render(
            result,
            console,
            max_rows=max_rows,
            verbose=verbose,
            explain_pairing=explain_pairing,
        )

    further = commands_to_look_further(result, click.get_current_context())
    wanted.write(lambda: to_json(result, more), lambda: render_to_text(draw) + further, quiet=quiet)
    return 0 if result.verdict is Verdict.MATCH else 1
