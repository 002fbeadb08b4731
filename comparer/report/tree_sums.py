"""What whole subtrees of the paired module tree amount to: sizes, verdicts and states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from padiff.comparer.result import Verdict
from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from padiff.comparer.treerows import Look, TreeColumns

__all__ = ["State", "Sum", "TreeSums"]

_RANK = {
    Verdict.SKIPPED: 0,
    Verdict.MATCH: 1,
    Verdict.MISSING: 2,
    Verdict.INCOMPARABLE: 3,
    Verdict.DIVERGED: 4,
}


class State(StrEnum):
    """What a whole subtree has in common."""

    CALM = "calm"
    """Nothing diverged and nothing that counts is missing."""
    INHERITED = "inherited"
    """All that diverged is somebody else's consequence."""
    REFERENCE = "reference"
    """Only the reference has it, and misses it."""
    CANDIDATE = "candidate"
    """Only the candidate has it."""
    OPEN = "open"
    """An origin, or a mixture: has to be seen."""


_ONE_SIDED = (State.REFERENCE, State.CANDIDATE)
_BOTH = 3
"""The code of a row that both sides have."""
_PHASES = tuple(Phase)


@dataclass(frozen=True, slots=True)
class Sum:
    """What some modules amount to."""

    state: State
    worst: tuple[Verdict | None, ...]
    """The worst verdict of each phase, None where there is no record."""
    uncovered: frozenset[Phase]
    """Phases in which something skipped is judged nowhere else."""

    def verdicts(self) -> dict[Phase, Verdict]:
        """Give the verdicts of the phases that have one."""
        both = zip(_PHASES, self.worst, strict=True)
        return {phase: verdict for phase, verdict in both if verdict is not None}

    def joined(self, other: Sum) -> Sum:
        """Give what both amount to."""
        return Sum(
            state=_joined(self.state, other.state),
            worst=tuple(map(_worse, self.worst, other.worst)),
            uncovered=self.uncovered | other.uncovered,
        )


class TreeSums:
    """The rows of a tree, summed up from the leaves.

    Many rows amount to the same: each way in which two sums join is worked out once.
    """

    def __init__(self, columns: TreeColumns, *, keep_wrappers: bool) -> None:
        """Sum up.

        Args:
            columns: The tree, parents before their children.
            keep_wrappers: Whether to keep modules of one side that only stand around paired ones
                and have nothing to report; their children take their place otherwise.
        """
        self._columns = columns
        self.parents = columns.parents
        count = len(self.parents)
        self.roots: list[int] = []
        self.children: list[list[int]] = [[] for _ in range(count)]
        for node, parent in enumerate(self.parents):
            (self.roots if parent is None else self.children[parent]).append(node)
        self.sizes = [1] * count
        """Of a module and all inside it."""
        self.pairs = [0] * count
        """Modules inside that both sides have."""
        self._sides = [
            (reference is not None) + 2 * (candidate is not None)
            for reference, candidate in zip(columns.references, columns.candidates, strict=True)
        ]
        self._table: list[Sum] = []
        self._places: dict[Sum, int] = {}
        self._joins: dict[tuple[int, int], int] = {}
        self._opened: dict[int, int] = {}
        self._own = self._own_sums(columns)
        self._sums = list(self._own)
        self._kinds: dict[tuple[int, int], tuple[object, ...]] = {}
        wrapping = self._add_up()
        self.wrappers = 0
        if not keep_wrappers:
            self.wrappers = len(wrapping)
            self._unwrap(wrapping)

    def of(self, node: int) -> Sum:
        """Give what a module amounts to with all inside it."""
        return self._table[self._sums[node]]

    def own(self, node: int) -> Sum:
        """Give what a module amounts to alone."""
        return self._table[self._own[node]]

    def joined(self, nodes: Iterable[int]) -> Sum:
        """Give what several modules amount to together, each with all inside it."""
        first, *rest = dict.fromkeys(self._sums[node] for node in nodes)
        for place in rest:
            first = self._join(first, place)
        return self._table[first]

    def kind(self, node: int) -> tuple[object, ...]:
        """Give what siblings must have in common to share a line.

        What has to be seen is shown once where the same is to be seen in all that is inside.
        """
        key = self._sums[node], self._sides[node]
        if self._table[key[0]].state is State.OPEN:
            form = self._forms[node]
            return (State.OPEN, node) if form is None else (State.OPEN, form, "all alike")
        found = self._kinds.get(key)
        if found is None:
            total = self._table[key[0]]
            phases = [verdict is not None for verdict in total.worst]
            found = self._kinds[key] = (total.state, key[1], *phases)
        return found

    @cached_property
    def _forms(self) -> list[int | None]:
        """Give equal numbers to subtrees in which all looks the same; None with an origin."""
        columns = self._columns
        known: dict[tuple[object, ...], int] = {}
        forms: list[int | None] = [None] * len(self._own)
        for node in range(len(forms) - 1, -1, -1):
            inside = tuple([forms[child] for child in self.children[node]])
            if columns.looks[node].origin or None in inside:
                continue
            classes = columns.reference_classes[node], columns.candidate_classes[node]
            key = self._own[node], self._sides[node], classes, inside
            forms[node] = known.setdefault(key, len(known))
        return forms

    def _own_sums(self, columns: TreeColumns) -> list[int]:
        known: dict[tuple[int, int], int] = {}
        found: list[int] = []
        for look, sides in zip(columns.looks, self._sides, strict=True):
            key = id(look), sides
            if key not in known:
                known[key] = self._place(_own_sum(look, sides))
            found.append(known[key])
        return found

    def _add_up(self) -> list[int]:
        """Add each row to its parent; gives the modules that wrap others, last ones first."""
        wrapping: list[int] = []
        for node in range(len(self._sums) - 1, -1, -1):
            is_both = self._sides[node] == _BOTH
            if is_both:
                self._sums[node] = self._open(self._sums[node])
            parent = self.parents[node]
            if parent is None:
                continue
            self.sizes[parent] += self.sizes[node]
            self.pairs[parent] += self.pairs[node] + is_both
            self._sums[parent] = self._join(self._sums[parent], self._sums[node])
            if self.pairs[node] and not is_both and self.own(node).state is State.CALM:
                wrapping.append(node)
        return wrapping

    def _unwrap(self, wrapping: list[int]) -> None:
        """Put the children of modules that only wrap others into their place."""
        hidden = set(wrapping)
        parents = {self.parents[node] for node in wrapping} - {None}
        for parent in sorted((one for one in parents if one is not None), reverse=True):
            inside = (
                self.children[child] if child in hidden else [child]
                for child in self.children[parent]
            )
            self.children[parent] = [node for part in inside for node in part]

    def _open(self, place: int) -> int:
        """Give the sum of a pair: what is missing inside has to be seen by name."""
        found = self._opened.get(place)
        if found is None:
            total = self._table[place]
            if total.state in _ONE_SIDED:
                total = replace(total, state=State.OPEN)
            found = self._opened[place] = self._place(total)
        return found

    def _join(self, one: int, other: int) -> int:
        found = self._joins.get((one, other))
        if found is None:
            total = self._table[one].joined(self._table[other])
            found = self._joins[one, other] = self._place(total)
        return found

    def _place(self, total: Sum) -> int:
        """Give the number of a sum."""
        found = self._places.setdefault(total, len(self._table))
        if found == len(self._table):
            self._table.append(total)
        return found


def _own_sum(look: Look, sides: int) -> Sum:
    """Judge a row by its own records."""
    return Sum(
        state=_own_state(look, sides),
        worst=tuple(map(look.worst.get, _PHASES)),
        uncovered=frozenset(
            phase
            for phase, verdict in look.worst.items()
            if verdict is Verdict.SKIPPED and phase not in look.covered
        ),
    )


def _own_state(look: Look, sides: int) -> State:
    worst = max((_RANK[verdict] for verdict in look.worst.values()), default=0)
    if look.origin:
        return State.OPEN
    if worst <= _RANK[Verdict.MATCH]:
        return State.CALM
    if look.inherited:
        return State.INHERITED
    if worst == _RANK[Verdict.MISSING] and sides != _BOTH:
        return State.REFERENCE if sides == 1 else State.CANDIDATE
    return State.OPEN


def _joined(one: State, other: State) -> State:
    """Give the state of two parts together; what is calm goes along with anything."""
    if one is other or other is State.CALM:
        return one
    return other if one is State.CALM else State.OPEN


def _worse(one: Verdict | None, other: Verdict | None) -> Verdict | None:
    """Give the worse of two verdicts; None is the absence of one."""
    if one is None or other is None:
        return other if one is None else one
    return other if _RANK[other] > _RANK[one] else one
