"""``padiff judge``: would it match at another tolerance? Without the dumps."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.comparer.report.escape import printable
from padiff.dumpfile import ConfigError

from .command import command
from .output import emit
from .report import read_result

if TYPE_CHECKING:
    from padiff.comparer.judging.rejudge import Rejudgement
    from padiff.comparer.result import Scope


UNDECIDED = 2
"""Exit code where the report holds too little."""


@command(
    examples="""
    padiff compare padiff_dump/torch padiff_dump/paddle --json report.json
    padiff judge report.json --atol 1e-3 --rtol 1e-5
    """
)
@click.argument("report", type=click.Path(path_type=Path))
@click.option("--atol", type=float, help="Absolute tolerance. [default: the report's]")
@click.option("--rtol", type=float, help="Relative tolerance. [default: the report's]")
@click.option(
    "--max-rows", type=click.IntRange(min=0), default=20, show_default=True, help="0: all."
)
@click.option("--quiet", "-q", is_flag=True, help="Print nothing; the exit code tells.")
def judge(
    report: Path, *, atol: float | None, rtol: float | None, max_rows: int, quiet: bool
) -> int:
    """Decide REPORT, which `padiff compare --json` wrote, again at other tolerances.

    The dumps are not needed: the report holds, for each record, the few elements that decide
    |c - r| <= atol + rtol |r| at any tolerance, and what its default tolerance was chosen by.
    Exit code 0 if they match, 1 if they diverge, 2 if the report does not decide it.
    """
    for name, number in (("--atol", atol), ("--rtol", rtol)):
        if number is not None and not (math.isfinite(number) and number >= 0):
            raise ConfigError(f"{name} must be a finite number >= 0, found {number!r}")
    from padiff.comparer.judging.rejudge import rejudge  # noqa: PLC0415 -- after the options

    comparison = read_result(report)
    result = rejudge(comparison, atol=atol, rtol=rtol)
    if not quiet:
        emit(_verdict(result, comparison.scope) + _text(result, max_rows or len(result.pairs)))
    return 1 if result.reasons else UNDECIDED if result.undecided or result.open else 0


def _text(result: Rejudgement, limit: int) -> str:
    from padiff.comparer.judging.rejudge import Outcome  # noqa: PLC0415

    why = result.reasons or result.open
    lines = [f"  {printable(line)}" for line in why]
    shown = result.diverged
    for pair in shown[:limit]:
        ways = [("--atol", pair.needed_atol), ("--rtol", pair.needed_rtol)]
        words = " or ".join(f"{name} {value:.6g}" for name, value in ways if value is not None)
        lines.append(f"  {printable(pair.name)}  would pass with {words or 'no tolerance'}")
    if len(shown) > limit:
        lines.append(f"  ... {len(shown) - limit} more (--max-rows 0 lists all)")
    others = [pair for pair in result.pairs if pair.why]
    if others:
        lines.append(f"  {len(others)} records were not decided again:")
    for pair in others[:limit]:
        how = f"stays {pair.before}" if pair.outcome is Outcome.KEPT else "undecided"
        lines.append(f"    {printable(pair.name)}  {how}: {pair.why}")
    if len(others) > limit:
        lines.append(f"    ... {len(others) - limit} more (--max-rows 0 lists all)")
    return "".join(f"{line}\n" for line in lines)


def _verdict(result: Rejudgement, scope: Scope) -> str:
    from padiff.comparer.report.wording import verdict_line  # noqa: PLC0415 -- after the options
    from padiff.comparer.result import Verdict  # noqa: PLC0415

    if result.undecided and not result.reasons:
        return f"UNDECIDED: compare the dumps for {len(result.undecided)} of the records\n"
    is_open = not result.reasons and result.open
    verdict = Verdict.DIVERGED if result.reasons else Verdict.MATCH
    line = verdict_line(Verdict.INCONCLUSIVE if is_open else verdict, scope)
    return f"{printable(line)}\n"
