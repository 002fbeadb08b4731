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
    verdicts = {place: pair.verdict for place, pair in remarkable(judgement.pairs)}
    places: dict[bool, list[tuple[tuple[int, ...], int | None]]] = {True: [], False: []}
    for place, records in enumerate(judgement.records):
        verdict = verdicts.get(place, Verdict.MATCH)
        if verdict is not Verdict.SKIPPED:
            places[verdict in JUDGED].append(records)
    judged, missing = (
        (
            {one for references, _ in places[is_judged] for one in references},
            {found for _, found in places[is_judged] if found is not None},
        )
        for is_judged in (True, False)
    )
    return (
        _coverage(reference, judged[0], missing[0]),
        _coverage(candidate, judged[1], missing[1]),
    )


def _coverage(index: Index, judged: Iterable[int], missing: Iterable[int]) -> Coverage:
    """Count the values of records with and without a verdict."""
    known, rest = ({index.records[place].value for place in side} for side in (judged, missing))
    return Coverage(judged=len(known - {None}), total=len((known | rest) - {None}))
