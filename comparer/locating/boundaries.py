"""Ignore outputs of containers that differ if what the code around them gives agrees.

Containers that hold other things are paired by name: one author's may scale what it gives, another
author's the code around it. A fault changes what comes of it, another boundary does not.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import replaced
from padiff.comparer.result import Verdict
from padiff.dumpfile import Role

if TYPE_CHECKING:
    from collections.abc import Set

    from padiff.comparer.judging.judge import Judgement
    from padiff.comparer.result import JudgedPair
    from padiff.dumpfile import Index
    from padiff.pairing import Pairing

__all__ = ["excuse_boundaries"]

REASON = "another boundary between modules: what {path} gives agrees"
JUDGED = frozenset({Verdict.MATCH, Verdict.DIVERGED, Verdict.INCOMPARABLE})


def excuse_boundaries(judgement: Judgement, pairing: Pairing, reference: Index) -> Judgement:
    """Skip provisional pairs that diverged inside a call whose outputs agree.

    Args:
        judgement: All verdicts.
        pairing: What they are about.
        reference: The reference's index.
    """
    provisional = {
        place: pair.reference[0]
        for place, pair in enumerate(pairing.records)
        if pair.is_provisional and judgement.pairs[place].verdict is Verdict.DIVERGED
    }
    if not provisional:
        return judgement
    told = _verdicts(judgement, reference, provisional.keys())
    skipped: dict[int, JudgedPair] = {}
    for place, known in provisional.items():
        call = reference.records[known].call
        around = None if call is None else _judged_around(reference, call, told)
        if around is not None and told[around] == {Verdict.MATCH}:
            path = reference.modules[reference.calls[around].module].path or "(root)"
            skipped[place] = replace(
                judgement.pairs[place],
                verdict=Verdict.SKIPPED,
                fatal=False,
                reason=REASON.format(path=path),
            )
    return replace(judgement, pairs=replaced(judgement.pairs, skipped))


def _verdicts(
    judgement: Judgement, reference: Index, left_out: Set[int]
) -> dict[int, set[Verdict]]:
    """Give the verdicts on what each call of the reference gives, wherever they were made."""
    of_values: dict[int | None, set[Verdict]] = defaultdict(set)
    for place, (known, other) in enumerate(judgement.records):
        verdict = judgement.pairs[place].verdict
        if other is not None and place not in left_out and verdict in JUDGED:
            for one in known:
                of_values[reference.records[one].value].add(verdict)
    found: dict[int, set[Verdict]] = defaultdict(set)
    for record in reference.records:
        if record.role is Role.OUTPUT and record.call is not None:
            found[record.call] |= of_values.get(record.value, set())
    return found


def _judged_around(reference: Index, call: int, told: dict[int, set[Verdict]]) -> int | None:
    """Find the innermost call around a call of whose outputs any was judged."""
    around = reference.calls[call].parent
    while around is not None and not told.get(around):
        around = reference.calls[around].parent
    return around
