"""``padiff compare-logs``: where do the numbers of two training logs first diverge?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.comparer import Tolerance
from padiff.comparer.logs import SeriesComparison, compare_series, read_series
from padiff.dumpfile import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["compare_logs"]

LOSS = r"loss\s*[:=]\s*(?P<loss>[-+.\deE]+|nan|-?inf)"


@click.command("compare-logs")
@click.argument("reference", type=click.Path(path_type=Path))
@click.argument("candidate", type=click.Path(path_type=Path))
@click.option(
    "--pattern",
    metavar="REGEX",
    default=LOSS,
    help="Named groups are the series.  [default: the number after 'loss:' or 'loss=']",
)
@click.option("--atol", type=float, default=0.0, show_default=True, help="Absolute tolerance.")
@click.option("--rtol", type=float, default=1e-4, show_default=True, help="Relative tolerance.")
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw both curves into a .png or .svg; needs matplotlib.",
)
def compare_logs(
    reference: Path, candidate: Path, pattern: str, atol: float, rtol: float, plot: Path | None
) -> int:
    """Compare the numbers that a pattern finds in two training logs, in order.

    Exit code 0 if they match, 1 if they diverge, 2 if they could not be compared.
    """
    found = compare_series(
        read_series(reference, pattern),
        read_series(candidate, pattern),
        Tolerance(atol=atol, rtol=rtol),
    )
    is_match = all(series.is_match for series in found)
    click.echo("MATCH" if is_match else "DIVERGED")
    for series in found:
        click.echo(_line(series))
    if plot is not None:
        _draw(plot, found)
    return 0 if is_match else 1


def _line(series: SeriesComparison) -> str:
    sizes = len(series.reference), len(series.candidate)
    if series.first is not None:
        known, wrong = series.reference[series.first], series.candidate[series.first]
        said = f"first divergence at number {series.first}: {known:.9g} against {wrong:.9g}"
    elif sizes[0] != sizes[1]:
        said = f"{sizes[0]} numbers against {sizes[1]}, equal as far as they go"
    else:
        said = "match"
    return f"  {series.name}: {said}  ({min(sizes)} compared, max abs {series.max_abs:.4g})"


def _draw(path: Path, found: Sequence[SeriesComparison]) -> None:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            f"cannot draw {str(path)!r}: matplotlib is not installed",
            hint="pip install padiff[plot]",
        ) from error
    figure = Figure(figsize=(8, 3 * len(found)), layout="constrained")
    for place, series in enumerate(found):
        axes = figure.add_subplot(len(found), 1, place + 1)
        axes.plot(series.reference, label="reference")
        axes.plot(series.candidate, label="candidate", linestyle="--")
        axes.set_title(series.name)
        axes.set_xlabel("number in the log")
        axes.legend()
    figure.savefig(path)
