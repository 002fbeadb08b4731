"""Which units that have something in common are partners: by place, words, at last by order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.names import kind_words, places_in, weight_of
from padiff.pairing.result import PairedBy

from .apart import cells_in
from .inventory import UnitPair

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .inventory import Unit

Words = frozenset[str]
Group = tuple[Words, bool, Words]
"""The words that count, whether they name a norm, and those that say where it stands."""
Floats = npt.NDArray[np.float64]

_MARGIN = 0.1
"""By how much the best partner by words must beat the second."""
_MAX_CELLS = 4_000_000
"""Of more different names than give so many pairs, none is told by its words."""


def told_by_words(
    ours: Sequence[Words], theirs: Sequence[Words], silent: Words = frozenset()
) -> list[tuple[int, int]]:
    """Pair the names that single each other out, clearly better than with any other.

    What is paired no longer stands in the way of others, until nothing more is clear. Of norms,
    words count only if they say alike where they stand.

    Args:
        ours: Words of each name of one side.
        theirs: Those of the other.
        silent: Words that say what all of them are, and so nothing.

    >>> told_by_words([frozenset({"q"}), frozenset({"k", "x"})], [frozenset("k"), frozenset("q")])
    [(0, 1), (1, 0)]
    """
    common = frozenset.intersection(*ours, *theirs) | silent
    shared = frozenset().union(*ours) & frozenset().union(*theirs)
    members = [_grouped(side, common, shared) for side in (ours, theirs)]
    groups = [list(side) for side in members]
    if not groups[0] or not groups[1] or len(groups[0]) * len(groups[1]) > _MAX_CELLS:
        return []
    places = [list(side.values()) for side in members]
    single = [np.array([len(one) == 1 for one in side]) for side in places]
    found = [
        (places[0][row][0], places[1][column][0])
        for row, column in _settled(_scores(groups[0], groups[1]), single[0], single[1])
    ]
    return sorted(found)


def _grouped(names: Sequence[Words], common: Words, shared: Words) -> dict[Group, list[int]]:
    """Return the places of each name that has a word of the other side, alike names together."""
    found: dict[Group, list[int]] = {}
    for place, words in enumerate(names):
        kept = words - common
        if not kept.isdisjoint(shared):
            is_norm = any(word.endswith("norm") or word == "bn" for word in words)
            found.setdefault((kept, is_norm, places_in(words)), []).append(place)
    return found


def _scores(ours: Sequence[Group], theirs: Sequence[Group]) -> Floats:
    """Return the likeness of all names of one side with all of the other."""
    both = [frozenset().union(*(kept for kept, _, _ in side)) for side in (ours, theirs)]
    words = sorted(both[0] & both[1])
    columns = {word: place for place, word in enumerate(words)}
    weights = np.array([weight_of([word]) for word in words])
    one, two = _encoded(ours, columns), _encoded(theirs, columns)
    common = (one * weights) @ two.T
    totals = [np.array([weight_of(kept) for kept, _, _ in side]) for side in (ours, theirs)]
    union = totals[0][:, None] + totals[1][None, :] - common
    scores = np.divide(common, union, out=np.zeros_like(union), where=union > 0)
    is_norm = [np.array([group[1] for group in side]) for side in (ours, theirs)]
    numbers: dict[Words, int] = {}
    stands = [
        np.array([numbers.setdefault(group[2], len(numbers)) for group in side])
        for side in (ours, theirs)
    ]
    is_free = ~(is_norm[0][:, None] | is_norm[1][None, :])
    return np.asarray(scores * (is_free | (stands[0][:, None] == stands[1][None, :])))


def _encoded(groups: Sequence[Group], columns: dict[str, int]) -> Floats:
    found = np.zeros((len(groups), len(columns)))
    for row, (kept, _, _) in enumerate(groups):
        found[row, [columns[word] for word in kept if word in columns]] = 1.0
    return found


def _settled(
    scores: Floats, single_rows: npt.NDArray[np.bool_], single_columns: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, int]]:
    """Take the clear pairs out again and again; a name of several units is none of them."""
    rows, columns = np.arange(scores.shape[0]), np.arange(scores.shape[1])
    while scores.size:
        places = np.arange(len(rows))
        best = scores.argmax(axis=1)
        top = scores[places, best]
        second = np.maximum(_second(scores), _second_below(scores, best))
        is_clear = (top >= second + _MARGIN) & single_rows[rows] & single_columns[columns[best]]
        if not is_clear.any():
            return
        yield from zip(rows[is_clear].tolist(), columns[best[is_clear]].tolist(), strict=True)
        keep = np.ones(len(columns), np.bool_)
        keep[best[is_clear]] = False
        scores = scores[~is_clear][:, keep]
        rows, columns = rows[~is_clear], columns[keep]


def _second(scores: Floats) -> Floats:
    """Return the second best of each row, 0 where there is none."""
    if scores.shape[1] == 1:
        return np.zeros(len(scores))
    return np.asarray(np.partition(scores, -2, axis=1)[:, -2])


def _second_below(scores: Floats, best: npt.NDArray[np.int64]) -> Floats:
    """Return for the best of each row the best of the other rows in its column."""
    if scores.shape[0] == 1:
        return np.zeros(1)
    top = np.partition(scores, -2, axis=0)[-2:, best]
    own = scores[np.arange(len(scores)), best]
    return np.asarray(np.where(own >= top[1], top[0], top[1]), np.float64)


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
    """Return whether units are names of one: a shared embedding is listed in each of its owners."""
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
        groups = _by_level(ranked[0], level), _by_level(ranked[1], level)
        if any(_is_mixed(group, level) for side in groups for group in side.values()):
            continue
        depths = [[len(ranks) for ranks in sorted(side)] for side in groups]
        if depths[0] != depths[1]:
            continue
        sizes = [[len(group) for _, group in sorted(side.items())] for side in groups]
        if sizes[0] == sizes[1]:
            return groups
        found = found or groups
    return found or (_by_level(ranked[0], 0), _by_level(ranked[1], 0))


def _by_level(
    ranked: Iterable[tuple[tuple[int, ...], Unit]], level: int
) -> Mapping[tuple[int, ...], list[Unit]]:
    groups: dict[tuple[int, ...], list[Unit]] = {}
    for ranks, unit in ranked:
        groups.setdefault(ranks[:level], []).append(unit)
    return groups


def _is_mixed(group: Iterable[Unit], level: int) -> bool:
    """Return whether ranks end at a level for some of the units, and go on for others."""
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
        if _are_alike(_job(one), _job(two))  # a user's own class can do any job
    ]


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
    """Return the units whose job one of the others can do."""
    known = set(map(_job, others))
    able = {job for job in set(map(_job, units)) if any(_are_alike(job, other) for other in known)}
    return [unit for unit in units if _job(unit) in able]


def _pair(reference: Unit, candidate: Unit, by: PairedBy, confidence: float) -> UnitPair:
    return UnitPair(reference=reference, candidate=candidate, paired_by=by, confidence=confidence)
