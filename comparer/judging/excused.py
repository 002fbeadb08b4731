"""Excuses in a report that is judged again: those that were given stay, others are not known.

Whether an element over a kink (``kinks``) or rounding that grew step by step (``locating.drift``)
explains a record does not depend on a tolerance; whether it was asked does: for records that
diverged, and of the backward phase only where the forward phase agreed. Those that were excused are
excused again, those that were not are not; of all others that diverge now, only the dumps can tell.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from padiff.comparer.decided import ROUNDING
from padiff.comparer.result import Evidence
from padiff.dumpfile import Phase, Role

from .basis import GRADIENT_ROLES
from .dtypebounds import epsilon_of
from .kinks import KINKS
from .storedpair import as_list, as_mapping, as_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.dumpfile import JSON

    from .storedpair import StoredPair
    from .tolerance import ToleranceRule

__all__ = ["DRIFT", "DRIFTING", "broken_places", "weigh_excuses"]

DIVERGED = "diverged"
DRIFT = "rounding that grew step by step"
"""How the reason of what has drifted begins."""
DRIFTING = {
    Phase.FORWARD: frozenset({Role.INPUT, Role.OUTPUT, Role.LOSS}),
    Phase.BACKWARD: GRADIENT_ROLES,
}
"""What may drift; weights and buffers are copied."""
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


def weigh_excuses(
    rows: Sequence[StoredPair],
    agree: Sequence[bool | None],
    *,
    broken: frozenset[Place],
    rules: Sequence[ToleranceRule],
    is_measured: bool,
) -> dict[int, bool | None]:
    """Tell which records that diverge by their own tolerance are excused.

    Only for tolerances at which anything is, in the report and now: no rtol was given.

    Args:
        rows: The pairs that tolerances decide about.
        agree: Whether each agrees by its own tolerance, the new one; None if that is open.
        broken: Steps and ranks in which the backward phase is not looked at.
        rules: The user's, which hold as they are.
        is_measured: Whether there is a noise floor or a golden run, so that nothing drifts.

    Returns:
        By place among the rows, what is not simply diverged: True where it is excused, None
        where only the dumps can tell.
    """
    found: dict[int, bool | None] = {}
    was_bad, is_bad, is_open = set(broken), set(broken), set[Place]()
    for number in sorted(range(len(rows)), key=lambda one: not _is_forward(rows[one])):
        row, agrees, place = rows[number], agree[number], _place(rows[number])
        if agrees is False and row.reason == ROUNDING:
            found[number] = True
            continue
        if agrees is False and _may_be_excused(row, rules, is_measured=is_measured):
            if _is_forward(row):
                found[number] = _excuse(row, was_asked=True)
            elif place not in is_bad:
                excuse = _excuse(row, was_asked=place not in was_bad)
                found[number] = None if excuse and place in is_open else excuse
        if _is_forward(row):
            outcome = found.get(number, agrees)
            was_bad |= {place} if row.verdict == DIVERGED else set()
            is_bad |= {place} if outcome is False else set()
            is_open |= {place} if outcome is None else set()
    return {number: excuse for number, excuse in found.items() if excuse is not False}


def _excuse(row: StoredPair, *, was_asked: bool) -> bool | None:
    """Tell whether the report excuses a record; None if it did not ask."""
    if row.reason.startswith((KINKS, DRIFT)):
        return True
    return False if was_asked and row.verdict == DIVERGED else None


def _place(row: StoredPair) -> Place:
    return row.reference.step, row.reference.rank


def _is_forward(row: StoredPair) -> bool:
    return row.reference.phase is Phase.FORWARD


def _may_be_excused(row: StoredPair, rules: Sequence[ToleranceRule], *, is_measured: bool) -> bool:
    """Tell whether it was judged by its elements and no rule of the user's, and may be excused."""
    if row.rests_on != Evidence.ELEMENTS or row.errors is not None or row.nonfinite:
        return False
    if any(rule.applies_to(row.reference, row.candidate) for rule in rules):
        return False
    if row.reference.role in GRADIENT_ROLES:
        return True
    epsilon = 0.0 if row.basis is None else max(map(epsilon_of, row.basis.dtypes))
    is_fine = 0 < epsilon <= epsilon_of("float32") and not is_measured
    is_loss = row.reference.role is Role.LOSS
    is_small = is_loss or (row.relative_l2 or 0.0) <= math.sqrt(epsilon / 2)
    return is_fine and is_small and row.reference.role in DRIFTING[Phase.FORWARD]
