"""``padiff report``: render a result again, without the dumps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.dumpfile import ConfigError
from padiff.dumpfile.strictjson import StrictJSONError, read_json

from .drawing import drawing_options
from .exitcodes import exit_code_of
from .formats import Format, Wanted, file_options

if TYPE_CHECKING:
    from padiff.dumpfile import JSON

    from .drawing import Drawing

__all__ = ["report"]


@click.command()
@click.argument("result", type=click.Path(path_type=Path))
@file_options
@click.option(
    "--format",
    "stdout",
    type=click.Choice([str(form) for form in Format]),
    help="What to print.  [default: text if no file is asked for]",
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
    from padiff.comparer.report.reading import read_report  # noqa: PLC0415 -- after the options
    from padiff.comparer.report.rebuild import rebuild  # noqa: PLC0415

    data = _read(result)
    found = read_report(data)
    wants_text = stdout == Format.TEXT or (
        stdout is None and not github and not any(files.values())
    )

    wanted = Wanted.from_options(files, github=github, stdout=Format(stdout or Format.TEXT))
    wanted.write(lambda: dict(data), (lambda: drawing.text(rebuild(data))) if wants_text else None)
    return exit_code_of(found.verdict)


def _read(path: Path) -> dict[str, JSON]:
    """Parse the file strictly."""
    try:
        data = read_json(path)
    except (OSError, StrictJSONError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read the report {str(path)!r}: {reason}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"cannot read {str(path)!r}: expected a report of padiff compare --json")
    return data
