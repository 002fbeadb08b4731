"""Several instances with equal weights against one that runs as often.

One author calls a block twice, another has two of it: tied, or each with a copy of the weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, RecordInfo, Role
from padiff.pairing.result import Absence, PairedBy, RecordPair, SideName, UnmatchedRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from padiff.pairing.calls.calls import CallPairs
    from padiff.pairing.view import View

    from .owned import Owned

__all__ = ["with_copies"]

Views = tuple["View", "View"]
_COPY = "one of several that the other side has as one"
_SUM = "the other side has one weight for several: what follows it adds up"


def with_copies(views: Views, calls: CallPairs, owned: Owned) -> Owned:
    """Pair the weights of copies with those of the instance whose calls theirs are paired with.

    A copy that holds the same as the first one needs no second pair.
    What follows weights (gradients, updates) is one thing for each copy and their sum for the
    single instance, and is skipped.
    """
    copies: dict[tuple[int, int], int] = {}
    """Partner of each module without paired weights, by side and module."""
    for one in owned.alone:
        side = int(one.side is SideName.CANDIDATE)
        record = views[side].records[one.record]
        if one.absence is Absence.MISSING and _is_weight(record):
            partner = _partner(views, calls, side, record.module)
            if partner is not None:
                copies[side, record.module] = partner
    if not copies:
        return owned
    singles = {(1 - side, partner) for (side, _), partner in copies.items()}
    pairs, alone = _without_followers(views, owned, singles)
    table = _by_slot(views, pairs)
    kept: list[UnmatchedRecord] = []
    for one in alone:
        side = int(one.side is SideName.CANDIDATE)
        record = views[side].records[one.record]
        partner = copies.get((side, record.module))
        known = None if partner is None else table.get((1 - side, partner, record.slot))
        if known is None:
            kept.append(one)
        elif not _is_weight(record):
            kept.append(replace(one, absence=Absence.SKIPPED, reason=_SUM))
        else:
            twin = views[side].records[known.candidate if side else known.reference[0]]
            if record.value == twin.value:
                path = views[side].modules[twin.module].path
                reason = f"holds what {path!r} holds, which is paired"
                kept.append(replace(one, absence=Absence.SKIPPED, reason=reason))
            elif side and twin.shape == record.shape:
                by = PairedBy.STRUCTURE
                pairs.append(replace(known, candidate=record.id, paired_by=by, note=_COPY))
            else:
                kept.append(one)
    return replace(owned, pairs=tuple(pairs), alone=tuple(kept))


def _is_weight(record: RecordInfo) -> bool:
    return record.role is Role.WEIGHT and record.phase is Phase.FORWARD


def _partner(views: Views, calls: CallPairs, side: int, module: int) -> int | None:
    """Give the only module that all calls of a module are paired with, if others are as well."""
    partners = calls.back if side else calls.ahead
    ran = [partners.get(call) for call in views[side].executed[module]]
    owners = {None if call is None else views[1 - side].calls[call].module for call in ran}
    partner = next(iter(owners), None)
    if len(owners) != 1 or partner is None:
        return None
    back = calls.ahead if side else calls.back
    others = {
        views[side].calls[back[call]].module
        for call in views[1 - side].executed[partner]
        if call in back
    }
    return partner if len(others) > 1 else None


def _by_slot(views: Views, pairs: list[RecordPair]) -> Mapping[tuple[int, int, str], RecordPair]:
    """Give the pairs of weights by side, module and slot of either end."""
    found: dict[tuple[int, int, str], RecordPair] = {}
    for pair in pairs:
        theirs = views[1].records[pair.candidate]
        if len(pair.reference) == 1 and _is_weight(theirs):
            mine = views[0].records[pair.reference[0]]
            found.setdefault((0, mine.module, mine.slot), pair)
            found.setdefault((1, theirs.module, theirs.slot), pair)
    return found


def _without_followers(
    views: Views, owned: Owned, singles: set[tuple[int, int]]
) -> tuple[list[RecordPair], list[UnmatchedRecord]]:
    """Take out what follows the weights of single instances."""
    pairs: list[RecordPair] = []
    alone = list(owned.alone)
    for pair in owned.pairs:
        ends = [(0, record) for record in pair.reference] + [(1, pair.candidate)]
        records = [(side, views[side].records[record]) for side, record in ends]
        is_follower = not any(_is_weight(record) for _, record in records)
        is_single = any((side, record.module) in singles for side, record in records)
        if is_follower and is_single and records[-1][1].role is not Role.BUFFER:
            alone += [
                UnmatchedRecord(
                    side=views[side].name,
                    record=record.id,
                    absence=Absence.SKIPPED,
                    reason=_SUM,
                )
                for side, record in records
            ]
        else:
            pairs.append(pair)
    return pairs, alone
