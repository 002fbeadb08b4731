"""Many steps and ranks on one self-contained page: a map of step by module."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from padiff.comparer.result import Kind, Verdict
from padiff.comparer.stored import origins_of
from padiff.dumpfile import Role

from .equal_ranks import fold_origins, fold_ranks
from .fault_words import evidence_of
from .html import head_of, render_page
from .wording import BAD, has_steps, measured, owners, runs, source_of, verdict_of, when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer.result import Comparison, JudgedPair, StepComparison
    from padiff.dumpfile import JSON, Phase


_SCRIPTS = ("basics.js", "overview.js")
_STYLES = ("page.css", "overview.css")
_CELLS = 60_000
"""Of the map, over all phases: a page of some 1.5 MB. Where there are more, the deepest modules
are taken together with the ones that hold them."""
_ORIGINS = 50
_STEPS = 500
"""Rows of the table of steps."""
_RANKED = (
    *("covered", Verdict.SKIPPED, Verdict.MATCH, Verdict.INCONCLUSIVE),
    *(Verdict.MISSING, Verdict.INCOMPARABLE, Verdict.DIVERGED),
)
"""The worst last."""
_LEVELS = 100
"""Of an error in a decade: two digits of it can be told."""
_NO_LEVEL, _TOP_LEVEL = -99_999, 99_999
"""Of what is bit-equal, and of what is infinite."""

_NO_LOSSES = (None, None)

_Names = tuple[str | None, str | None]
"""Path of a module on the reference and on the candidate."""


def to_overview(comparison: Comparison) -> str:
    """Return the page.

    Raises:
        ConfigError: Jinja2 is not installed.
    """
    origins = fold_origins(comparison) if comparison.origins else []
    summaries = map(_summary, comparison.steps)
    steps = fold_ranks(summaries, lambda one: replace(one, rank=0), lambda one: one.rank)
    return render_page(
        "overview.html.j2",
        scripts=_SCRIPTS,
        styles=_STYLES,
        data=_data(comparison),
        filters={
            "cause": lambda told: next(iter(evidence_of(told.first)), measured(told.first.pair)),
            "owners": lambda told: owners(told.first.pair),
            "runs": runs,
            "source": lambda told: str(source_of(told.first) or ""),
            "when": lambda told: when(told.first, told.ranks, has_steps=has_steps(comparison)),
        },
        **head_of(comparison),
        origins=origins[:_ORIGINS],
        origins_left=max(0, len(origins) - _ORIGINS),
        steps=steps[:_STEPS],
        steps_left=max(0, len(steps) - _STEPS),
        has_losses=any(told.first.losses != _NO_LOSSES for told in steps[:_STEPS]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Summary:
    """A row of the table of steps."""

    step: int
    rank: int
    origins: int
    diverged: int
    judged: int
    largest: float | None
    """Largest relative L2 of its records."""
    losses: tuple[float | None, float | None]


def _summary(step: StepComparison) -> _Summary:
    errors = [pair.metrics.relative_l2 for pair in step.pairs if pair.metrics is not None]
    judged = [pair for pair in step.pairs if pair.verdict is not Verdict.SKIPPED]
    return _Summary(
        step=step.step,
        rank=step.rank,
        origins=len(origins_of(step.divergences)),
        diverged=sum(pair.verdict in BAD and pair.fatal for pair in judged),
        judged=len(judged),
        largest=max((one for one in errors if one is not None), default=None),
        losses=_losses(step) or _NO_LOSSES,
    )


def _losses(step: StepComparison) -> tuple[float | None, float | None] | None:
    """Return the loss of both sides, where it was recorded."""
    for pair in step.pairs:
        if pair.end.address.role is Role.LOSS:
            ends = (pair.reference, pair.candidate)
            found = [None if end is None else end.statistics for end in ends]
            reference, candidate = (None if one is None else one.mean for one in found)
            return reference, candidate
    return None


@dataclass(slots=True)
class _Cell:
    """What is worst of a module in a step and a phase."""

    verdict: int = 0
    is_origin: bool = False
    ratio: int = _NO_LEVEL
    relative_l2: int = _NO_LEVEL


def _data(comparison: Comparison) -> dict[str, JSON]:
    """Return the tables: rows are modules, columns are steps and ranks."""
    steps = comparison.steps
    phases = tuple(dict.fromkeys(pair.end.address.phase for pair in comparison.pairs))
    rows = _Rows(steps, most=_CELLS // max(1, len(steps) * len(phases)))
    return {
        "severity": [str(one) for one in _RANKED],
        "phases": [str(phase) for phase in phases],
        "rows": rows.table,
        "folded": rows.folded,
        "columns": [[step.step, step.rank] for step in steps],
        "cells": [_column(step, rows, phases) for step in steps],
    }


def _column(step: StepComparison, rows: _Rows, phases: Sequence[Phase]) -> JSON:
    """Return the cells of a step: for each phase a flat list of row and what is in the cell."""
    cells: dict[tuple[Phase, int], _Cell] = {}
    for pair in step.pairs:
        place = rows.place_of(pair)
        if place is not None:
            _add(cells.setdefault((pair.end.address.phase, place), _Cell()), pair)
    for found in step.divergences:
        place = rows.place_of(found.pair)
        if found.kind is Kind.ORIGIN and place is not None:
            cells.setdefault((found.phase, place), _Cell()).is_origin = True
    return [
        [
            number
            for (one, place), cell in cells.items()
            if one is phase
            for number in (
                *(place, cell.verdict + len(_RANKED) * cell.is_origin),
                *(cell.ratio, cell.relative_l2),
            )
        ]
        for phase in phases
    ]


def _add(cell: _Cell, pair: JudgedPair) -> None:
    """Let a record count in its cell."""
    cell.verdict = max(cell.verdict, _RANKED.index(verdict_of(pair)))
    if pair.metrics is not None:
        cell.relative_l2 = max(cell.relative_l2, _level(pair.metrics.relative_l2))
        cell.ratio = max(cell.ratio, _level(_times_allowed(pair)))


def _times_allowed(pair: JudgedPair) -> float | None:
    """Return the error of a record as a multiple of what it may be; None where that is unknown."""
    if pair.metrics is None or pair.tolerance is None:
        return None
    needed = (
        (pair.metrics.needed_atol, pair.tolerance.atol),
        (
            pair.metrics.needed_rtol,
            pair.tolerance.rtol,
        ),
    )
    return next((one / of for one, of in needed if of > 0 and one is not None), None)


def _level(error: float | None) -> int:
    """Return an error in hundredths of decades."""
    if error is None or error == 0:
        return _NO_LEVEL
    if not math.isfinite(error):
        return _TOP_LEVEL
    return max(1 - _TOP_LEVEL, round(_LEVELS * math.log10(abs(error))))


class _Rows:
    """The modules of all steps, parents before children; not deeper than there is room for."""

    def __init__(self, steps: Sequence[StepComparison], *, most: int) -> None:
        """Collect the modules.

        Args:
            steps: Whose trees are put together.
            most: Modules that there is room for.
        """
        self._places: tuple[dict[str, int], dict[str, int]] = ({}, {})
        known: dict[_Names, tuple[int, _Names | None, str]] = {}
        for step in steps:
            for row in step.tree:
                names = row.reference, row.candidate
                parent = None if row.parent is None else step.tree[row.parent]
                above = None if parent is None else (parent.reference, parent.candidate)
                depth = 0 if above is None else known[above][0] + 1
                classes = dict.fromkeys(filter(None, (row.reference_class, row.candidate_class)))
                known.setdefault(names, (depth, above, " = ".join(classes)))
        deepest = _deepest([depth for depth, _, _ in known.values()], most)
        self.table: list[JSON] = []
        """Parent, both paths and the classes of each row."""
        at: dict[_Names, int] = {}
        for names, (depth, above, class_names) in known.items():
            if above is not None and depth > deepest:
                at[names] = at[above]
            else:
                at[names] = len(self.table)
                self.table.append([None if above is None else at[above], *names, class_names])
            for side, name in zip(self._places, names, strict=True):
                if name is not None:
                    side.setdefault(name, at[names])
        self.folded = len(known) - len(self.table)
        """Modules without a row of their own."""

    def place_of(self, pair: JudgedPair) -> int | None:
        """Return the row of a record's module, None where no tree has it."""
        for side, end in zip(self._places, (pair.reference, pair.candidate), strict=True):
            if end is not None and end.address.module in side:
                return side[end.address.module]
        return None


def _deepest(depths: Sequence[int], most: int) -> int:
    """Return down to which depth there are no more than ``most`` modules; 1 at least."""
    counts = Counter(depths)
    sums = accumulate(counts[depth] for depth in range(max(depths, default=0) + 1))
    return max(1, sum(number <= most for number in sums) - 1)
