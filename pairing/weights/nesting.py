"""Pair what contains: two trees whose leaves are paired, matched bottom-up by common content."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np

from padiff.pairing.calls.align import Gap, align_all, uncrossed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from padiff.pairing.calls.align import Scores
    from padiff.pairing.result import Matching

__all__ = ["Nested", "Nesting", "pair_nesting"]

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
        """Give the number of the innermost chain around each leaf, -1 without one."""
        numbers, parents = self._numbers, self._nesting.parents
        return [numbers.get(parents[leaf], -1) for leaf in leaves]

    def around(self, innermost: int, levels: int) -> Iterator[int]:
        """Give the numbers of a chain and of those around it, the innermost first."""
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
    """Give first and last rank of the leaves in each container, and their number.

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
    """Give those of two lists of containers that are partners already, and what is between."""
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
    """Give the chains that share enough, those that share most first."""
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
        """Give twice the common leaves over all leaves of both."""
        partners = self._partner[one.first : one.last + 1]
        common = np.count_nonzero((partners >= two.first) & (partners <= two.last))
        return min(1.0, 2 * int(common) / (one.count + two.count))
