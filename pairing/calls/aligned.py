"""Pair anchors: align them in execution order, then find what ran in another one.

Siblings have no order: query, key and value projections are fed one tensor, and authors run them
as they like. Where names, weights or outputs tell such siblings apart, what the alignment did to
them is undone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.result import PairedBy

from .align import Gap, align_gap, ranked, uncrossed
from .anchors import Evidence, gather
from .flow import refine
from .likeness import FORBIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    import numpy.typing as npt

    from padiff.pairing.result import Matching
    from padiff.pairing.view import View

    from .align import Scores

    Places = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]

_SURE = 2.5
"""From this score on a unique partner may split the sequences before anything else is known."""
_MARGIN = 0.1
"""By how much a pair that runs in another order must beat all others of its two members."""
_MAX_LEFT = 250_000
"""Where more pairs are possible than this among what order left alone, none is tried."""
_SMALL = 1_000_000
"""Gaps of more cells are split by rank before they are aligned."""


def pair_anchors(
    reference: View,
    candidate: View,
    pairs: Matching,
    anchors: tuple[Sequence[int], Sequence[int]],
    *,
    is_whole: bool,
) -> None:
    """Pair anchors that have no partner yet, by all evidence about them.

    Args:
        reference: One side.
        candidate: The other.
        pairs: The pairs so far; further ones are added.
        anchors: Calls of both sides.
        is_whole: Whether they are those of all that ran.
    """
    open_ = (
        [call for call in anchors[0] if call not in pairs.ahead],
        [call for call in anchors[1] if call not in pairs.back],
    )
    if not open_[0] or not open_[1]:
        return
    evidence = gather(reference, candidate, open_)
    views = reference, candidate
    sure = _sure(evidence)
    forced = sorted(refine(views, open_, sure, evidence.weights, is_whole=is_whole).items())
    aligned = align_anchors(evidence, forced)
    for one, two in untangled(views, open_, evidence, aligned, frozenset(forced)):
        by = PairedBy.STRUCTURE
        if evidence.by_name[one] == two:
            by = PairedBy.NAME
        elif evidence.weights[0][one] == evidence.weights[1][two] >= 0:
            by = PairedBy.VALUE
        pairs.add(open_[0][one], open_[1][two], by)


def pair_left(
    reference: View,
    candidate: View,
    pairs: Matching,
    anchors: tuple[Sequence[int], Sequence[int]],
) -> None:
    """Pair anchors that ran in another order within paired containers, the clearest first."""
    groups: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    for call in anchors[0]:
        if call not in pairs.ahead:
            outer = next((o for o in reference.ancestors(call) if o in pairs.ahead), -1)
            groups[0].setdefault(outer, []).append(call)
    for call in anchors[1]:
        if call not in pairs.back:
            outer = next((o for o in candidate.ancestors(call) if o in pairs.back), -1)
            groups[1].setdefault(pairs.back.get(outer, -1), []).append(call)
    makers = [
        {view.made[call]: call for call in side if view.made[call] is not None}
        for view, side in zip((reference, candidate), anchors, strict=True)
        if groups[0] and groups[1]
    ]
    for outer, mine in groups[0].items():
        theirs = groups[1].get(outer, [])
        if not theirs or len(mine) * len(theirs) > _MAX_LEFT:
            continue
        evidence = gather(reference, candidate, (mine, theirs))
        for one, two in _clearest(
            np.stack([evidence.row(r, 0, len(theirs)) for r in range(len(mine))])
        ):
            fed = (
                makers[0].get(reference.given[mine[one]]),
                makers[1].get(candidate.given[theirs[two]]),
            )
            if not _is_fed_otherwise(pairs, *fed):
                pairs.add(mine[one], theirs[two], PairedBy.FLOW)


def _is_fed_otherwise(pairs: Matching, one: int | None, two: int | None) -> bool:
    """Return whether the anchors that feed two calls both have partners, and others."""
    return one in pairs.ahead and two in pairs.back and pairs.ahead[one] != two


def _clearest(scores: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the pairs that are the best of both their row and their column, clearly."""
    found = []
    for row, column in enumerate(scores.argmax(axis=1).tolist()):
        best = scores[row, column]
        rest = np.concatenate((np.delete(scores[row], column), np.delete(scores[:, column], row)))
        if best > 0 and (not rest.size or best - rest.max() >= _MARGIN):
            found.append((row, column))
    return found


def align_anchors(evidence: Evidence, sure: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Align two sequences of anchors; branches that ran in another order are found afterwards.

    Args:
        evidence: All that is known about them.
        sure: Pairs that are no longer in question; the rest is aligned between them.
    """
    rows, columns = evidence.shape
    scores = _unsettled(evidence, sure)
    steps = uncrossed(sure)
    found = list(sure)
    for gap in Gap(0, rows, 0, columns).split(steps):
        found.extend(_align_within(evidence, scores, gap))
    return sorted(found)


def _unsettled(evidence: Evidence, sure: Sequence[tuple[int, int]]) -> Scores:
    """Score as the evidence does, but nothing that has a sure partner, elsewhere perhaps."""
    settled = [np.zeros(count, np.bool_) for count in evidence.shape]
    for pair in sure:
        for side, place in zip(settled, pair, strict=True):
            side[place] = True

    def scores(rows: Places, columns: Places) -> Floats:
        is_settled = settled[0][rows] | settled[1][columns]
        if not is_settled.any():
            return evidence.scores(rows, columns)
        found = np.full(len(rows), FORBIDDEN)
        found[~is_settled] = evidence.scores(rows[~is_settled], columns[~is_settled])
        return found

    return scores


def _sure(evidence: Evidence) -> list[tuple[int, int]]:
    """List the unique partners by name or value that nothing contradicts."""
    name, value = evidence.by_name, evidence.by_value
    partner = np.where(value >= 0, value, name)
    is_one = (partner >= 0) & ((name < 0) | (value < 0) | (name == value))
    rows = np.nonzero(is_one)[0]
    columns = partner[rows]
    good = evidence.scores(rows, columns) >= _SURE
    return list(zip(rows[good].tolist(), columns[good].tolist(), strict=True))


def _align_within(evidence: Evidence, scores: Scores, gap: Gap) -> list[tuple[int, int]]:
    if gap.cells <= _SMALL:
        return align_gap(scores, gap)
    mine, theirs = evidence.groups.common()
    certain = np.array(ranked(mine, theirs, gap), np.int64).reshape(-1, 2)
    certain = certain[scores(certain[:, 0], certain[:, 1]) > 0]
    steps = uncrossed([(one, two) for one, two in certain.tolist()])
    found = list(steps)
    for part in gap.split(steps):
        found.extend(align_gap(scores, part))
    return found


_CLEAR = 0.5
"""By how much another assignment must be better for the order to give way."""
_MAX_SIBLINGS = 64


def untangled(
    views: tuple[View, View],
    calls: tuple[Sequence[int], Sequence[int]],
    evidence: Evidence,
    pairs: Iterable[tuple[int, int]],
    fixed: Set[tuple[int, int]] = frozenset(),
) -> list[tuple[int, int]]:
    """Pair siblings that are fed one tensor anew, where another assignment is clearly better.

    Args:
        views: Both sides.
        calls: The anchors of each side.
        evidence: What is known about them.
        pairs: Positions of pairs among the anchors, as aligned in order.
        fixed: Pairs among them that stay as they are.
    """
    groups: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    found: list[tuple[int, int]] = []
    for one, two in pairs:
        given = views[0].given[calls[0][one]], views[1].given[calls[1][two]]
        if given[0] is None or given[1] is None or (one, two) in fixed:
            found.append((one, two))
        else:
            groups[given[0], given[1]].append((one, two))
    for group in groups.values():
        if 1 < len(group) <= _MAX_SIBLINGS:
            ours, theirs = np.array(group, np.int64).T
            scores = evidence.scores(np.repeat(ours, len(group)), np.tile(theirs, len(group)))
            found += _reassigned(scores.reshape(len(group), -1), group)
        else:
            found += group
    return sorted(found)


def _reassigned(table: Floats, group: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs of a group anew, if another assignment is clearly better."""
    if (table.diagonal() >= table.max(axis=1)).all():
        return group
    ranked = sorted(
        (-score, place, other)
        for place, row in enumerate(table.tolist())
        for other, score in enumerate(row)
    )
    taken: tuple[set[int], set[int]] = (set(), set())
    better: list[tuple[int, int]] = []
    for negative, place, other in ranked:
        if negative < 0 and place not in taken[0] and other not in taken[1]:
            better.append((place, other))
            taken[0].add(place)
            taken[1].add(other)
    gain = sum(table[place, other] for place, other in better) - float(np.trace(table))
    if len(better) < len(group) or gain < _CLEAR:
        return group
    return [(group[place][0], group[other][1]) for place, other in better]
