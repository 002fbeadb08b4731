"""The report for a person at a terminal: what matters most comes first."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from rich.text import Text

from padiff.comparer.facts.callerrors import call_errors
from padiff.comparer.locating.flow import DRIFT
from padiff.comparer.overview import sayings
from padiff.comparer.result import Comparison, JudgedPair, Verdict
from padiff.dumpfile import Role
from padiff.dumpfile.bulk import collector_paused

from .executed_text import draw_executed
from .numbers import allowed, number, plural, share
from .origin_text import draw_measured, draw_origins
from .parameter_text import draw_parameters
from .style import Canvas, verdict_style, verdict_word
from .summary_text import draw_header, draw_reasons, draw_settings, draw_summary
from .tree_text import draw_trees
from .wording import owners, what

if TYPE_CHECKING:
    from rich.console import Console

    from padiff.comparer.facts.callerrors import CallError
    from padiff.comparer.result import StepComparison
    from padiff.dumpfile import Manifest

__all__ = ["array_name", "is_arrays", "render"]


@collector_paused()
def render(
    comparison: Comparison,
    console: Console,
    *,
    max_rows: int = 40,
    verbose: bool = False,
    explain_pairing: bool = False,
) -> None:
    """Draw a comparison.

    Order: the verdict and why; the first origin with all its evidence, further ones in a line
    each; what executing both programs says, if that was asked; both module trees as one; the
    weights and gradients that differ; counts, coverage, what
    was not compared, and notes. Every text that came out of a dump is escaped.

    Args:
        comparison: What was found.
        console: Where to draw. An encoding other than UTF makes the drawing plain ASCII; its
            width decides where lines wrap. It should have markup, highlighting and emoji off.
        max_rows: Rows of each table, 0 for all.
        verbose: Fold nothing, draw every step's tree, list every diverged and skipped pair.
        explain_pairing: Also say for each module and tensor how its partner was found.
    """
    canvas = Canvas(console=console, max_rows=max_rows, verbose=verbose)
    if is_arrays(comparison):
        _draw_arrays(canvas, comparison)
        return
    said = sayings(comparison.steps)
    draw_header(canvas, comparison)
    draw_origins(canvas, comparison)
    draw_executed(canvas, comparison)
    draw_trees(canvas, comparison)
    draw_parameters(canvas, comparison, said)
    if verbose:
        _draw_diverged(canvas, comparison)
        _draw_growth(canvas, comparison)
    if explain_pairing:
        _draw_pairing(canvas, comparison)
    draw_summary(canvas, comparison, said)


def _draw_diverged(canvas: Canvas, comparison: Comparison) -> None:
    """List every diverged tensor in execution order."""
    rows = [
        [
            canvas.safe(owners(pair)),
            canvas.safe(what(pair.end)),
            verdict_word(pair.verdict),
            "" if pair.kind is None else str(pair.kind),
            "-" if pair.metrics is None else number(pair.metrics.max_abs),
            "-" if pair.metrics is None else number(pair.metrics.relative_l2),
        ]
        for step in comparison.steps
        for pair in step.pairs
        if pair.verdict in (Verdict.DIVERGED, Verdict.INCOMPARABLE)
    ]
    if rows:
        canvas.heading("ALL DIVERGED TENSORS", "in execution order")
        canvas.table(
            ["module", "what", "verdict", "kind", "max abs", "rel L2"],
            [list(row) for row in rows],
            wrapping=("module", "what"),
        )


def _draw_growth(canvas: Canvas, comparison: Comparison) -> None:
    """List how much the error grew in each call, within tolerance too."""
    for step in comparison.steps:
        rows: list[list[str | Text]] = [
            [
                canvas.safe(f"{error.module or '(root)'}" + (f"#{error.call}" * bool(error.call))),
                str(error.phase),
                "-" if error.entering is None else number(error.entering),
                number(error.leaving),
                _growth(error),
            ]
            for error in call_errors(step)
        ]
        if rows:
            canvas.heading("GROWTH OF THE ERROR", "relative L2, call by call; a fault is a step")
            canvas.table(["call", "phase", "in", "out", "times"], rows, wrapping=("call",))


def _growth(error: CallError) -> str:
    """Give a growth, loudly where it is a step."""
    if error.amplification is None:
        return "-"
    if math.isinf(error.amplification):
        return "from equal inputs" if not error.entering else "inf"
    times = f"{error.amplification:.3g}"
    return f"{times}  <--- a step" if error.amplification > DRIFT else times


def _draw_pairing(canvas: Canvas, comparison: Comparison) -> None:
    """Say how partners were found."""
    for step in comparison.steps:
        _draw_modules(canvas, step)
        _draw_calls(canvas, step)
        canvas.heading("PAIRING OF TENSORS", "those not paired by name, or with a layout")
        canvas.table(
            ["tensor", "what", "by", "layout"],
            [
                [
                    canvas.safe(owners(pair)),
                    canvas.safe(what(pair.end)),
                    str(pair.paired_by),
                    canvas.safe(pair.layout) or "identity",
                ]
                for pair in step.pairs
                if pair.paired_by is not None and (pair.paired_by != "name" or pair.layout)
            ],
            wrapping=("tensor", "what", "layout"),
        )


def _draw_modules(canvas: Canvas, step: StepComparison) -> None:
    """Say which module was compared with which, why, how sure that is, and what else it may be."""
    known = {pair.reference: pair for pair in step.pairing}
    rows: list[list[str | Text]] = []
    doubtful = 0
    for row in step.tree:
        pair = None if row.reference is None else known.get(row.reference)
        names = [
            "-" if path is None else canvas.safe(path or "(root)")
            for path in (row.reference, row.candidate)
        ]
        if pair is None or row.candidate is None:
            rows.append([" ~ ".join(names), "unmatched", "", ""])
            continue
        doubtful += pair.confidence < 1
        others = ", ".join(canvas.safe(path or "(root)") for path in pair.alternatives)
        shown = f"{pair.confidence:.2f}"
        rows.append([" ~ ".join(names), str(pair.paired_by), shown, others or "-"])
    canvas.heading(
        "PAIRING OF MODULES",
        f"step {step.step} rank {step.rank}: {len(step.pairing)} pairs, {doubtful} with a "
        "confidence below 1",
    )
    canvas.table(
        ["reference ~ candidate", "by", "confidence", "alternatives"],
        rows,
        wrapping=("reference ~ candidate", "alternatives"),
    )


def _draw_calls(canvas: Canvas, step: StepComparison) -> None:
    """List the pairs of calls that are not certain."""
    rows: list[list[str | Text]] = [
        [
            canvas.safe(f"{pair.reference} ~ {pair.candidate}"),
            str(pair.paired_by),
            f"{pair.confidence:.2f}",
            canvas.safe(", ".join(map(str, pair.alternatives))) or "-",
        ]
        for pair in step.calls
        if pair.confidence < 1
    ]
    if rows:
        canvas.heading("PAIRING OF CALLS", f"{len(rows)} of {len(step.calls)} are not certain")
        canvas.table(
            ["reference ~ candidate", "by", "confidence", "alternatives"],
            rows,
            wrapping=("reference ~ candidate", "alternatives"),
        )


_ARRAYS = "numpy"
"""What stands for the framework of arrays that were saved without a model."""
_FIRST = re.compile(r"^\['([^']*)'\]")


def is_arrays(comparison: Comparison) -> bool:
    """Return whether nothing but arrays was compared."""
    return comparison.reference.framework == comparison.candidate.framework == _ARRAYS


def array_name(pair: JudgedPair, *, has_steps: bool = False) -> str:
    """Return the name of an array, with the number of its batch where there are several."""
    address = pair.end.address
    name = _FIRST.sub(r"\1", address.slot) or "(the array)"
    return f"{name}  batch {address.step}" if has_steps else name


def _draw_arrays(canvas: Canvas, comparison: Comparison) -> None:
    """Draw the verdict, the first divergence, a table of the arrays, and what was compared."""
    pairs = [
        pair
        for step in comparison.steps
        for pair in step.pairs
        if pair.end.address.role is Role.NAMED
    ]
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
