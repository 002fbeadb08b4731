"""Pair modules: by their paired calls, by what they contain, and by structure if never called."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from math import isqrt, prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from padiff.pairing.names import WordTable, likeness, words_of
from padiff.pairing.result import Matching, PairedBy

from .align import Gap, align_all, align_items, uncrossed
from .expressed import content_once

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Iterator, Sequence

    from padiff.pairing.view import View

    from .align import Scores

_MIN_SHARE = 0.5
_MAX_LEVELS, _MIN_LEVELS = 64, 8
"""So many different containers around a leaf are looked at, of many leaves in deep trees fewer;
what is further out is told by the leaves that are nearer to it."""
_MAX_MET = 2_000_000
"""So many meetings of two containers over a leaf are counted, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nesting:
    """A tree by its parents, and which of its nodes are leaves."""

    parents: Sequence[int | None]
    """Of each node; a parent's number is smaller."""
    leaves: Sequence[int]
    """Ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """Two containers that hold the same, more or less."""

    reference: int
    candidate: int
    share: float
    """Twice the common leaves over all leaves of both; 1.0 if each leaf has its partner inside."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """Containers of exactly the same leaves: a wrapper around a wrapper."""

    nodes: list[int]
    """The outermost first."""
    first: int
    """Rank of the first leaf inside."""
    last: int
    count: int
    """How many leaves are inside."""


class _Chains:
    """All containers of one tree, from the leaves outwards."""

    def __init__(self, nesting: Nesting) -> None:
        spans = _spans(nesting)
        groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for node in sorted(spans):
            groups[spans[node]].append(node)
        self.all = [_Chain(nodes, *span) for span, nodes in groups.items()]
        self._nesting = nesting
        self._numbers: dict[int | None, int] = {
            node: at for at, chain in enumerate(self.all) for node in chain.nodes
        }
        self._above = self.innermost(chain.nodes[0] for chain in self.all)

    def innermost(self, leaves: Iterable[int]) -> list[int]:
        """Return the number of the innermost chain around each leaf, -1 without one."""
        numbers, parents = self._numbers, self._nesting.parents
        return [numbers.get(parents[leaf], -1) for leaf in leaves]

    def around(self, innermost: int, levels: int) -> Iterator[int]:
        """Yield the numbers of a chain and of those around it, the innermost first."""
        while innermost >= 0 and levels > 0:
            yield innermost
            innermost = self._above[innermost]
            levels -= 1

    def reach(self, levels: int) -> list[int]:
        """Count for each chain the leaves that have it within so many levels."""
        counts = [0] * len(self.all)
        for innermost, count in Counter(self.innermost(self._nesting.leaves)).items():
            for chain in self.around(innermost, levels):
                counts[chain] += count
        return counts


def _spans(nesting: Nesting) -> dict[int, tuple[int, int, int]]:
    """Return first and last rank of the leaves in each container, and their number.

    Only what holds a leaf is looked at: a region of a large tree takes no more than it holds.
    """
    ranks = {leaf: rank for rank, leaf in enumerate(nesting.leaves)}
    met = set(ranks)
    for leaf in nesting.leaves:
        around = nesting.parents[leaf]
        while around is not None and around not in met:
            met.add(around)
            around = nesting.parents[around]
    spans: dict[int, tuple[int, int, int]] = {}
    for node in sorted(met, reverse=True):
        found, rank = spans.get(node), ranks.get(node)
        if rank is not None:
            found = _joined((rank, rank, 1), found)
        outer = nesting.parents[node]
        if outer is not None and found is not None:
            spans[outer] = _joined(found, spans.get(outer))
    return spans


def _joined(span: tuple[int, int, int], known: tuple[int, int, int] | None) -> tuple[int, int, int]:
    if known is None:
        return span
    first = min(known[0], span[0])
    last = max(known[1], span[1])
    return first, last, span[2] + known[2]


def pair_nesting(
    reference: Nesting,
    candidate: Nesting,
    leaves: Iterable[tuple[int, int]],
    known: Matching,
    affinity: Scores,
) -> list[Nested]:
    """Pair the containers of two trees by the share of paired leaves inside.

    Containers of the same leaves (a wrapper around a wrapper) are told apart by ``affinity``,
    without crossing; what then stays alone is a wrapper that only one side has. Containers that
    have partners already keep them.
    """
    met = list(leaves)
    chains = _Chains(reference), _Chains(candidate)
    shares = _Shares(reference, candidate, met)
    taken: tuple[set[int], set[int]] = (set(), set())
    alike: list[tuple[_Chain, _Chain]] = []
    for one, two in _ranked(chains, met):
        if one in taken[0] or two in taken[1]:
            continue
        taken[0].add(one)
        taken[1].add(two)
        alike.append((chains[0].all[one], chains[1].all[two]))
    parts = [_between(mine.nodes, theirs.nodes, known) for mine, theirs in alike]
    aligned = iter(align_all([lists for _, gaps in parts for lists in gaps], affinity))
    found: list[Nested] = []
    for (mine, theirs), (fixed, gaps) in zip(alike, parts, strict=True):
        share = shares.of(mine, theirs)
        pairs = [*fixed, *(pair for _ in gaps for pair in next(aligned))]
        found += [Nested(reference=a, candidate=b, share=share) for a, b in pairs]
    return found


def _between(
    mine: Sequence[int], theirs: Sequence[int], known: Matching
) -> tuple[list[tuple[int, int]], list[tuple[list[int], list[int]]]]:
    """Return those of two lists of containers that are partners already, and what is between."""
    if not any(node in known.ahead for node in mine):
        return [], [([*mine], [node for node in theirs if node not in known.back])]
    places = {node: place for place, node in enumerate(theirs)}
    fixed = uncrossed(
        [
            (place, places[known.ahead[node]])
            for place, node in enumerate(mine)
            if known.ahead.get(node) in places
        ]
    )
    gaps = [
        (
            [node for node in mine[gap.start : gap.stop] if node not in known.ahead],
            [node for node in theirs[gap.other_start : gap.other_stop] if node not in known.back],
        )
        for gap in Gap(0, len(mine), 0, len(theirs)).split(fixed)
    ]
    return [(mine[one], theirs[two]) for one, two in fixed], gaps


def _ranked(
    chains: tuple[_Chains, _Chains], met: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the chains that share enough, those that share most first."""
    levels = max(_MIN_LEVELS, min(_MAX_LEVELS, isqrt(_MAX_MET // max(1, len(met)))))
    reach = chains[0].reach(levels), chains[1].reach(levels)
    common: dict[tuple[int, int], int] = defaultdict(int)
    inside = (side.innermost(pair[at] for pair in met) for at, side in enumerate(chains))
    for (leaf, other), count in Counter(zip(*inside, strict=True)).items():
        theirs = list(chains[1].around(other, levels))
        for one in chains[0].around(leaf, levels):
            for two in theirs:
                common[one, two] += count
    ranked = []
    for (one, two), count in common.items():
        share = 2 * count / (reach[0][one] + reach[1][two])
        if share >= _MIN_SHARE:
            both = chains[0].all[one], chains[1].all[two]
            unlike = abs(both[0].count - both[1].count)
            ranked.append((-share, unlike, both[0].nodes[0], both[1].nodes[0], one, two))
    return [found[-2:] for found in sorted(ranked)]


class _Shares:
    """How much two containers have in common, at any depth."""

    def __init__(
        self, reference: Nesting, candidate: Nesting, met: Iterable[tuple[int, int]]
    ) -> None:
        ranks = [{leaf: rank for rank, leaf in enumerate(n.leaves)} for n in (reference, candidate)]
        self._partner = np.full(len(reference.leaves), -1, np.int64)
        for leaf, other in met:
            if leaf in ranks[0] and other in ranks[1]:
                self._partner[ranks[0][leaf]] = ranks[1][other]

    def of(self, one: _Chain, two: _Chain) -> float:
        """Return twice the common leaves over all leaves of both."""
        partners = self._partner[one.first : one.last + 1]
        common = np.count_nonzero((partners >= two.first) & (partners <= two.last))
        return min(1.0, 2 * int(common) / (one.count + two.count))


Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def pair_modules(
    reference: View,
    candidate: View,
    calls: Matching,
    fixed: Sequence[tuple[int, int]] = (),
) -> Matching:
    """Pair all modules of both sides that do the same job.

    A module that ran several times goes to the partner with most of its calls; further instances
    on the other side stay without a partner of their own.
    """
    pairs = Matching()
    for one, two in fixed:
        pairs.add(one, two, PairedBy.MAP)
    if reference.modules and candidate.modules:
        pairs.add(0, 0, PairedBy.STRUCTURE)
    _by_calls(reference, candidate, calls, pairs)
    alike = _ModuleLikeness(reference, candidate)
    _by_content(alike, pairs)
    _by_structure(alike, pairs)
    return pairs


def _by_calls(reference: View, candidate: View, calls: Matching, pairs: Matching) -> None:
    votes: Counter[tuple[int, int]] = Counter()
    evidence: dict[tuple[int, int], PairedBy] = {}
    for one, two in calls:
        key = reference.calls[one].module, candidate.calls[two].module
        votes[key] += 1
        evidence.setdefault(key, calls.by[one])

    offers = Counter(one for one, _ in votes), Counter(two for _, two in votes)

    def rank(item: tuple[tuple[int, int], int]) -> tuple[float, float, int, int]:
        (one, two), count = item
        is_contested = offers[0][one] > 1 or offers[1][two] > 1
        alike = _name_likeness(reference, one, candidate, two) if is_contested else 0.0
        return -count, -alike, one, two

    for (one, two), _ in sorted(votes.items(), key=rank):
        is_same_name = reference.modules[one].path == candidate.modules[two].path
        is_named = is_same_name and evidence[one, two] is not PairedBy.MAP
        pairs.add(one, two, PairedBy.NAME if is_named else evidence[one, two])


def _by_content(alike: _ModuleLikeness, pairs: Matching) -> None:
    """Pair containers that never run themselves, lists above all."""
    views = reference, candidate = alike.views
    leaves = [
        (one, two)
        for one, two in pairs
        if not reference.children[one] or not candidate.children[two]
    ]
    nestings = [
        Nesting(parents=[m.parent for m in view.modules], leaves=sorted(pair[i] for pair in leaves))
        for i, view in enumerate(views)
    ]

    for found in pair_nesting(nestings[0], nestings[1], leaves, pairs, alike.containers):
        pairs.add(found.reference, found.candidate, PairedBy.STRUCTURE)


def _by_structure(alike: _ModuleLikeness, pairs: Matching) -> None:
    """Pair what is left among the children of pairs that never ran: by name, then by order."""
    reference, candidate = alike.views
    todo = list(pairs)[::-1]
    apart = _run_on_one_side(reference, candidate)
    while todo:
        one, two = todo.pop()
        mine = _alone(reference, reference.children[one], pairs.ahead, apart[0])
        theirs = _alone(candidate, candidate.children[two], pairs.back, apart[1])
        if not mine or not theirs:
            continue
        names = {_last(candidate, other): other for other in theirs}
        same = [(m, names[_last(reference, m)]) for m in mine if _last(reference, m) in names]
        same = [pair for pair in same if alike.fit(*np.array([pair], np.int64).T)[0] >= 0]
        named = {pair[0] for pair in same}, {pair[1] for pair in same}
        rest = [c for c in mine if c not in named[0]], [c for c in theirs if c not in named[1]]
        aligned = align_items(rest[0], rest[1], alike.fit)
        found = [(*pair, PairedBy.NAME) for pair in same]
        found += [(*pair, PairedBy.POSITION) for pair in aligned]
        for child, other, by in found:
            if pairs.add(child, other, by):
                todo.append((child, other))


def _run_on_one_side(reference: View, candidate: View) -> tuple[set[int], set[int]]:
    """Return modules of one path and the same weights of which one side alone runs a call.

    What the other side computes by hand, or not at all, is no other module's partner.
    """
    others = {module.path: module.id for module in candidate.modules}
    found: tuple[set[int], set[int]] = (set(), set())
    for module in reference.modules:
        one, two = module.id, others.get(module.path)
        if two is None or bool(reference.executed[one]) == bool(candidate.executed[two]):
            continue
        held = content_once(reference, one) if reference.weights[one] else None
        if held is not None and candidate.weights[two] and held == content_once(candidate, two):
            found[0].add(one)
            found[1].add(two)
    return found


def _alone(
    view: View, modules: Iterable[int], taken: Container[int], apart: Container[int]
) -> list[int]:
    return [m for m in modules if not (m in taken or m in apart or view.executed[m])]


def _last(view: View, module: int) -> str:
    return view.modules[module].path.rpartition(".")[2]


class _ModuleLikeness:
    """Scores of modules of one side with modules of the other, element by element."""

    def __init__(self, reference: View, candidate: View) -> None:
        self.views = views = reference, candidate
        self._kinds = _numbered(*(view.kinds for view in views))
        self._unknown = [np.array([k is None for k in view.kinds], np.bool_) for view in views]
        sizes = [[_sizes(view, module.id) for module in view.modules] for view in views]
        self._sizes = _numbered(*sizes)
        self._owns = np.array([bool(size) for size in sizes[0]], np.bool_)
        self._ran = [np.array([bool(ran) for ran in view.executed], np.bool_) for view in views]
        self._paths = _numbered(*([module.path for module in view.modules] for view in views))
        self._words = WordTable(
            *([words_of(module.path) for module in view.modules] for view in views)
        )

    def fit(self, rows: Places, columns: Places) -> Floats:
        """Score by kind, own weights and names; negative where they cannot be partners."""
        is_same = self._kinds[0][rows] == self._kinds[1][columns]
        is_possible = is_same | self._unknown[0][rows] | self._unknown[1][columns]
        is_possible &= self._sizes[0][rows] == self._sizes[1][columns]
        score = np.where(is_same, 0.5, 0.1) + np.where(self._owns[rows], 0.5, 0.0)
        names = np.where(
            self._paths[0][rows] == self._paths[1][columns],
            1.0,
            0.9 * self._words.likeness(rows, columns),
        )
        return np.where(is_possible, score + names, -1.0)

    def containers(self, rows: Places, columns: Places) -> Floats:
        """Score containers of the same content, of which both ran or neither."""
        is_possible = self._ran[0][rows] == self._ran[1][columns]
        return np.where(is_possible, 0.2 + self.fit(rows, columns), -1.0)


def _numbered(
    reference: Iterable[Hashable], candidate: Iterable[Hashable]
) -> tuple[Places, Places]:
    """Number the items of two lists, equal ones alike."""
    table: dict[Hashable, int] = {}
    found = [[table.setdefault(x, len(table)) for x in side] for side in (reference, candidate)]
    return np.array(found[0], np.int64), np.array(found[1], np.int64)


def _sizes(view: View, module: int) -> tuple[int, ...]:
    return tuple(sorted(prod(view.records[record].shape) for record in view.weights[module]))


def _name_likeness(reference: View, one: int, candidate: View, two: int) -> float:
    paths = reference.modules[one].path, candidate.modules[two].path
    if paths[0] == paths[1]:
        return 1.0
    return 0.9 * likeness(words_of(paths[0]), words_of(paths[1]))
