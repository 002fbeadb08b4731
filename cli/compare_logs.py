"""``padiff compare-logs``: where do the numbers of two training logs first diverge?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from padiff.comparer.report.escape import printable
from padiff.dumpfile import ConfigError
from padiff.dumpfile.wholefile import whole_file

from .command import both_sides, command
from .output import check_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from padiff.comparer.logs import Series, SeriesComparison


LOSS = r"(?i:loss)[\"']?(?:\s*[:=]|\s)\s*(?P<loss>[-+]?(?:[.\d]+(?:[eE][-+]?\d+)?|(?:nan|inf)\b))"
"""``loss: 2.3``, ``loss=2.3``, ``loss 2.3``, and as a key of a dict, as trainers print it."""
DRAWABLE = (".png", ".svg")


@command(
    "compare-logs",
    examples="""
    padiff compare-logs torch.log paddle.log --rtol 0.01 --plot losses.png
    padiff compare-logs a.log b.log --pattern 'step (?P<step>\\d+) loss (?P<loss>\\S+)'
    """,
)
@both_sides
@click.option(
    "--pattern",
    "patterns",
    metavar="REGEX",
    multiple=True,
    help="Named groups are the series; a group 'step' aligns them by its number; may repeat.  "
    "[default: the number after 'loss', with ':', '=' or a space between]",
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
    reference: Path,
    candidate: Path,
    *,
    patterns: tuple[str, ...],
    atol: float,
    rtol: float,
    plot: Path | None,
) -> int:
    """Compare the numbers that patterns find in two training logs, in order or step by step.

    Exit code 0 if they match, 1 if they diverge, 2 if they could not be compared.
    """
    from padiff.comparer import Tolerance  # noqa: PLC0415 -- after the options
    from padiff.comparer.logs import compare_series, read_series  # noqa: PLC0415

    if plot is not None and plot.suffix.lower() not in DRAWABLE:
        raise ConfigError(f"cannot draw {str(plot)!r}: expected a .png or .svg file")
    if plot is not None:
        check_place(plot, option="--plot")
    chosen = patterns or (LOSS,)
    found = compare_series(
        read_series(reference, chosen),
        read_series(candidate, chosen),
        Tolerance(atol=atol, rtol=rtol),
    )
    is_match = all(series.is_match for series in found)
    click.echo("MATCH" if is_match else "DIVERGED")
    for series in found:
        click.echo(f"  {printable(series.name)}: {_said(series)}")
        for line in _remarks(series):
            click.echo(f"    {line}")
    if plot is not None:
        _draw(plot, found)
    return 0 if is_match else 1


def _said(series: SeriesComparison) -> str:
    unit = "step" if series.reference.has_steps else "number"
    counts = f"({len(series.places)} compared, max abs {series.max_abs:.4g})"
    if series.first is not None:
        known, wrong = series.at(series.first)
        said = f"first divergence at {unit} {series.first}: {known:.9g} against {wrong:.9g}"
    elif any(series.missed):
        sizes = len(series.reference.values), len(series.candidate.values)
        said = f"{sizes[0]} {unit}s against {sizes[1]}, equal as far as both go"
    elif series.places.size:
        said = "match"
    else:
        said = "no number in either log"
    return f"{said}  {counts}"


def _remarks(series: SeriesComparison) -> Iterator[str]:
    """Describe what was left out."""
    unit = "step" if series.reference.has_steps else "number"
    sides = ("reference", series.reference), ("candidate", series.candidate)
    counts = zip(sides, series.alone, series.missed, strict=True)
    for (name, side), alone, missed in counts:
        if alone:
            often = "" if missed else ", which prints more often"
            yield f"{alone} {unit}{'s' if alone > 1 else ''} only in the {name}{often}"
        if side.repeated:
            yield f"{name}: {side.repeated} came again (resumed?), the last line of each counts"
        if side.unread:
            yield f"{name}: {side.unread} captured texts are no numbers and were left out"


def _draw(path: Path, found: Sequence[SeriesComparison]) -> None:
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            f"cannot draw {str(path)!r}: matplotlib is not installed",
            hint="pip install 'padiff-align[plot]'",
        ) from error
    figure = Figure(figsize=(8, 3 * len(found)), layout="constrained")
    for row, series in enumerate(found):
        axes = figure.add_subplot(len(found), 1, row + 1)
        for label, side, style in (
            ("reference", series.reference, "-"),
            ("candidate", series.candidate, "--"),
        ):
            mark = "o" if _is_short(side) else None
            axes.plot(side.places, side.values, style, label=label, marker=mark, gid=label)
        if series.first is not None:
            axes.axvline(series.first, color="red", linestyle=":", label="first divergence")
        axes.set_title(series.name)
        axes.set_xlabel("step" if series.reference.has_steps else "number in the log")
        axes.legend()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as partial:
            figure.savefig(partial, format=path.suffix.lower().removeprefix("."))
    except OSError as error:
        raise ConfigError(f"cannot draw {str(path)!r}: {error.strerror}") from error


def _is_short(series: Series) -> bool:
    """Return whether a line alone could be too short to be seen."""
    return len(series.values) == 1
