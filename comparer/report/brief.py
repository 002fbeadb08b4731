"""A comparison in one line, and in as many as a shell shows at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from padiff.comparer.result import Comparison, Divergence, Verdict

from .equal_ranks import fold_origins, fold_reasons
from .fault_words import evidence_of
from .headline import folded, verdict_line
from .numbers import count, plural
from .origin_text import in_short
from .style import DIM
from .summary_text import draw_reasons, draw_sides
from .terminal import array_name, is_arrays
from .wording import owners, source_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .style import Canvas

__all__ = ["closing_line", "draw_brief", "place_line"]

_STYLES = {Verdict.MATCH: "bold green", Verdict.INCONCLUSIVE: "bold yellow"}
_ORIGINS = 4
"""Origins that are named in a glance, two lines each: with all else at most 20 lines."""


def closing_line(canvas: Canvas, comparison: Comparison) -> Text:
    """Return the verdict, the first origin and its cause as one line.

    Args:
        canvas: Where the line is to stand: it decides what has to be escaped.
        comparison: What was found.
    """
    told = fold_origins(comparison)
    line = verdict_line(comparison.verdict, comparison.scope)
    if comparison.verdict is Verdict.DIVERGED and told:
        others = len(told) - 1
        more = f" (and {plural(others, 'more origin')})" if others else ""
        where = place_line(canvas, comparison, told[0].first, told[0].ranks)
        line += f" at {where}{more}; {_cause(canvas, told[0].first)}"
    elif comparison.verdict is not Verdict.MATCH and comparison.reasons:
        line += f": {canvas.safe(fold_reasons(comparison.reasons)[0])}"
    return Text(line, style=_STYLES.get(comparison.verdict, "bold red"))


def draw_brief(canvas: Canvas, comparison: Comparison) -> None:
    """Draw the verdict, both sides, and the first origins: at most 20 lines where none is broken.

    Args:
        canvas: Where.
        comparison: What was found.
    """
    canvas.line(closing_line(canvas, comparison))
    draw_reasons(canvas, comparison)
    draw_sides(canvas, comparison)
    origins = fold_origins(comparison) if comparison.origins else []
    for position, told in enumerate(origins[:_ORIGINS], start=1):
        found = told.first
        source = source_of(found)
        site = "" if source is None else canvas.safe(f"  {source}")
        place = place_line(canvas, comparison, found, told.ranks)
        canvas.line(Text.assemble(f"  origin #{position}  ", (place, "bold"), site))
        said = in_short(canvas, found.pair) if position == 1 else _cause(canvas, found)
        canvas.line(f"    {said}")
    if len(origins) > _ORIGINS:
        canvas.line(f"  ... {count(len(origins) - _ORIGINS)} more origins", DIM)


def place_line(
    canvas: Canvas, comparison: Comparison, found: Divergence, ranks: Sequence[int] = ()
) -> str:
    """Return where something diverged: module, phase, and the step where there are several."""
    has_steps = len(comparison.steps) > 1
    if is_arrays(comparison):
        return canvas.safe(array_name(found.pair, has_steps=has_steps))
    words = [canvas.safe(owners(found.pair)), str(found.phase)]
    end = found.pair.reference or found.pair.candidate
    if end is not None and has_steps:
        words.append(f"step {end.address.step}")
        ranks = tuple(ranks) or (end.address.rank,)
        words += [folded(ranks)] if ranks != (0,) else []
    return ", ".join(words)


def _cause(canvas: Canvas, found: Divergence) -> str:
    """Return what speaks for an origin most, else what was measured."""
    said = evidence_of(found)
    return canvas.safe(said[0]) if said else in_short(canvas, found.pair)
