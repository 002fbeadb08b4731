"""How much of what was recorded got a verdict, in distinct values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from padiff.comparer.judgedpairs import remarkable
from padiff.comparer.result import Coverage, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    lacking = Verdict.MISSING
    missing = [judgement.records[at] for at, pair in told if pair.verdict is lacking]
    judged = [both for place, both in enumerate(judgement.records) if place not in unjudged]
    return (
        _coverage(
            reference, *([one for known, _ in side for one in known] for side in (judged, missing))
        ),
        _coverage(
            candidate, *([one for _, one in side if one is not None] for side in (judged, missing))
        ),
    )


def _coverage(index: Index, judged: Sequence[int], missing: Sequence[int]) -> Coverage:
    """Count the values of records with and without a verdict."""
    values = np.array([-1 if one.value is None else one.value for one in index.records], np.int64)
    is_judged = np.zeros(len(index.values) + 1, np.bool_)  # the last one of records without value
    is_judged[values[np.array(judged, np.int64)]] = True
    is_any = is_judged.copy()
    is_any[values[np.array(missing, np.int64)]] = True
    return Coverage(
        judged=int(np.count_nonzero(is_judged[:-1])), total=int(np.count_nonzero(is_any[:-1]))
    )
