"""Rank what a comparison says of a case."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from padiff.comparer.report.fault_words import evidence_of

from .case import CauseRank, OriginRank, VerdictRank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.comparer import Comparison, Divergence
    from padiff.dumpfile import Phase, Role

    from .case import Case, Expected

__all__ = ["Ranks", "rank"]

_ORIGINS, _CAUSES = [*OriginRank], [*CauseRank, None]
"""From the best to the worst."""
Ranks = tuple[VerdictRank, OriginRank | None, CauseRank | None, str]
"""Of the verdict, the first origin and its cause; and what was said."""


def rank(case: Case, found: Comparison) -> Ranks:
    """Rank the verdict; and where a fault was rightly seen, its origin and its cause."""
    expected = case.expected
    verdict = _verdict(expected, found)
    said = _said(found)
    is_asked = expected.origins or expected.words or expected.each
    if verdict is not VerdictRank.RIGHT or not is_asked or not found.reasons:
        return verdict, None, None, said
    if not found.origins:
        origin = OriginRank.WRONG if expected.origins else None
        return verdict, origin, CauseRank.NONE if expected.words else None, said
    if expected.each:
        return verdict, *_worst(expected, found.origins), said
    first = found.origins[0]
    origin = _origin(expected, first) if expected.origins else None
    if expected.place is not None and [expected.place] != list(map(_place, found.origins)):
        return verdict, origin, CauseRank.NONE, said
    return verdict, origin, _cause(expected, first, origin), said


def _worst(
    expected: Expected, origins: Sequence[Divergence]
) -> tuple[OriginRank, CauseRank | None]:
    """Return the ranks of the fault of which the origins say least."""
    told = []
    for one in expected.each:
        ranks = [(rank := _origin(one, each), _cause(one, each, rank)) for each in origins]
        told.append(min(ranks, key=lambda pair: (_CAUSES.index(pair[1]), _ORIGINS.index(pair[0]))))
    return (
        max((rank for rank, _ in told), key=_ORIGINS.index),
        max((cause for _, cause in told), key=_CAUSES.index),
    )


def _verdict(expected: Expected, found: Comparison) -> VerdictRank:
    verdict = str(found.verdict)
    if verdict in expected.verdicts:
        return VerdictRank.RIGHT
    notes = "\n".join((*found.notes, *(note for step in found.steps for note in step.notes)))
    if expected.note and verdict == "match" and re.search(expected.note, notes, re.IGNORECASE):
        return VerdictRank.RIGHT
    if verdict == "diverged":
        return VerdictRank.FALSE_ALARM
    return VerdictRank.FALSE_MATCH if verdict == "match" else VerdictRank.INCONCLUSIVE


def _named(origin: Divergence) -> list[str]:
    ends = origin.pair.reference, origin.pair.candidate
    return [end.address.module for end in ends if end is not None]


def _place(origin: Divergence) -> tuple[int, Phase, Role] | None:
    end = origin.pair.reference
    return None if end is None else (end.address.step, origin.phase, end.address.role)


def _origin(expected: Expected, first: Divergence) -> OriginRank:
    named = _named(first)
    if any(fnmatchcase(path, one) for path in named for one in expected.origins):
        return OriginRank.EXACT
    around = any(
        not path or one.startswith(f"{path}.") for path in named for one in expected.origins
    )
    among = any(fnmatchcase(path, one) for path in first.suspects for one in expected.origins)
    return OriginRank.CONTAINER if around or among else OriginRank.WRONG


def _cause(expected: Expected, first: Divergence, origin: OriginRank | None) -> CauseRank | None:
    if not expected.words:
        return None
    if origin is OriginRank.WRONG:
        return CauseRank.NONE
    if re.search(expected.words, "\n".join(evidence_of(first)), re.IGNORECASE):
        return CauseRank.RIGHT
    return CauseRank.VAGUE if first.faults else CauseRank.NONE


def _said(found: Comparison) -> str:
    if not found.origins:
        hidden = any(step.executed is not None and step.executed.is_hidden for step in found.steps)
        verdict = f"{found.verdict}, with a finding" if hidden else str(found.verdict)
        return "; ".join(map(str, found.reasons[:2])) or verdict
    first = found.origins[0]
    places = " = ".join(dict.fromkeys(path or "(root)" for path in _named(first)))
    evidence = "; ".join(evidence_of(first)[:2])
    return f"{first.phase} of {places}: {evidence or 'no evidence'}"
