"""Pair what contains: two trees whose leaves are paired, matched bottom-up by common content."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.pairing.calls.align import align_items

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["Nested", "Nesting", "pair_nesting"]

_MIN_SHARE = 0.5
_MAX_DEPTH = 64
"""Containers further out than this are paired by their other leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nesting:
    """A tree by its parents, and which of its nodes are leaves."""

    parents: Sequence[int | None]
    leaves: Sequence[int]

    def around(self, node: int) -> list[int]:
        """Give what contains a node, the innermost first."""
        found: list[int] = []
        parent = self.parents[node]
        while parent is not None and len(found) < _MAX_DEPTH:
            found.append(parent)
            parent = self.parents[parent]
        return found

    def chains(self) -> dict[tuple[int, int, int], list[int]]:
        """Group the containers of exactly the same leaves, the outermost first."""
        spans: dict[int, list[int]] = {}
        for rank, leaf in enumerate(self.leaves):
            for node in self.around(leaf):
                span = spans.setdefault(node, [rank, rank, 0])
                span[1] = rank
                span[2] += 1
        groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for node in sorted(spans):
            first, last, count = spans[node]
            groups[first, last, count].append(node)
        return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """Two containers that hold the same, more or less."""

    reference: int
    candidate: int
    share: float
    """Twice the common leaves over all leaves of both; 1.0 if each leaf has its partner inside."""


def pair_nesting(
    reference: Nesting,
    candidate: Nesting,
    leaves: Iterable[tuple[int, int]],
    affinity: Callable[[int, int], float],
) -> list[Nested]:
    """Pair the containers of two trees by the share of paired leaves inside.

    Containers of the same leaves (a wrapper around a wrapper) are told apart by ``affinity``,
    without crossing; what then stays alone is a wrapper that only one side has.
    """
    chains = reference.chains(), candidate.chains()
    chain_of = [{nodes[0]: key for key, nodes in side.items()} for side in chains]
    common: dict[tuple[int, int], int] = defaultdict(int)
    for leaf, other in leaves:
        mine = [node for node in reference.around(leaf) if node in chain_of[0]]
        theirs = [node for node in candidate.around(other) if node in chain_of[1]]
        for node in mine:
            for partner in theirs:
                common[node, partner] += 1
    ranked = []
    for (node, partner), count in common.items():
        total = chain_of[0][node][2] + chain_of[1][partner][2]
        ranked.append((-2 * count / total, node, partner))
    return _choose(sorted(ranked), chain_of, chains, affinity)


def _choose(
    ranked: Iterable[tuple[float, int, int]],
    chain_of: Sequence[dict[int, tuple[int, int, int]]],
    chains: Sequence[dict[tuple[int, int, int], list[int]]],
    affinity: Callable[[int, int], float],
) -> list[Nested]:
    taken: tuple[set[int], set[int]] = (set(), set())
    found: list[Nested] = []
    for negative, node, partner in ranked:
        if -negative < _MIN_SHARE:
            break
        if node in taken[0] or partner in taken[1]:
            continue
        taken[0].add(node)
        taken[1].add(partner)
        mine, theirs = chains[0][chain_of[0][node]], chains[1][chain_of[1][partner]]
        found.extend(
            Nested(reference=one, candidate=two, share=-negative)
            for one, two in align_items(mine, theirs, affinity)
        )
    return found
