"""The weights, buffers and gradients that do not agree."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from padiff.comparer.judgedpairs import remarkable_pairs
from padiff.comparer.result import Comparison, JudgedPair, Kind, Verdict
from padiff.dumpfile import Role

from .equal_ranks import Repeated, fold_pairs
from .numbers import allowed, count, number, plural, share
from .style import DIM, Canvas, verdict_style, verdict_word
from .wording import BAD, step_of

if TYPE_CHECKING:
    from padiff.comparer.judgedpairs import Saying


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
            numbers.append(f"  {canvas.safe(_why(pair))}")
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
        name.append(f"\n{canvas.safe(_why(pair))}", style="dim")
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


def _why(pair: JudgedPair) -> str:
    """Explain why nothing was measured."""
    forms = " | ".join(f"{end.dtype} {list(end.shape)}" for end in pair.ends)
    return pair.reason or forms
