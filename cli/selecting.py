"""Options of ``padiff compare`` that decide what is compared with what, and what may be left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from padiff.dumpfile import Phase

from .optiongroup import option_group

__all__ = ["selecting", "selecting_options"]

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
    click.option(
        "--map",
        "map_path",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Map file (TOML) that says which module is which.",
    ),
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
    """Give fields of ``CompareSettings``.

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
