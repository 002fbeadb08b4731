"""Pair the calls of two sides: anchors first, then what contains them, then what lies between.

Siblings have no order: query, key and value projections are fed one tensor, and authors run them
as they like. Where names, weights or outputs tell such siblings apart, what the alignment did to
them is undone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.result import Matching, PairedBy

from .activations import pair_exchanged
from .align import Gap, align_all, align_gap, ranked, uncrossed
from .anchors import Evidence, anchors_of, gather
from .flow import refine
from .likeness import FORBIDDEN, CallLikeness
from .modules import Nesting, pair_nesting
from .onesided import opaque_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Sequence, Set

    from padiff.pairing.view import View

    from .align import Scores

    Places = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]


class CallPairs(Matching):
    """The call pairs, and of the containers the share of their content that is paired."""

    def __init__(self) -> None:
        super().__init__()
        self.share: dict[int, float] = {}
        """By reference call; absent for leaves."""

    def reversed(self) -> CallPairs:
        """Return the same pairs with the sides exchanged."""
        found = CallPairs()
        for reference, candidate in self:
            found.add(candidate, reference, self.by[reference])
        found.share = {self.ahead[one]: share for one, share in self.share.items()}
        return found


def pair_calls(
    reference: View, candidate: View, fixed: Sequence[tuple[int, int]] = ()
) -> CallPairs:
    """Pair all calls of both sides that do the same job."""
    pairs = CallPairs()
    for module, other in fixed:
        ran = reference.executed[module], candidate.executed[other]
        for one, two in zip(*ran, strict=False):
            pairs.add(one, two, PairedBy.MAP)
    opaque = opaque_of(reference, candidate)
    alike = CallLikeness(reference, candidate)
    for one, two in sorted(pairs, reverse=True):
        if reference.inner[one] and candidate.inner[two]:
            _pair_region(alike, pairs, opaque, (one, two))
    for one, two in zip(reference.top, candidate.top, strict=False):
        if reference.calls[one].module == candidate.calls[two].module == 0:
            pairs.add(one, two, PairedBy.STRUCTURE)
    _pair_region(alike, pairs, opaque)
    for one, two in _closed(reference, candidate, pairs):
        _pair_region(alike, pairs, frozenset(), (one, two))
    pair_bare(alike, pairs)
    pair_exchanged(reference, candidate, pairs)
    return pairs


def _closed(reference: View, candidate: View, pairs: CallPairs) -> list[tuple[int, int]]:
    """List paired calls whose content was not looked at: attention, modules with own weights."""
    return [
        (one, two)
        for one, two in pairs
        if reference.inner[one]
        and candidate.inner[two]
        and not any(call in pairs.ahead for call in reference.inner[one])
    ]


def _pair_region(
    alike: CallLikeness,
    pairs: CallPairs,
    opaque: frozenset[str],
    within: tuple[int, int] | None = None,
) -> None:
    views = reference, candidate = alike.views
    limits = within or (None, None)
    both = [anchors_of(v, opaque, w) for v, w in zip(views, limits, strict=True)]
    anchors = both[0], both[1]
    pair_anchors(reference, candidate, pairs, anchors, is_whole=within is None)
    _pair_containers(alike, pairs, anchors, limits[0])
    pair_left(reference, candidate, pairs, anchors)
    pair_free(alike, pairs, anchors, limits)


def _pair_containers(
    alike: CallLikeness,
    pairs: CallPairs,
    anchors: tuple[Sequence[int], Sequence[int]],
    limit: int | None = None,
) -> None:
    """Pair the calls that contain paired anchors, inside a call of the reference or anywhere."""
    reference, candidate = alike.views
    leaves = [(one, pairs.ahead[one]) for one in anchors[0] if one in pairs.ahead]
    nestings = [
        Nesting(parents=view.parents, leaves=side)
        for view, side in zip((reference, candidate), anchors, strict=True)
    ]

    for found in pair_nesting(nestings[0], nestings[1], leaves, pairs, alike.containers):
        if limit is not None and found.reference not in reference.inside(limit):
            continue
        if found.reference in reference.hidden or found.candidate in candidate.hidden:
            continue
        pairs.add(found.reference, found.candidate, PairedBy.STRUCTURE)
        if pairs.has(found.reference, found.candidate):
            pairs.share[found.reference] = found.share


def pair_around(
    reference: View,
    candidate: View,
    pairs: CallPairs,
    hidden: tuple[Container[int], Container[int]],
) -> None:
    """Pair what contains paired calls once more, without the calls that only one side makes.

    Args:
        reference: One side.
        candidate: The other.
        pairs: The pairs so far; further ones are added.
        hidden: Calls of each side that the other does without calling a module.
    """
    views = reference, candidate
    opaque = opaque_of(reference, candidate)
    shown = [
        [call for call in anchors_of(view, opaque) if call not in side]
        for view, side in zip(views, hidden, strict=True)
    ]
    alike = CallLikeness(reference, candidate)
    _pair_containers(alike, pairs, (shown[0], shown[1]))


def pair_bare(alike: CallLikeness, pairs: CallPairs) -> None:
    """Pair calls of equal path in paired calls, where one side's layer owns parameters.

    A quantised Linear packs its weight into what is no parameter, a PReLU that became a ReLU has
    none: no weight can tell that they are partners, and they are no calls that are free of any.
    Both are leaves that own something on one side at most, and give outputs of one size.

    Args:
        alike: Knows both sides.
        pairs: The pairs so far; further ones are added.
    """
    reference, candidate = alike.views
    by_path = {module.path: module.id for module in candidate.modules}
    for module in reference.modules:
        other = by_path.get(module.path)
        if other is None or bool(reference.weights[module.id]) is bool(candidate.weights[other]):
            continue
        ran = reference.executed[module.id], candidate.executed[other]
        if len(ran[0]) != len(ran[1]):
            continue
        for one, two in zip(*ran, strict=True):
            if _is_open(reference, candidate, pairs, one, two) and alike.is_same_size(
                np.array([one]), np.array([two])
            ):
                pairs.add(one, two, PairedBy.NAME)


def _is_open(reference: View, candidate: View, pairs: CallPairs, one: int, two: int) -> bool:
    """Return whether two leaves have no partner yet, in calls that are partners."""
    parents = reference.calls[one].parent, candidate.calls[two].parent
    return (
        one not in pairs.ahead
        and two not in pairs.back
        and one not in reference.hidden
        and two not in candidate.hidden
        and not (reference.inner[one] or candidate.inner[two])
        and None not in parents
        and pairs.ahead.get(parents[0] or 0) == parents[1]
    )


Place = tuple[int | None, int | None, int | None]
_NEAR: tuple[Callable[[Place], Hashable], ...] = (
    lambda place: place,
    lambda place: ("between", place[0], place[1]),
)
"""Between the same two calls; there a fault may have made the output of one larger."""
_FAR: tuple[Callable[[Place], Hashable], ...] = (
    lambda place: ("after", place[0], place[2]),
    lambda place: ("before", place[1], place[2]),
    lambda place: ("after", place[0]),
    lambda place: ("before", place[1]),
    lambda place: ("inside", place[2]),
)
"""Farther apart, only outputs of equal size are of one job."""


def pair_free(
    alike: CallLikeness,
    pairs: Matching,
    anchors: tuple[Sequence[int], Sequence[int]],
    limits: tuple[int | None, int | None],
) -> None:
    """Pair what has no parameters: by the paired calls around it, the nearest ones first."""
    reference, candidate = alike.views
    regions = [
        range(len(view.calls)) if limit is None else view.inside(limit)
        for view, limit in zip((reference, candidate), limits, strict=True)
    ]
    free = (
        _free(reference, pairs.ahead, anchors[0], regions[0]),
        _free(candidate, pairs.back, anchors[1], regions[1]),
    )
    places = (
        _places(reference, pairs.ahead, free[0], regions[0], {}),
        _places(candidate, pairs.back, free[1], regions[1], pairs.back),
    )

    def far(rows: Places, columns: Places) -> Floats:
        is_likely = alike.is_same_size(rows, columns)
        return np.where(is_likely, alike.free(rows, columns), -1.0)

    tried: set[tuple[int, ...]] = set()
    for choose in (*_NEAR, *_FAR):
        groups: list[dict[Hashable, list[int]]] = [defaultdict(list), defaultdict(list)]
        for side in (0, 1):
            taken = pairs.ahead if side == 0 else pairs.back
            for call in free[side]:
                if call not in taken:
                    groups[side][choose(places[side][call])].append(call)
        met = [(mine, groups[1][key]) for key, mine in groups[0].items() if key in groups[1]]
        # What found no partner between its nearest neighbours finds none among the same calls.
        met = [(mine, theirs) for mine, theirs in met if (*mine, -1, *theirs) not in tried]
        for found in align_all(met, alike.free if choose in _NEAR else far):
            for one, two in found:
                pairs.add(one, two, PairedBy.POSITION)
        tried.update((*mine, -1, *theirs) for mine, theirs in met)


def _free(view: View, taken: Container[int], anchors: Sequence[int], region: range) -> list[int]:
    """List the calls of a region that have no partner and neither hold nor are in an anchor."""
    holds = set(anchors)
    for anchor in anchors:
        for around in view.ancestors(anchor):
            if around in holds:
                break
            holds.add(around)
    inside = set(anchors)
    found = []
    for call in region:
        if view.calls[call].parent in inside:
            inside.add(call)
        elif call not in view.hidden and call not in holds and call not in taken:
            found.append(call)
    return found


def _places(
    view: View,
    paired: Container[int],
    calls: Sequence[int],
    region: range,
    image: dict[int, int],
) -> dict[int, Place]:
    """Return between which paired leaves and in which paired call each call ran: reference ids."""
    leaves = [call for call in region if call in paired and not view.inner[call]]
    outer: dict[int, int | None] = {}
    for call in region:
        parent = view.calls[call].parent
        is_seen = parent is None or parent in paired
        outer[call] = parent if is_seen or parent is None else outer.get(parent)
    found: dict[int, Place] = {}
    position = 0
    for call in calls:
        while position < len(leaves) and leaves[position] < call:
            position += 1
        before = leaves[position - 1] if position else None
        after = leaves[position] if position < len(leaves) else None
        around = _image(outer[call], image)
        found[call] = _image(before, image), _image(after, image), around
    return found


def _image(call: int | None, image: dict[int, int]) -> int | None:
    return call if call is None else image.get(call, call)


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
    """Pair siblings that are fed one tensor anew, where another assignment is clearly better."""
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
