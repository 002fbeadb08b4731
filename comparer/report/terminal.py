"""The report for a person at a terminal: what matters most comes first."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from padiff.comparer.judgedpairs import remarkable_pairs, sayings
from padiff.comparer.locating.flow import DRIFT, call_errors
from padiff.comparer.result import Comparison, Divergence, JudgedPair, Kind, Verdict
from padiff.dumpfile import Role
from padiff.dumpfile.bulk import collector_paused

from .equal_ranks import Repeated, fold_origins, fold_pairs, fold_reasons
from .executed_text import draw_executed
from .fault_words import evidence_of
from .numbers import allowed, count, number, plural, share
from .origin_text import draw_measured, draw_origins, in_short
from .style import DIM, Canvas, verdict_style, verdict_word
from .summary_text import draw_header, draw_reasons, draw_settings, draw_sides, draw_summary
from .tree_text import draw_trees
from .wording import BAD, folded, owners, source_of, step_of, verdict_line, what

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from padiff.comparer.judgedpairs import Saying
    from padiff.comparer.locating.flow import CallError
    from padiff.comparer.result import StepComparison
    from padiff.dumpfile import Manifest


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
        for pair in comparison.pairs
        if pair.verdict in (Verdict.DIVERGED, Verdict.INCOMPARABLE)
    ]
    if rows:
        canvas.heading("ALL DIVERGED TENSORS", "in execution order")
        canvas.table(
            ["module", "what", "verdict", "kind", "max abs", "rel L2"],
            rows,
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
    """Return a growth, loudly where it is a step."""
    if error.amplification is None:
        return "-"
    if math.isinf(error.amplification):
        return "from equal inputs" if not error.entering else "inf"
    times = f"{error.amplification:.3g}"
    return f"{times}  <--- a step" if error.amplification > DRIFT else times


def _draw_pairing(canvas: Canvas, comparison: Comparison) -> None:
    """Report how partners were found."""
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
    """List which module was compared with which, why, how surely, and what else it may be."""
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
    pairs = [pair for pair in comparison.pairs if pair.end.address.role is Role.NAMED]
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
    """Return what was found about the array."""
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
    """Explain why nothing was measured."""
    if pair.equal_digest:
        return "equal"
    if pair.reference is None or pair.candidate is None:
        return f"only in the {'candidate' if pair.reference is None else 'reference'}"
    return canvas.safe(pair.reason)


_STYLES = {Verdict.MATCH: "bold green", Verdict.INCONCLUSIVE: "bold yellow"}
_ORIGINS = 4
"""Origins that are named in a glance, two lines each: with all else at most 20 lines."""


def closing_line(canvas: Canvas, comparison: Comparison) -> Text:
    """Return the verdict, the first origin and its cause as one line."""
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
    """Draw the verdict, both sides, and the first origins: at most 20 lines if none is broken."""
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


_ROLES = (Role.WEIGHT, Role.BUFFER, Role.WEIGHT_GRAD)
_NUMBERS_WIDTH = 72
"""Columns that all but the name may take."""
_WIDE = 100
_FEW = 5
"""Parameters that are listed unless ``verbose``, as long as the others are inherited."""


def draw_parameters(canvas: Canvas, comparison: Comparison, said: Counter[Saying]) -> None:
    """Draw the table of diverged parameters; one line of counts where there is none."""
    summary = _summary(said)
    if not summary:
        return
    bad = list(
        remarkable_pairs(comparison.steps, lambda said: said.verdict in BAD and said.role in _ROLES)
    )
    canvas.heading("WEIGHTS AND GRADIENTS", summary)
    if not bad:
        return
    rows_, left = _worst_first(bad, canvas)
    has_steps = len(comparison.steps) > 1
    longest = max(len(canvas.safe(_name(told, has_steps=has_steps))) for told in rows_)
    header = ["parameter", "role", "verdict", "max abs", "allowed", "mismatched"]
    if longest + _NUMBERS_WIDTH <= canvas.width:
        rows = [_row(canvas, told, has_steps=has_steps) for told in rows_]
        canvas.table(header, rows, wrapping=("parameter",))
    else:
        _draw_stacked(canvas, rows_, has_steps=has_steps)
    if left:
        canvas.line(f"  ... {left} more, all inherited (--verbose lists all)", DIM)


def _worst_first(bad: list[JudgedPair], canvas: Canvas) -> tuple[list[Repeated[JudgedPair]], int]:
    """Return those that are no consequence, then the ones that are farthest off; and what is left.

    What follows from an origin elsewhere tells little: a few show how far it reaches.
    """
    if canvas.verbose:
        return [Repeated(pair, ()) for pair in bad], 0
    told = fold_pairs(bad)
    own = [one for one in told if one.first.kind is not Kind.INHERITED]
    rest = [one for one in told if one.first.kind is Kind.INHERITED]
    rest.sort(key=lambda one: _distance(one.first), reverse=True)
    shown = [*own, *rest[: max(0, _FEW - len(own))]]
    return shown, len(bad) - sum(len(one.ranks) for one in shown)


def _distance(pair: JudgedPair) -> float:
    """Return how far a pair is off, relative to its size; without numbers it is far."""
    found = None if pair.metrics is None else pair.metrics.relative_l2
    return math.inf if found is None or math.isnan(found) else found


def _draw_stacked(canvas: Canvas, bad: list[Repeated[JudgedPair]], *, has_steps: bool) -> None:
    """Give each parameter a line for its long name and one for its numbers."""
    limit = canvas.max_rows or len(bad)
    for told in bad[:limit]:
        pair = told.first
        _, role, verdict, largest, limits, mismatched = _row(canvas, told, has_steps=has_steps)
        name = canvas.safe(_name(told, has_steps=has_steps))
        canvas.line("  " + canvas.broken(name).replace("\n", "\n    "))
        numbers = Text(f"      {role} ")
        numbers.append_text(verdict if isinstance(verdict, Text) else Text(verdict))
        if pair.metrics is None:
            numbers.append(f"  {canvas.safe(_unmeasured(pair))}")
        else:
            numbers.append(f"  max abs {largest}, allowed {limits}")
        if pair.metrics is not None and canvas.width >= _WIDE:
            numbers.append(f", mismatched {mismatched}")
        canvas.line(numbers)
    canvas.left(len(bad) - limit)


def _summary(said: Counter[Saying]) -> str:
    """Count by role what agrees and what does not; empty where nothing belongs to a module."""
    parts: list[str] = []
    for role in _ROLES:
        by_verdict: Counter[Verdict] = Counter()
        for saying, number_ in said.items():
            by_verdict[saying.verdict] += number_ if saying.role is role else 0
        total = by_verdict.total()
        if not total:
            continue
        bad = sum(by_verdict[verdict] for verdict in BAD)
        noun = {Role.WEIGHT: "weight", Role.BUFFER: "buffer"}.get(role, "gradient")
        differ = f"{count(bad)} of {count(total)} {noun}s differ"
        parts.append(differ if bad else _agree(total, by_verdict[Verdict.SKIPPED], noun))
    return "; ".join(parts)


def _agree(total: int, skipped: int, noun: str) -> str:
    """Report that nothing of this kind differs."""
    if total == skipped:
        return f"{plural(skipped, noun)} skipped"
    rest = f", {count(skipped)} skipped" if skipped else ""
    return f"{plural(total - skipped, noun)} match{rest}"


def _name(told: Repeated[JudgedPair], *, has_steps: bool) -> str:
    """Return the full parameter name, both where they differ, and the step where there are some."""
    pair = told.first
    names = [None if end is None else end.address.name for end in (pair.reference, pair.candidate)]
    text = f"{names[0]} = {names[1]}" if names[0] != names[1] else f"{names[0]}"
    if names[0] is None:
        text = f"{names[1]} (candidate only)"
    elif names[1] is None:
        text = f"{names[0]} (reference only)"
    return f"{text}  {step_of(pair, told.ranks)}" if has_steps else text


def _row(canvas: Canvas, told: Repeated[JudgedPair], *, has_steps: bool) -> list[str | Text]:
    """Return one parameter."""
    pair = told.first
    inherited = pair.kind is Kind.INHERITED
    verdict = Text(
        verdict_word(pair.verdict, inherited=inherited),
        style=verdict_style(pair.verdict, inherited=inherited),
    )
    name = Text(canvas.safe(_name(told, has_steps=has_steps)))
    role = str(pair.end.address.role)
    if pair.metrics is None:
        name.append(f"\n{canvas.safe(_unmeasured(pair))}", style="dim")
        return [name, role, verdict, "-", "-", "-"]
    metrics = pair.metrics
    return [
        name,
        role,
        verdict,
        number(metrics.max_abs),
        allowed(pair.tolerance, short=True),
        share(metrics.mismatched, metrics.size),
    ]


def _unmeasured(pair: JudgedPair) -> str:
    """Explain why nothing was measured."""
    forms = " | ".join(f"{end.dtype} {list(end.shape)}" for end in pair.ends)
    return pair.reason or forms
