"""Pair weights, buffers and all that follows them, by the weight plan.

Gradients, the weight after the update, and what the optimizer keeps for it are paired as it is. One
author calls a block twice, another has two of it: tied, or each with a copy of the weights. Copies
are paired with the one that runs as often as all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, RecordInfo, Role
from padiff.dumpfile.bulk import build_all
from padiff.pairing.result import Absence, PairedBy, RecordPair, SideName, UnmatchedRecord
from padiff.pairing.rule import IDENTITY
from padiff.pairing.tensors.slots import is_counter, is_same_state, split_slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.calls.calls import CallPairs
    from padiff.pairing.view import View

    from .weight_plan import WeightPair, WeightPlan

Kind = tuple[Role, Phase, str]
"""Role, phase, and the name of an optimizer's tensor."""

_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})
_STATE, _GRADIENT, _UPDATE = Role.OPTIMIZER_STATE, Role.WEIGHT_GRAD, Phase.UPDATE
"""Looking up a member of an enumeration takes ten times as long as a name."""


Followers = dict[int, dict[Kind, int]]
"""Records of what follows each weight and buffer, by its record before the first call."""


def followers_of(view: View) -> Followers:
    """Find the followers on one side, in one pass over its records."""
    owners: dict[tuple[int, str], int] = {}
    for record in view.of_modules:
        if record.role in _OWNED and record.phase is not _UPDATE:
            owners[record.module, record.slot] = record.id
    found: dict[int, dict[Kind, int]] = {}
    for record in view.of_modules:
        kind, slot = _kind_of(record)
        owner = None if kind is None else owners.get((record.module, slot))
        if kind is not None and owner is not None:
            found.setdefault(owner, {})[kind] = record.id
    return found


def follow(
    reference: View,
    candidate: View,
    sides: tuple[Followers, Followers],
    pair: RecordPair,
) -> Iterator[RecordPair]:
    """Pair the followers of a pair of weights or buffers, by its rule."""
    sources = [sides[0].get(record, {}) for record in pair.reference]
    for kind, follower in sides[1].get(pair.candidate, {}).items():
        partners = [_partner(source, kind) for source in sources]
        known = tuple(partner for partner in partners if partner is not None)
        if len(known) != len(sources):
            continue
        ends = [(reference, *both) for both in zip(known, pair.reference, strict=True)]
        rule = pair.rule
        if not all(_is_laid_out(*end) for end in (*ends, (candidate, follower, pair.candidate))):
            sizes = {prod(reference.records[one].shape) for one in known}
            if len(known) != 1 or sizes != {prod(candidate.records[follower].shape)}:
                continue
            rule = IDENTITY  # one number for the whole weight
        yield RecordPair(
            reference=known,
            candidate=follower,
            paired_by=pair.paired_by,
            rule=rule,
            candidate_rule=pair.candidate_rule,
            note=pair.note,
        )


def one_sided(view: View, sides: Followers, paired: frozenset[int]) -> Iterator[UnmatchedRecord]:
    """Explain the followers without partner of weights that have one."""
    for owner, kinds in sides.items():
        for (role, _, name), record in kinds.items():
            reason = ""
            if record in paired:
                continue
            if role is Role.OPTIMIZER_STATE:
                reason = _unused_state(view, record, name, kinds)
            elif role is Role.BUFFER and view.records[record].value == view.records[owner].value:
                reason = "the step left it as it was, so the other side does not record it again"
            if reason:
                yield UnmatchedRecord(
                    side=view.name, record=record, absence=Absence.SKIPPED, reason=reason
                )


def _unused_state(view: View, record: int, name: str, kinds: Iterable[Kind]) -> str:
    """Explain why only one side may keep something for a weight; nothing if it should not."""
    if name == "momentum_buffer" and any(other == "square_avg" for _, _, other in kinds):
        return "of RMSprop, which the other framework keeps with the learning rate in it"
    if is_counter(name):
        return "kept by one framework only"
    if _is_count(view, record):
        return (
            "a count, which the other side keeps elsewhere: the update shows what follows from it"
        )
    return "all zero: the optimizer does not use it" if _is_zero(view, record) else ""


def _is_count(view: View, record: int) -> bool:
    """Return whether a record holds one whole number that is no truth."""
    value = view.records[record].value
    info = None if value is None else view.values[value]
    return info is not None and info.size == 1 and info.dtype.startswith(("int", "uint"))


def _kind_of(record: RecordInfo) -> tuple[Kind | None, str]:
    role = record.role
    if role is _STATE:
        slot, name = split_slot(record.slot)
        return (role, record.phase, name), slot
    if role is _GRADIENT or (role in _OWNED and record.phase is _UPDATE):
        return (role, record.phase, ""), record.slot
    return None, ""


def _partner(source: Mapping[Kind, int], kind: Kind) -> int | None:
    if kind in source:
        return source[kind]
    role, phase, name = kind
    if role is not Role.OPTIMIZER_STATE:
        # What one side has as a weight the other may have as a buffer.
        others = (source.get((other, phase, "")) for other in _OWNED if role in _OWNED)
        return next((other for other in others if other is not None), None)
    for (other, _, known), record in source.items():
        if other is role and is_same_state(name, known):
            return record
    return None


def _is_laid_out(view: View, follower: int, owner: int) -> bool:
    """Return whether a follower that is a tensor has the shape of what it follows."""
    found = view.records[follower]
    return found.value is None or found.shape == view.records[owner].shape


def _is_zero(view: View, record: int) -> bool:
    value = view.records[record].value
    return value is not None and view.values[value].statistics.zeros == view.values[value].size


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """The pairs of records that belong to modules, and what stayed alone."""

    pairs: tuple[RecordPair, ...]
    alone: tuple[UnmatchedRecord, ...]
    notes: tuple[str, ...]


def pair_owned(reference: View, candidate: View, plan: WeightPlan) -> Owned:
    """Pair all records that belong to modules, by the plan of their weights.

    What belongs to a weight (its gradient, what is left of it after the update, what the optimizer
    keeps for it) follows it, rule included.
    """
    sides = followers_of(reference), followers_of(candidate)
    pairs: list[RecordPair] = []
    for made in _pairs(plan.pairs):
        pairs.append(made)
        pairs += follow(reference, candidate, sides, made)
    alone: list[UnmatchedRecord] = []
    for one in plan.alone:
        followers = sides[one.side is SideName.CANDIDATE].get(one.record, {}).values()
        absence = Absence.MISSING if one.is_missing or one.is_unneeded else Absence.SKIPPED
        alone.extend(
            UnmatchedRecord(side=one.side, record=record, absence=absence, reason=one.reason)
            for record in (one.record, *followers)
        )
    known = frozenset(record for pair in pairs for record in pair.reference)
    alone += one_sided(reference, sides[0], known)
    alone += one_sided(candidate, sides[1], frozenset(pair.candidate for pair in pairs))
    return Owned(pairs=tuple(pairs), alone=tuple(alone), notes=plan.notes)


def _pairs(found: Sequence[WeightPair]) -> list[RecordPair]:
    """Make the pairs of a plan pairs of records."""
    return build_all(
        RecordPair,
        len(found),
        reference=[one.reference for one in found],
        candidate=[one.candidate for one in found],
        paired_by=[one.paired_by for one in found],
        rule=[one.rule for one in found],
        note=[
            ": ".join(filter(None, ("ambiguous", one.note))) if one.is_ambiguous else one.note
            for one in found
        ],
    )


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
            partner = _single_of(views, calls, side, record.module)
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


def _single_of(views: Views, calls: CallPairs, side: int, module: int) -> int | None:
    """Return the only module that all calls of a module are paired with, if others are as well."""
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
    """Return the pairs of weights by side, module and slot of either end."""
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
