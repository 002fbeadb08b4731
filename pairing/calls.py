"""Pair the calls of two sides: anchors first, then what contains them, then what lies between."""

from __future__ import annotations

from collections import defaultdict
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.dumpfile import Role

from .align import Gap, align_gap, align_items, ranked, uncrossed
from .anchors import Evidence, anchors_of, gather
from .matching import Matching
from .names import likeness, words_of
from .nesting import Nesting, pair_nesting
from .onesided import OPAQUE
from .result import PairedBy
from .sketch import alikeness
from .untangle import untangled

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Sequence

    from .view import View

__all__ = ["CallPairs", "pair_calls"]

_SURE = 2.5
"""From this score on a unique partner may split the sequences before anything else is known."""
_MARGIN = 0.1
"""By how much a pair that runs in another order must beat all others of its two members."""
_MAX_LEFT = 250_000
"""Where more pairs are possible than this among what order left alone, none is tried."""
_SMALL = 1_000_000
"""Gaps of more cells are split by rank before they are aligned."""


class CallPairs(Matching):
    """The call pairs, and of the containers the share of their content that is paired."""

    def __init__(self) -> None:
        super().__init__()
        self.share: dict[int, float] = {}
        """By reference call; absent for leaves."""

    def reversed(self) -> CallPairs:
        """Give the same pairs with the sides exchanged."""
        found = CallPairs()
        for reference, candidate in self:
            found.add(candidate, reference, self.by[reference])
        found.share = {self.ahead[one]: share for one, share in self.share.items()}
        return found


def pair_calls(
    reference: View, candidate: View, fixed: Sequence[tuple[int, int]] = ()
) -> CallPairs:
    """Pair all calls of both sides that do the same job.

    Args:
        reference: One side.
        candidate: The other.
        fixed: Pairs of modules that the user decided.
    """
    pairs = CallPairs()
    for module, other in fixed:
        ran = reference.executed[module], candidate.executed[other]
        for one, two in zip(*ran, strict=False):
            pairs.add(one, two, PairedBy.MAP)
    opaque = _opaque(reference, candidate)
    for one, two in sorted(pairs, reverse=True):
        if reference.inner[one] and candidate.inner[two]:
            _pair_region(reference, candidate, pairs, opaque, (one, two))
    for one, two in zip(reference.top, candidate.top, strict=False):
        if reference.calls[one].module == candidate.calls[two].module == 0:
            pairs.add(one, two, PairedBy.STRUCTURE)
    _pair_region(reference, candidate, pairs, opaque)
    for one, two in _closed(reference, candidate, pairs):
        _pair_region(reference, candidate, pairs, frozenset(), (one, two))
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


def _opaque(reference: View, candidate: View) -> frozenset[str]:
    """Give the kinds that both sides run, and which may thus be paired without looking inside."""
    ran = [
        {view.kinds[module] for module, calls in enumerate(view.executed) if calls}
        for view in (reference, candidate)
    ]
    return frozenset(kind for kind in OPAQUE if kind in ran[0] and kind in ran[1])


def _pair_region(
    reference: View,
    candidate: View,
    pairs: CallPairs,
    opaque: frozenset[str],
    within: tuple[int, int] | None = None,
) -> None:
    views = (reference, candidate)
    limits = within or (None, None)
    anchors = [anchors_of(v, opaque, w) for v, w in zip(views, limits, strict=True)]
    _pair_anchors(reference, candidate, pairs, (anchors[0], anchors[1]))
    leaves = [(one, pairs.ahead[one]) for one in anchors[0] if one in pairs.ahead]
    nestings = [
        Nesting(parents=view.parents, leaves=side)
        for view, side in zip(views, anchors, strict=True)
    ]

    def affinity(one: int, two: int) -> float:
        if one in pairs.ahead or two in pairs.back:
            return 10.0 if pairs.has(one, two) else -1.0
        return _likeness(reference, one, candidate, two)

    for found in pair_nesting(nestings[0], nestings[1], leaves, affinity):
        if limits[0] is not None and found.reference not in reference.inside(limits[0]):
            continue
        if found.reference in reference.hidden or found.candidate in candidate.hidden:
            continue
        pairs.add(found.reference, found.candidate, PairedBy.STRUCTURE)
        if pairs.has(found.reference, found.candidate):
            pairs.share[found.reference] = found.share
    _pair_left(reference, candidate, pairs, (anchors[0], anchors[1]))
    _pair_free(reference, candidate, pairs, (anchors[0], anchors[1]), limits)


# -- anchors


def _pair_left(
    reference: View,
    candidate: View,
    pairs: CallPairs,
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
    for outer, mine in groups[0].items():
        theirs = groups[1].get(outer, [])
        if not theirs or len(mine) * len(theirs) > _MAX_LEFT:
            continue
        evidence = gather(reference, candidate, (mine, theirs))
        for one, two in _clearest(
            np.stack([evidence.row(r, 0, len(theirs)) for r in range(len(mine))])
        ):
            pairs.add(mine[one], theirs[two], PairedBy.FLOW)


def _clearest(scores: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """Give the pairs that are the best of both their row and their column, clearly."""
    found = []
    for row, column in enumerate(scores.argmax(axis=1).tolist()):
        best = scores[row, column]
        rest = np.concatenate((np.delete(scores[row], column), np.delete(scores[:, column], row)))
        if best > 0 and (not rest.size or best - rest.max() >= _MARGIN):
            found.append((row, column))
    return found


def _pair_anchors(
    reference: View,
    candidate: View,
    pairs: CallPairs,
    anchors: tuple[Sequence[int], Sequence[int]],
) -> None:
    open_ = (
        [call for call in anchors[0] if call not in pairs.ahead],
        [call for call in anchors[1] if call not in pairs.back],
    )
    if not open_[0] or not open_[1]:
        return
    evidence = gather(reference, candidate, open_)
    aligned = align_anchors(evidence)
    for one, two in untangled((reference, candidate), open_, evidence, aligned):
        by = PairedBy.STRUCTURE
        if evidence.by_name[one] == two:
            by = PairedBy.NAME
        elif evidence.by_value[one] == two:
            by = PairedBy.VALUE
        pairs.add(open_[0][one], open_[1][two], by)


def align_anchors(evidence: Evidence) -> list[tuple[int, int]]:
    """Align two sequences of anchors; branches that ran in another order are found afterwards."""
    rows, columns = evidence.shape
    whole = Gap(0, rows, 0, columns)
    sure = uncrossed(_sure(evidence))
    found = list(sure)
    for gap in whole.split(sure):
        found.extend(_align_within(evidence, gap))
    taken_rows, taken_columns = {one for one, _ in found}, {two for _, two in found}
    for one, two in _sure(evidence):
        if one not in taken_rows and two not in taken_columns:
            found.append((one, two))
    return sorted(found)


def _sure(evidence: Evidence) -> list[tuple[int, int]]:
    """List the unique partners by name or value that nothing contradicts."""
    name, value = evidence.by_name, evidence.by_value
    partner = np.where(value >= 0, value, name)
    is_one = (partner >= 0) & ((name < 0) | (value < 0) | (name == value))
    rows = np.nonzero(is_one)[0]
    columns = partner[rows]
    good = evidence.scores(rows, columns) >= _SURE
    return list(zip(rows[good].tolist(), columns[good].tolist(), strict=True))


def _align_within(evidence: Evidence, gap: Gap) -> list[tuple[int, int]]:
    if gap.cells <= _SMALL:
        return align_gap(evidence.row, gap)
    keys = [evidence.groups_reference, evidence.groups_candidate]
    numbers = _common_groups(evidence)
    mine = [numbers[0][g] for g in keys[0].tolist()]
    theirs = [numbers[1][g] for g in keys[1].tolist()]
    certain = ranked(mine, theirs, gap)
    good = evidence.scores(
        np.array([one for one, _ in certain], np.int64),
        np.array([two for _, two in certain], np.int64),
    )
    certain = [pair for pair, score in zip(certain, good.tolist(), strict=True) if score > 0]
    steps = uncrossed(certain)
    found = list(steps)
    for part in gap.split(steps):
        found.extend(align_gap(evidence.row, part))
    return found


def _common_groups(evidence: Evidence) -> tuple[list[int], list[int]]:
    """Number the groups so that mutual best partners share a number."""
    base = evidence.base
    best, back = base.argmax(axis=1), base.argmax(axis=0)
    reference = list(range(base.shape[0]))
    candidate = [base.shape[0] + column for column in range(base.shape[1])]
    for row, column in enumerate(best.tolist()):
        if back[column] == row and base[row, column] > 0:
            candidate[column] = row
    return reference, candidate


# -- calls without parameters


def _pair_free(
    reference: View,
    candidate: View,
    pairs: CallPairs,
    anchors: tuple[Sequence[int], Sequence[int]],
    limits: tuple[int | None, int | None],
) -> None:
    """Pair what has no parameters: by the paired calls around it, the nearest ones first."""
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
    for choose in _ROUNDS:
        groups: list[dict[Hashable, list[int]]] = [defaultdict(list), defaultdict(list)]
        for side in (0, 1):
            taken = pairs.ahead if side == 0 else pairs.back
            for call in free[side]:
                if call not in taken:
                    groups[side][choose(places[side][call])].append(call)
        for key, mine in groups[0].items():
            theirs = groups[1].get(key, [])
            for one, two in align_items(
                mine, theirs, lambda a, b: score_free(reference, a, candidate, b)
            ):
                pairs.add(one, two, PairedBy.POSITION)


Place = tuple[int | None, int | None, int | None]
_ROUNDS: tuple[Callable[[Place], Hashable], ...] = (
    lambda place: place,
    lambda place: ("between", place[0], place[1]),
    lambda place: ("after", place[0]),
    lambda place: ("before", place[1]),
    lambda place: ("inside", place[2]),
)


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
    """Say between which paired leaves and in which paired call each call ran, as reference ids."""
    leaves = [call for call in region if call in paired and not view.inner[call]]
    found: dict[int, Place] = {}
    position = 0
    for call in calls:
        while position < len(leaves) and leaves[position] < call:
            position += 1
        before = leaves[position - 1] if position else None
        after = leaves[position] if position < len(leaves) else None
        around = next((outer for outer in view.ancestors(call) if outer in paired), None)
        found[call] = _image(before, image), _image(after, image), _image(around, image)
    return found


def _image(call: int | None, image: dict[int, int]) -> int | None:
    return call if call is None else image.get(call, call)


def score_free(reference: View, one: int, candidate: View, two: int) -> float:
    """Score two calls without parameters; above 0 they may be partners."""
    if bool(reference.inner[one]) != bool(candidate.inner[two]):
        return -1.0
    kinds = reference.kind(one), candidate.kind(two)
    if None not in kinds and kinds[0] != kinds[1]:
        return -1.0
    near, is_same_size = _compare_outputs(reference, one, candidate, two)
    if kinds[0] == kinds[1] and kinds[0] is not None:
        score = 1.0 if is_same_size else 0.5
    elif not is_same_size:
        return -1.0
    else:
        score = 0.4 if near > 0 or _class_likeness(reference, one, candidate, two) > 0 else -1.0
    return score + near + 0.3 * _path_likeness(reference, one, candidate, two)


def _likeness(reference: View, one: int, candidate: View, two: int) -> float:
    """Score two containers of the same content; always above 0."""
    kinds = reference.kind(one), candidate.kind(two)
    near, is_same_size = _compare_outputs(reference, one, candidate, two)
    score = 0.2 + near + 0.3 * is_same_size
    score += 1.0 if kinds[0] == kinds[1] and kinds[0] is not None else 0.0
    score += _class_likeness(reference, one, candidate, two)
    return score + _path_likeness(reference, one, candidate, two)


def _compare_outputs(reference: View, one: int, candidate: View, two: int) -> tuple[float, bool]:
    mine, theirs = reference.select(one, Role.OUTPUT), candidate.select(two, Role.OUTPUT)
    if not mine or not theirs:
        return 0.0, not mine and not theirs
    first = max(mine, key=lambda record: prod(record.shape))
    second = max(theirs, key=lambda record: prod(record.shape))
    near = alikeness(reference, first, candidate, second)
    return near or 0.0, prod(first.shape) == prod(second.shape)


def _class_likeness(reference: View, one: int, candidate: View, two: int) -> float:
    names = (
        words_of(view.modules[view.calls[call].module].class_name)
        for view, call in ((reference, one), (candidate, two))
    )
    return likeness(*names)


def _path_likeness(reference: View, one: int, candidate: View, two: int) -> float:
    return likeness(words_of(reference.path(one)), words_of(candidate.path(two)))
