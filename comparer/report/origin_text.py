"""The first origin in full, the others in a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from padiff.comparer.result import (
    Comparison,
    Divergence,
    Endpoint,
    Entering,
    JudgedPair,
    Kind,
    Metrics,
    Verdict,
)
from padiff.dumpfile import Phase

from .equal_ranks import fold_origins
from .fault_words import evidence_of, shown
from .numbers import allowed, at_least, count, index, number, plural, share
from .style import DIM, HERE, Canvas, verdict_word
from .wording import folded, owners, step_of, what

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Statistics

    from .equal_ranks import Repeated


Facts = list[tuple[str, str | Text]]

_FURTHER = 4
"""Further origins that are described without ``verbose``."""

_STATISTICS = ("mean", "min", "max", "L2")
_MARGIN = 16
"""Columns left of a fact."""


def draw_origins(canvas: Canvas, comparison: Comparison) -> None:
    """Draw the first origin, what else was found, and how much merely follows from it."""
    told = fold_origins(comparison)
    if not told:
        return
    first, ranks = told[0].first, told[0].ranks
    title = "FIRST ORIGIN" if first.kind is Kind.ORIGIN else "FIRST DIVERGENCE"
    canvas.heading(title, _when(first, ranks, comparison))
    canvas.facts(_first(canvas, first, by_mean=comparison.settings.get("mode") == "mean"))
    if len(told) > 1:
        _further(canvas, told[1:], comparison)


def draw_measured(
    canvas: Canvas, pair: JudgedPair, evidence: Sequence[str], *, by_mean: bool
) -> None:
    """Draw what is known of one pair of tensors, but not where they come from."""
    canvas.facts(
        [*_evidence_rows(canvas, pair, evidence), *_measured(canvas, pair, by_mean=by_mean)]
    )


def _further(
    canvas: Canvas, origins: Sequence[Repeated[Divergence]], comparison: Comparison
) -> None:
    """Give each further origin its place and what tells most, on two or three lines."""
    canvas.heading("FURTHER ORIGINS", "what goes into them agrees too")
    limit = len(origins) if canvas.verbose else _FURTHER
    for position, told in enumerate(origins[:limit], start=2):
        found = told.first
        label = f"#{position} {found.phase}"
        name = canvas.broken(canvas.safe(owners(found.pair)), margin=_MARGIN)
        where = f"  {step_of(found.pair, told.ranks)}" if len(comparison.steps) > 1 else ""
        rows: Facts = [(label, Text.assemble((name, "bold"), where))]
        rows.append(("", in_short(canvas, found.pair)))
        for line in evidence_of(found)[:1]:
            rows.append(("", Text(canvas.safe(line), style=DIM)))
        canvas.facts(rows)
    if len(origins) > limit:
        canvas.line(f"  ... {len(origins) - limit} more (--verbose lists all)", DIM)


def in_short(canvas: Canvas, pair: JudgedPair) -> str:
    """Return what was measured on one line."""
    shown = canvas.safe(what(pair.end))
    if pair.metrics is None:
        return f"{shown}  {verdict_word(pair.verdict)}  {canvas.safe(pair.reason)}".rstrip()
    limit = allowed(pair.tolerance, short=True)
    return f"{shown}  max abs {number(pair.metrics.max_abs)}  allowed {limit}"


def _when(found: Divergence, ranks: Sequence[int], comparison: Comparison) -> str:
    """Describe in which phase and step, on which ranks, and whose numbers follow."""
    words: list[str] = [str(found.phase)]
    if len(comparison.steps) > 1:
        address = found.pair.end.address
        words.append(f"step {address.step}, {folded(ranks)}")
        words += [f"shown as on rank {address.rank}"] if len(ranks) > 1 else []
    if found.kind is Kind.INHERITED:
        words.append("inherited: its origin is not in this report")
    return ", ".join(words)


def _first(canvas: Canvas, found: Divergence, *, by_mean: bool) -> Facts:
    """List all that is known of one divergence."""
    pair = found.pair
    rows: Facts = [
        ("reference", _side(canvas, pair.reference)),
        ("candidate", _side(canvas, pair.candidate)),
    ]
    if found.suspects:
        names = ", ".join(canvas.safe(path or "(root)") for path in found.suspects)
        rows.append(("one of", Text(f"{names} (the evidence cannot tell them apart)")))
    rows.append(("inputs" if found.phase is not Phase.BACKWARD else "gradients in", _inputs(found)))
    rows += _evidence_rows(canvas, pair, evidence_of(found))
    return rows + _measured(canvas, pair, by_mean=by_mean)


def _evidence_rows(canvas: Canvas, pair: JudgedPair, evidence: Sequence[str]) -> Facts:
    """Return the evidence, and why nothing was measured."""
    rows: Facts = [
        ("evidence" if not position else "", Text(canvas.safe(line), style="bold"))
        for position, line in enumerate(evidence)
    ]
    if pair.reason:
        rows.append(("reason", canvas.safe(pair.reason)))
    return rows


def _measured(canvas: Canvas, pair: JudgedPair, *, by_mean: bool) -> Facts:
    rows = _tensors(canvas, pair)
    if pair.metrics is not None:
        rows += _metrics(pair, pair.metrics, by_mean=by_mean)
    return rows


def _side(canvas: Canvas, end: Endpoint | None) -> Text:
    """Return where a record is in its own model and source."""
    if end is None:
        return Text("nothing here", style="yellow")
    address = end.address
    text = Text(canvas.safe(address.module or "(root)"), style=HERE)
    text.append(f"  {canvas.safe(address.class_name)}", style="bold")
    if address.call:
        text.append(f"  call {address.call}", style="not bold default")
    text.append(f"  {address.role}{canvas.safe(address.slot)}", style="not bold default")
    where = []
    if end.call_site is not None:
        function = f" in {end.call_site.function}" if end.call_site.function else ""
        where.append(f"called at {shown(str(end.call_site))}{function}")
    if end.module_source is not None:
        where.append(f"class at {shown(str(end.module_source))}")
    if where:
        line = canvas.safe("   ".join(where))
        if len(line) > canvas.width - _MARGIN:
            line = "\n".join(map(canvas.safe, where))
        text.append(f"\n{line}", style="not bold default")
    return text


def _inputs(found: Divergence) -> Text:
    """Return whether what went in agrees."""
    if found.faults:
        return Text("the same in both programs: the fault is here", style="green")
    if found.inputs_agree is None:
        return Text("none recorded", style="yellow")
    if found.inputs_agree:
        if found.entering is Entering.ARGUMENT:
            return Text("all tensors agree, another argument does not", style="yellow")
        return Text("all agree: the fault is here", style="green")
    if found.entering is Entering.CUT:
        return Text("end here on one side: the fault is here", style="green")
    return Text("DISAGREE: the fault may lie before", style="yellow")


def _tensors(canvas: Canvas, pair: JudgedPair) -> Facts:
    """Compare form and statistics."""
    reference, candidate = pair.reference, pair.candidate
    rows: Facts = []
    forms = [_form(end) for end in (reference, candidate) if end is not None]
    rows.append(("tensor", " | ".join(dict.fromkeys(forms))))
    if pair.layout:
        rows.append(("layout", f"candidate = reference, {canvas.safe(pair.layout)}"))
    if pair.candidate_layout:
        rows.append(("", f"of the candidate: {canvas.safe(pair.candidate_layout)}"))
    if reference is not None and candidate is not None:
        rows += _values(canvas, reference.statistics, candidate.statistics)
    return rows


def _form(end: Endpoint) -> str:
    """Return dtype and shape."""
    return f"{end.dtype} ({', '.join(map(str, end.shape))}{',' if len(end.shape) == 1 else ''})"


def _values(canvas: Canvas, reference: Statistics | None, candidate: Statistics | None) -> Facts:
    """Return what the two tensors hold, on a line each, number below number."""
    if reference is None or candidate is None:
        return []
    cells = [
        [number(value) for value in (side.mean, side.minimum, side.maximum, side.l2)]
        for side in (reference, candidate)
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    rows = [
        [
            name,
            *(
                f"{label} {cell:<{width}}"
                for label, cell, width in zip(_STATISTICS, row, widths, strict=True)
            ),
        ]
        for name, row in zip(("reference", "candidate"), cells, strict=True)
    ]
    between = "  " if len("  ".join(rows[0])) <= canvas.width - _MARGIN else " "
    lines = [between.join(row).rstrip() for row in rows]
    return [("values", "\n".join(lines))]


def _metrics(pair: JudgedPair, metrics: Metrics, *, by_mean: bool) -> Facts:
    """Return what was measured, what was judged first and beside what was allowed."""
    largest = Text(number(metrics.max_abs), style="" if by_mean else HERE)
    largest.append(f" {index(metrics.max_abs_index)}".rstrip(), style="not bold default")
    mean = Text(number(metrics.mean_abs), style=HERE if by_mean else "")
    judged = mean if by_mean else largest
    limit = allowed(pair.tolerance).replace("|ref|", "mean |ref|" if by_mean else "|ref|")
    judged.append(f"   allowed {limit}", style="bold default")
    rows: Facts = [
        ("max abs", largest),
        ("max rel", f"{number(metrics.max_rel)} {index(metrics.max_rel_index)}".rstrip()),
        ("mean abs", mean),
        (
            "overall",
            f"relative L2 {number(metrics.relative_l2)}   cosine {_cosine(metrics.cosine)}",
        ),
        (
            "mismatched",
            (
                f"{count(metrics.mismatched)} of {count(metrics.size)} {_elements(pair)} "
                f"({share(metrics.mismatched, metrics.size)})"
            ),
        ),
    ]
    if metrics.nan_reference or metrics.nan_candidate or _infinite(metrics):
        rows.append(
            (
                "non-finite",
                (
                    f"reference {count(metrics.nan_reference)} nan, {count(metrics.inf_reference)} "
                    f"inf; candidate {count(metrics.nan_candidate)} nan, "
                    f"{count(metrics.inf_candidate)} inf; "
                    f"{plural(metrics.nonfinite_mismatched, 'position')} disagree"
                ),
            )
        )
    if pair.tolerance is not None and pair.verdict is Verdict.DIVERGED and metrics.mismatched:
        rows.append(("would pass", _would_pass(metrics)))
    return rows


def _elements(pair: JudgedPair) -> str:
    """Describe of which elements a share is."""
    whole = pair.sampled_of
    return "elements" if whole is None else f"sampled elements of {count(whole)}"


def _infinite(metrics: Metrics) -> bool:
    """Return whether there is an infinity anywhere."""
    return bool(metrics.inf_reference or metrics.inf_candidate)


def _cosine(value: float | None) -> str:
    """Return a cosine, by its distance from 1 where it is close to it."""
    if value is not None and 0.9995 < value < 1:  # noqa: PLR2004 -- four digits would show 1
        return f"1 - {1 - value:.3g}"
    return number(value)


def _would_pass(metrics: Metrics) -> str:
    """Return the tolerances that would have been enough."""
    ways = [
        f"{option} {at_least(value)}"
        for option, value in (("--atol", metrics.needed_atol), ("--rtol", metrics.needed_rtol))
        if value is not None
    ]
    return f"with {' or '.join(ways)}" if ways else "at no tolerance"
