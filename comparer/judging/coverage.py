"""How much of what was recorded got a verdict, in distinct values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import remarkable
from padiff.comparer.result import Coverage, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.dumpfile import Index

    from .judge import Judgement

__all__ = ["count_coverage"]

JUDGED = frozenset({Verdict.MATCH, Verdict.DIVERGED, Verdict.INCOMPARABLE})


def count_coverage(
    judgement: Judgement, reference: Index, candidate: Index
) -> tuple[Coverage, Coverage]:
    """Count the distinct values with a verdict, of the reference and of the candidate.

    A value recorded at several addresses is judged if one of them is. Values that appear only in
    skipped records (known to be one-sided, excluded, allowed to be missing) are left out.
    """
    told = list(remarkable(judgement.pairs))
    unjudged = {place for place, pair in told if pair.verdict not in JUDGED}
    judged = [both for place, both in enumerate(judgement.records) if place not in unjudged]
    missing = [judgement.records[at] for at, pair in told if pair.verdict is Verdict.MISSING]
    return (
        _coverage(
            reference, *([one for known, _ in side for one in known] for side in (judged, missing))
        ),
        _coverage(
            candidate, *([one for _, one in side if one is not None] for side in (judged, missing))
        ),
    )


def _coverage(index: Index, judged: Iterable[int], missing: Iterable[int]) -> Coverage:
    """Count the values of records with and without a verdict."""
    known, rest = ({index.records[place].value for place in side} for side in (judged, missing))
    return Coverage(judged=len(known - {None}), total=len((known | rest) - {None}))
