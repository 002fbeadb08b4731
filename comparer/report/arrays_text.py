"""The report on arrays without a model: by their names, no module tree and no phases."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text

from padiff.comparer.result import Comparison, JudgedPair, Verdict
from padiff.dumpfile import Role

from .numbers import allowed, number, plural, share
from .origin_text import draw_measured
from .style import Canvas, verdict_style, verdict_word
from .summary_text import draw_reasons, draw_settings

if TYPE_CHECKING:
    from padiff.dumpfile import Manifest

__all__ = ["array_name", "draw_arrays", "is_arrays"]

FRAMEWORK = "numpy"
"""What stands for the framework of arrays that were saved without a model."""
_FIRST = re.compile(r"^\['([^']*)'\]")


def is_arrays(comparison: Comparison) -> bool:
    """Tell whether nothing but arrays was compared."""
    return comparison.reference.framework == comparison.candidate.framework == FRAMEWORK


def array_name(pair: JudgedPair, *, has_steps: bool = False) -> str:
    """Give the name of an array, with the number of its batch where there are several."""
    end = pair.reference or pair.candidate
    if end is None:
        return ""
    name = _FIRST.sub(r"\1", end.address.slot) or "(the array)"
    return f"{name}  batch {end.address.step}" if has_steps else name


def draw_arrays(canvas: Canvas, comparison: Comparison) -> None:
    """Draw the verdict, the first divergence, a table of the arrays, and what was compared."""
    pairs = [pair for step in comparison.steps for pair in step.pairs if _is_array(pair)]
    bad = [pair for pair in pairs if pair.verdict is not Verdict.MATCH]
    if comparison.verdict is Verdict.MATCH:
        canvas.line("MATCH: the arrays agree", "bold green")
    elif bad:
        canvas.line(f"DIVERGED: {len(bad)} of {plural(len(pairs), 'array')}", "bold red")
    else:
        said = f"no difference in {plural(len(pairs), 'array')}, but not all is on both sides"
        canvas.line(f"DIVERGED: {said}", "bold red")
    draw_reasons(canvas, comparison)
    sides = ("reference", comparison.reference), ("candidate", comparison.candidate)
    canvas.facts([(label, canvas.safe(_manifest(side))) for label, side in sides])
    has_steps = len(comparison.steps) > 1
    if bad:
        canvas.heading("FIRST DIVERGENCE", canvas.safe(array_name(bad[0], has_steps=has_steps)))
        by_mean = comparison.settings.get("mode") == "mean"
        draw_measured(canvas, bad[0], _evidence(comparison, bad[0]), by_mean=by_mean)
    _draw_table(canvas, bad or pairs, has_steps=has_steps, is_all=not bad)
    draw_settings(canvas, comparison)


def _is_array(pair: JudgedPair) -> bool:
    end = pair.reference or pair.candidate
    return end is not None and end.address.role is Role.NAMED


def _manifest(manifest: Manifest) -> str:
    return f"{manifest.name}  read {manifest.created[:10]}"


def _evidence(comparison: Comparison, pair: JudgedPair) -> tuple[str, ...]:
    """Give what was found about the array."""
    ends = pair.reference, pair.candidate
    for found in comparison.divergences:
        if (found.pair.reference, found.pair.candidate) == ends:
            return found.evidence
    return ()


def _draw_table(canvas: Canvas, pairs: list[JudgedPair], *, has_steps: bool, is_all: bool) -> None:
    rows: list[list[str | Text]] = []
    for pair in pairs:
        metrics = pair.metrics
        verdict = Text(verdict_word(pair.verdict), style=verdict_style(pair.verdict))
        rows.append(
            [
                canvas.safe(array_name(pair, has_steps=has_steps)),
                verdict,
                *(
                    [_why(canvas, pair), "", ""]
                    if metrics is None
                    else [
                        number(metrics.max_abs),
                        allowed(pair.tolerance, short=True),
                        share(metrics.mismatched, metrics.size),
                    ]
                ),
            ]
        )
    canvas.heading("ARRAYS", "" if is_all else "those that do not match")
    header = ["name", "verdict", "max abs", "allowed", "mismatched"]
    canvas.table(header, rows, wrapping=("name", "max abs"))


def _why(canvas: Canvas, pair: JudgedPair) -> str:
    """Say why nothing was measured."""
    if pair.equal_digest:
        return "equal"
    if pair.reference is None or pair.candidate is None:
        return f"only in the {'candidate' if pair.reference is None else 'reference'}"
    return canvas.safe(pair.reason)
