"""Runs cases in both frameworks and judges them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.ops.judging import Judgement, judge
from padiff.ops.workers import request_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.ops.cases import Case
    from padiff.ops.table import Row
    from padiff.ops.workers import Outcome, Worker

_TRIES = 5
"""Cases of which one is to be timed: some are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both sides of a test."""

    reference: str
    candidate: str
    workers: Mapping[str, Worker]
    """By framework."""


def outcomes_of(row: Row, case: Case, workers: Mapping[str, Worker]) -> dict[str, Outcome]:
    """Execute a case in several frameworks at the same time."""
    for framework, worker in workers.items():
        worker.ask(request_of(case, row.frameworks[framework].call(case)))
    return {framework: worker.answer() for framework, worker in workers.items()}


def time_largest(row: Row, cases: Sequence[Case], pair: Pair, *, repeats: int) -> dict[str, float]:
    """Return the median seconds of a call by framework, of the largest case that both take.

    One framework runs after the other, so that they do not share processors.
    """
    for case in sorted(cases, key=lambda one: one.size, reverse=True)[:_TRIES]:
        found = {}
        for framework, worker in pair.workers.items():
            worker.ask(request_of(case, row.frameworks[framework].call(case), repeats=repeats))
            elapsed = worker.answer().elapsed_s
            if elapsed is not None:
                found[framework] = elapsed
        if len(found) == len(pair.workers):
            return found
    return {}


def run_case(row: Row, case: Case, pair: Pair) -> Judgement:
    """Execute a case in both frameworks and judge it."""
    outcomes = outcomes_of(row, case, pair.workers)
    return judge(row, case, outcomes, reference=pair.reference, candidate=pair.candidate)
