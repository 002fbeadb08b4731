"""Kinks in a report that is judged again: what they excused stays so, the rest is known or open.

How much an element over a kink explains (``kinks``) does not depend on a tolerance; whether it was
looked for does: for gradients that diverged in a step whose forward phase agreed. Those that were
excused are excused again where the forward phase still agrees, those that were not are not; of all
others that diverge there, only the dumps can tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.comparer.result import Evidence
from padiff.dumpfile import Phase

from .basis import GRADIENT_ROLES
from .kinks import KINKS
from .storedpair import as_list, as_mapping, as_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumpfile import JSON

    from .storedpair import StoredPair
    from .tolerance import ToleranceRule

__all__ = ["broken_places", "weigh_kinks"]

DIVERGED = "diverged"
Place = tuple[int, int]
"""Step and rank."""


def broken_places(report: Mapping[str, JSON], judged: frozenset[Evidence]) -> frozenset[Place]:
    """Give the steps in whose forward phase something is wrong that no tolerance mends.

    Args:
        report: All of it.
        judged: Evidence that tolerances decide about.

    Raises:
        ConfigError: It is no report.
    """
    alone = as_mapping(report.get("unmatched", {}))
    ends = [as_mapping(end) for side in alone.values() for end in as_list(side)]
    found = [end for end in ends if end.get("fatal")]
    for one in as_list(report.get("pairs", [])):
        row = as_mapping(one)
        if row.get("fatal") and row.get("rests_on") not in judged:
            found.append(as_mapping(row.get("reference")))
    return frozenset(
        (int(as_number(end.get("step", 0))), int(as_number(end.get("rank", 0))))
        for end in found
        if end.get("phase") == Phase.FORWARD
    )


def weigh_kinks(
    rows: Sequence[StoredPair],
    agree: Sequence[bool | None],
    *,
    broken: frozenset[Place],
    rules: Sequence[ToleranceRule],
) -> dict[int, bool | None]:
    """Tell which gradients that diverge by their own tolerance kinks excuse.

    Only for tolerances at which they count, in the report and now: no rtol was given.

    Args:
        rows: The pairs that tolerances decide about.
        agree: Whether each agrees by its own tolerance, the new one; None if that is open.
        broken: Steps and ranks in which kinks excuse nothing.
        rules: The user's, which hold as they are.

    Returns:
        By place among the rows, what is not simply diverged: True where it is excused, None
        where only the dumps can tell.
    """
    places = [(row.reference.step, row.reference.rank) for row in rows]
    forward = [row.reference.phase is Phase.FORWARD for row in rows]
    each = list(zip(rows, agree, places, forward, strict=True))
    before = {place for row, _, place, is_early in each if is_early and row.verdict == DIVERGED}
    after = {place for _, agrees, place, is_early in each if is_early and agrees is False}
    unclear = {place for _, agrees, place, is_early in each if is_early and agrees is None}
    found: dict[int, bool | None] = {}
    for number, (row, agrees, place, _) in enumerate(each):
        if agrees is not False or place in broken | after or not _may_be_excused(row, rules):
            continue
        if row.verdict == DIVERGED and place not in before:
            continue  # they were looked for, and explain too little
        is_known = row.reason.startswith(KINKS) and place not in unclear
        found[number] = True if is_known else None
    return found


def _may_be_excused(row: StoredPair, rules: Sequence[ToleranceRule]) -> bool:
    """Tell whether it is a gradient that was judged by its elements and no rule of the user's."""
    return (
        row.reference.role in GRADIENT_ROLES
        and row.rests_on == Evidence.ELEMENTS
        and row.errors is None
        and not row.nonfinite
        and not any(rule.applies_to(row.reference, row.candidate) for rule in rules)
    )
