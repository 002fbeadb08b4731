"""Which units that have something in common are partners: by place, words, at last by order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from padiff.pairing.names import kind_words
from padiff.pairing.result import PairedBy

from .inventory import UnitPair
from .recurrent import cells_in
from .told_words import told_by_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .inventory import Unit

__all__ = ["LIKELY", "MAX_OTHERS", "resolve"]

LIKELY = 0.6
"""Confidence of what sizes alone make partners."""
_TOLD, _ORDERED, _GUESS = 0.9, 0.7, 0.3
MAX_OTHERS = 8
"""So many other units are named for a guess."""
_PRODUCTS = ("linear", "conv1d", "conv2d", "conv3d")
_ALIKE = (
    _PRODUCTS,
    ("embedding", "embedding_bag"),
    ("layer_norm", "group_norm", "instance_norm", "rms_norm"),
    ("lstm", "gru", "rnn", "cell_runner", "cell_runner2"),
    *((f"conv{n}d", f"conv_transpose{n}d") for n in (1, 2, 3)),
)
"""Kinds that can stand in for each other, or that names and shapes alone do not tell apart."""
_Job = tuple[str | None, int]
"""Kind of a layer, and how many cells it runs."""


def resolve(
    ours: Sequence[Unit],
    theirs: Sequence[Unit],
    paired_by: PairedBy,
    *,
    is_strict: bool,
    is_last: bool,
) -> list[UnitPair]:
    """Pair within a bucket: alone on both sides, then by place and words, at last by order.

    Args:
        ours: Units of the reference.
        theirs: Those of the candidate with which they have something in common.
        paired_by: What that is.
        is_strict: Whether it tells that they are of one kind.
        is_last: Whether to pair what nothing tells apart, too.
    """
    if not is_strict:
        ours = _with_partners(ours, theirs)
        theirs = _with_partners(theirs, ours)
        if not ours or not theirs:
            return []
    if _is_one(ours) and _is_one(theirs):
        sure = 1.0 if paired_by is not PairedBy.STRUCTURE else _TOLD if is_strict else LIKELY
        return [_pair(ours[0], theirs[0], paired_by, sure)]
    pairs: list[UnitPair] = []
    groups = _levels(ours, theirs)
    is_same = groups[0].keys() == groups[1].keys()
    for one, two in zip(sorted(groups[0]), sorted(groups[1]), strict=True):
        sure = _TOLD if is_same else _ORDERED
        pairs += _by_words(groups[0][one], groups[1][two], paired_by, sure)
    return [*pairs, *_by_order((ours, theirs), pairs)] if is_last else pairs


def _is_one(units: Sequence[Unit]) -> bool:
    """Tell whether units are names of one: a shared embedding is listed in each of its owners."""
    if len(units) == 1:
        return True
    first = _tensors(units[0])
    return None not in first and all(_tensors(unit) == first for unit in units)


def _tensors(unit: Unit) -> set[int | None]:
    return {entry.record.tensor for entry in unit.entries}


def _levels(
    ours: Sequence[Unit], theirs: Sequence[Unit]
) -> tuple[Mapping[tuple[int, ...], list[Unit]], Mapping[tuple[int, ...], list[Unit]]]:
    """Group both sides by the deepest ranks that give as many groups on each.

    Only the order of the ranks counts, not the numbers: ``layer.3`` of one author may be
    ``features.5`` of the other. Groups of equal sizes are preferred. A unit that stands outside the
    numbered ones of one side, while all of the other's are numbered, has no place in their order;
    the last number of ``cross.0.w2`` and a middle one of ``selfs.0.1.w2`` are not of one order.
    """
    ranked = [[(unit.ranks, unit) for unit in side] for side in (ours, theirs)]
    depth = max(len(ranks) for side in ranked for ranks, _ in side)
    found = None
    for level in range(depth, -1, -1):
        groups = _grouped(ranked[0], level), _grouped(ranked[1], level)
        if any(_is_mixed(group, level) for side in groups for group in side.values()):
            continue
        depths = [[len(ranks) for ranks in sorted(side)] for side in groups]
        if depths[0] != depths[1]:
            continue
        sizes = [[len(group) for _, group in sorted(side.items())] for side in groups]
        if sizes[0] == sizes[1]:
            return groups
        found = found or groups
    return found or (_grouped(ranked[0], 0), _grouped(ranked[1], 0))


def _grouped(
    ranked: Iterable[tuple[tuple[int, ...], Unit]], level: int
) -> Mapping[tuple[int, ...], list[Unit]]:
    groups: dict[tuple[int, ...], list[Unit]] = {}
    for ranks, unit in ranked:
        groups.setdefault(ranks[:level], []).append(unit)
    return groups


def _is_mixed(group: Iterable[Unit], level: int) -> bool:
    """Tell whether ranks end at a level for some of the units, and go on for others."""
    return level > 0 and len({len(unit.ranks) > level for unit in group}) > 1


def _by_words(
    ours: Sequence[Unit], theirs: Sequence[Unit], paired_by: PairedBy, sure: float
) -> list[UnitPair]:
    """Pair the units whose words single each other out, the clearest first."""
    if len(ours) == len(theirs) == 1:
        return [_pair(ours[0], theirs[0], paired_by, sure)]
    said = [[unit.words for unit in side] for side in (ours, theirs)]
    told = told_by_words(said[0], said[1], kind_words(ours[0].kind))
    by = PairedBy.VALUE if paired_by is PairedBy.VALUE else PairedBy.NAME
    pairs = [_pair(ours[one], theirs[two], by, sure - 0.1) for one, two in told]
    if len(ours) == len(theirs) == len(told) + 1:
        rest = [
            next(iter({*range(len(side))} - {pair[at] for pair in told}))
            for at, side in enumerate((ours, theirs))
        ]
        pairs.append(_pair(ours[rest[0]], theirs[rest[1]], paired_by, sure - 0.1))
    return pairs


def _by_order(
    rest: tuple[Sequence[Unit], Sequence[Unit]], pairs: Sequence[UnitPair]
) -> list[UnitPair]:
    """Pair what nothing tells apart in definition order, as a guess that names the others."""
    done = {id(unit) for pair in pairs for unit in (pair.reference, pair.candidate)}
    ours = [unit for unit in rest[0] if id(unit) not in done]
    theirs = [unit for unit in rest[1] if id(unit) not in done]
    if len(ours) != len(theirs):
        return []
    return [
        UnitPair(
            reference=one,
            candidate=two,
            paired_by=PairedBy.POSITION,
            confidence=_GUESS,
            alternatives=tuple(unit for unit in ours[:9] if unit is not one)[:MAX_OTHERS],
        )
        for one, two in zip(ours, theirs, strict=True)
        if _can_be(one, two)
    ]


def _can_be(reference: Unit, candidate: Unit) -> bool:
    """Tell whether two units can do the same job; a user's own class can do any."""
    return _are_alike(_job(reference), _job(candidate))


def _job(unit: Unit) -> _Job:
    return unit.kind, cells_in(unit)


def _are_alike(job: _Job, other: _Job) -> bool:
    one, two = job[0], other[0]
    if one is None or two is None:
        return True
    if one == two:
        return job == other
    return any(one in group and two in group for group in _ALIKE)


def _with_partners(units: Sequence[Unit], others: Sequence[Unit]) -> list[Unit]:
    """Give the units whose job one of the others can do."""
    known = set(map(_job, others))
    able = {job for job in set(map(_job, units)) if any(_are_alike(job, other) for other in known)}
    return [unit for unit in units if _job(unit) in able]


def _pair(reference: Unit, candidate: Unit, by: PairedBy, confidence: float) -> UnitPair:
    return UnitPair(reference=reference, candidate=candidate, paired_by=by, confidence=confidence)
