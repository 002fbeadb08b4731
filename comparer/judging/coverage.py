"""How much of what was recorded got a verdict, in distinct values."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    judged: tuple[set[int], set[int]] = (set(), set())
    missing: tuple[set[int], set[int]] = (set(), set())
    for pair, (references, found) in zip(judgement.pairs, judgement.records, strict=True):
        verdict = pair.verdict
        if verdict is not Verdict.SKIPPED:
            target = judged if verdict in JUDGED else missing
            target[0].update(references)
            if found is not None:
                target[1].add(found)
    return (
        _coverage(reference, judged[0], missing[0]),
        _coverage(candidate, judged[1], missing[1]),
    )


def _coverage(index: Index, judged: Iterable[int], missing: Iterable[int]) -> Coverage:
    """Count the values of records with and without a verdict."""
    known, rest = ({index.records[place].value for place in side} for side in (judged, missing))
    return Coverage(judged=len(known - {None}), total=len((known | rest) - {None}))
