"""Records that follow a weight or buffer and are paired as it is.

Gradients, the weight after the update, and what the optimizer keeps for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from padiff.dumpfile import Phase, RecordInfo, Role
from padiff.pairing.result import Absence, RecordPair, UnmatchedRecord
from padiff.pairing.rule import IDENTITY
from padiff.pairing.weights.optimizer_state import is_counter, is_same_state, split_slot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.pairing.view import View

__all__ = ["Followers", "follow", "followers_of", "one_sided"]

Kind = tuple[Role, Phase, str]
"""Role, phase, and the name of an optimizer's tensor."""

_OWNED = frozenset({Role.WEIGHT, Role.BUFFER})
_STATE, _GRADIENT, _UPDATE = Role.OPTIMIZER_STATE, Role.WEIGHT_GRAD, Phase.UPDATE
"""Looking up a member of an enumeration takes ten times as long as a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followers:
    """The followers of each weight and buffer of one side."""

    of: Mapping[int, Mapping[Kind, int]]
    """Record ids, by the id of the weight's record before the first call."""

    def get(self, record: int) -> Mapping[Kind, int]:
        """Give the followers of one record."""
        return self.of.get(record, {})


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
    return Followers(of=found)


def follow(
    reference: View,
    candidate: View,
    sides: tuple[Followers, Followers],
    pair: RecordPair,
) -> Iterator[RecordPair]:
    """Pair the followers of a pair of weights or buffers, by its rule."""
    sources = [sides[0].get(record) for record in pair.reference]
    for kind, follower in sides[1].get(pair.candidate).items():
        partners = [_partner(source, kind) for source in sources]
        known = tuple(partner for partner in partners if partner is not None)
        if len(known) != len(sources):
            continue
        rule = pair.rule
        if not _has_layout(reference, candidate, pair, (known, follower)):
            if len(known) != 1 or not _has_equal_size(reference, candidate, (known, follower)):
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
    for owner, kinds in sides.of.items():
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
    """Say why only one side may keep something for a weight; nothing if it should not."""
    if name == "momentum_buffer" and any(other == "square_avg" for _, _, other in kinds):
        return "of RMSprop, which the other framework keeps with the learning rate in it"
    if is_counter(name):
        return "kept by one framework only"
    return "all zero: the optimizer does not use it" if _is_zero(view, record) else ""


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


def _has_layout(
    reference: View, candidate: View, pair: RecordPair, made: tuple[Sequence[int], int]
) -> bool:
    """Tell whether the followers that are tensors have the shapes of what they follow."""
    return _is_laid_out(candidate, made[1], pair.candidate) and all(
        _is_laid_out(reference, follower, owner)
        for follower, owner in zip(made[0], pair.reference, strict=True)
    )


def _is_laid_out(view: View, follower: int, owner: int) -> bool:
    found = view.records[follower]
    return found.value is None or found.shape == view.records[owner].shape


def _has_equal_size(reference: View, candidate: View, made: tuple[Sequence[int], int]) -> bool:
    one, two = reference.records[made[0][0]], candidate.records[made[1]]
    return prod(one.shape) == prod(two.shape)


def _is_zero(view: View, record: int) -> bool:
    value = view.records[record].value
    return value is not None and view.values[value].statistics.zeros == view.values[value].size
