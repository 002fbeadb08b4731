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
        target = judged if pair.verdict in JUDGED else missing
        if pair.verdict is Verdict.SKIPPED:
            continue
        target[0].update(_values(reference, references))
        target[1].update(_values(candidate, () if found is None else (found,)))
    return (
        Coverage(judged=len(judged[0]), total=len(judged[0] | missing[0])),
        Coverage(judged=len(judged[1]), total=len(judged[1] | missing[1])),
    )


def _values(index: Index, records: Iterable[int]) -> set[int]:
    values = (index.records[place].value for place in records)
    return {value for value in values if value is not None}
