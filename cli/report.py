"""``padiff report``: render a result again, without the dumps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.comparer.report.reading import read_report
from padiff.dumpfile import ConfigError
from padiff.dumpfile.strictjson import StrictJSONError, from_json

from .formats import Format, Wanted, file_options

if TYPE_CHECKING:
    from padiff.dumpfile import JSON

__all__ = ["report"]


@click.command()
@click.argument("result", type=click.Path(path_type=Path))
@file_options
@click.option(
    "--format",
    "stdout",
    type=click.Choice([str(Format.MARKDOWN), str(Format.JSON)]),
    help="What to print. [default: markdown if no file is asked for]",
)
def report(result: Path, *, github: bool, stdout: str | None, **files: Path | None) -> int:
    """Render RESULT, which `padiff compare --json` wrote, in other formats.

    Needs neither the dumps nor a framework. Exit codes as of `padiff compare`.
    """
    data = _read(result)
    found = read_report(data)
    is_only = not github and not any(files.values())
    shown = Format(stdout) if stdout else Format.MARKDOWN if is_only else Format.TEXT
    Wanted.from_options(files, github=github, stdout=shown).write(data, None)
    return 0 if found.verdict == "match" else 1


def _read(path: Path) -> dict[str, JSON]:
    """Parse the file strictly."""
    try:
        data = from_json(path.read_bytes())
    except (OSError, StrictJSONError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read the report {str(path)!r}: {reason}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"cannot read {str(path)!r}: expected a report of padiff compare --json")
    return data
