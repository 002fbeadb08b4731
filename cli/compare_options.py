"""Options of ``padiff compare``: what is compared with what, and when a difference counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from padiff.comparer.judging.noise import DEFAULT_FACTOR, FloorSide
from padiff.dumpfile import Phase

from .command import map_option, option_group

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
