"""``padiff report``: render a result again, without the dumps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import cloup

from padiff.dumpfile import ConfigError
from padiff.dumpfile.strictjson import StrictJSONError, read_json

from .command import command
from .formats import Format, Wanted, drawing_options, exit_code_of, file_options

if TYPE_CHECKING:
    from padiff.comparer.result import Comparison

    from .formats import Drawing


@command(
    examples="""
    padiff report report.json --html report.html --junit report.xml
    padiff report report.json --verbose
    """
)
@click.argument("result", type=click.Path(path_type=Path))
@cloup.option_group(
    "Files and formats",
    file_options,
    click.option(
        "--format",
        "stdout",
        type=click.Choice([str(form) for form in Format]),
        help="What to print.  [default: text if no file is asked for]",
    ),
)
@drawing_options
def report(
    result: Path,
    *,
    github: bool,
    stdout: str | None,
    drawing: Drawing,
    **files: Path | None,
) -> int:
    """Render RESULT, which `padiff compare --json` wrote, in other formats.

    Needs neither the dumps nor a framework. Exit codes as of `padiff compare`.
    """
    comparison = read_result(result)
    wants_text = stdout == Format.TEXT or (
        stdout is None and not github and not any(files.values())
    )
    wanted = Wanted.from_options(files, github=github, stdout=Format(stdout or Format.TEXT))
    wanted.write(comparison, (lambda: drawing.text(comparison)) if wants_text else None)
    return exit_code_of(comparison.verdict)


def read_result(path: Path) -> Comparison:
    """Read what ``padiff compare --json`` wrote.

    Raises:
        ConfigError: The file cannot be read, or holds something else.
    """
    from padiff.comparer.report.json_report import read_report  # noqa: PLC0415 -- after the options

    try:
        data = read_json(path)
    except (OSError, StrictJSONError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read the report {str(path)!r}: {reason}") from error
    return read_report(data)
