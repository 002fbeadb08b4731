"""Which rows of the paired module tree are worth a line: what agrees is folded, with counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from padiff.comparer.result import SEVERITY, Verdict
from padiff.dumpfile import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from padiff.comparer.result import NodeRow


_RANK = {verdict: at for at, verdict in enumerate(SEVERITY)}


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
        """Return the verdicts of the phases that have one."""
        both = zip(_PHASES, self.worst, strict=True)
        return {phase: verdict for phase, verdict in both if verdict is not None}

    def joined(self, other: Sum) -> Sum:
        """Return what both amount to."""
        return Sum(
            state=_joined(self.state, other.state),
            worst=tuple(map(_worse, self.worst, other.worst)),
            uncovered=self.uncovered | other.uncovered,
        )


class TreeSums:
    """The rows of a tree, summed up from the leaves.

    Many rows amount to the same: each way in which two sums join is worked out once.
    """

    def __init__(self, rows: Sequence[NodeRow], *, keep_wrappers: bool) -> None:
        """Sum up.

        Args:
            rows: The tree, parents before their children.
            keep_wrappers: Whether to keep modules of one side that only stand around paired ones
                and have nothing to report; their children take their place otherwise.
        """
        self._rows = rows
        self.parents = [row.parent for row in rows]
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
            (row.reference is not None) + 2 * (row.candidate is not None) for row in rows
        ]
        self._table: list[Sum] = []
        self._places: dict[Sum, int] = {}
        self._joins: dict[tuple[int, int], int] = {}
        self._opened: dict[int, int] = {}
        self._own = self._own_sums(rows)
        self._sums = list(self._own)
        self._kinds: dict[tuple[int, int], tuple[object, ...]] = {}
        wrapping = self._add_up()
        self.wrappers = 0
        if not keep_wrappers:
            self.wrappers = len(wrapping)
            self._unwrap(wrapping)

    def of(self, node: int) -> Sum:
        """Return what a module amounts to with all inside it."""
        return self._table[self._sums[node]]

    def own(self, node: int) -> Sum:
        """Return what a module amounts to alone."""
        return self._table[self._own[node]]

    def joined(self, nodes: Iterable[int]) -> Sum:
        """Return what several modules amount to together, each with all inside it."""
        first, *rest = dict.fromkeys(self._sums[node] for node in nodes)
        for place in rest:
            first = self._join(first, place)
        return self._table[first]

    def kind(self, node: int) -> tuple[object, ...]:
        """Return what siblings must have in common to share a line.

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
        """Return equal numbers to subtrees in which all looks the same; None with an origin."""
        known: dict[tuple[object, ...], int] = {}
        forms: list[int | None] = [None] * len(self._own)
        for node in range(len(forms) - 1, -1, -1):
            inside = tuple([forms[child] for child in self.children[node]])
            row = self._rows[node]
            if row.origin or None in inside:
                continue
            classes = row.reference_class, row.candidate_class
            key = self._own[node], self._sides[node], classes, inside
            forms[node] = known.setdefault(key, len(known))
        return forms

    def _own_sums(self, rows: Sequence[NodeRow]) -> list[int]:
        known: dict[tuple[object, ...], int] = {}
        found: list[int] = []
        for row, sides in zip(rows, self._sides, strict=True):
            key = id(row.worst), row.covered, row.origin, row.inherited, sides
            if key not in known:
                known[key] = self._place(_own_sum(row, sides))
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
        """Return the sum of a pair: what is missing inside has to be seen by name."""
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
        """Return the number of a sum."""
        found = self._places.setdefault(total, len(self._table))
        if found == len(self._table):
            self._table.append(total)
        return found


def _own_sum(row: NodeRow, sides: int) -> Sum:
    """Judge a row by its own records."""
    return Sum(
        state=_own_state(row, sides),
        worst=tuple(map(row.worst.get, _PHASES)),
        uncovered=frozenset(
            phase
            for phase, verdict in row.worst.items()
            if verdict is Verdict.SKIPPED and phase not in row.covered
        ),
    )


def _own_state(row: NodeRow, sides: int) -> State:
    worst = max((_RANK[verdict] for verdict in row.worst.values()), default=0)
    if row.origin:
        return State.OPEN
    if worst <= _RANK[Verdict.MATCH]:
        return State.CALM
    if row.inherited:
        return State.INHERITED
    if worst == _RANK[Verdict.MISSING] and sides != _BOTH:
        return State.REFERENCE if sides == 1 else State.CANDIDATE
    return State.OPEN


def _joined(one: State, other: State) -> State:
    """Return the state of two parts together; what is calm goes along with anything."""
    if one is other or other is State.CALM:
        return one
    return other if one is State.CALM else State.OPEN


def _worse(one: Verdict | None, other: Verdict | None) -> Verdict | None:
    """Return the worse of two verdicts; None is the absence of one."""
    if one is None or other is None:
        return other if one is None else one
    return other if _RANK[other] > _RANK[one] else one


RUN = 4
"""Siblings of one state from which on they share a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the drawn tree: a module, or several folded into it."""

    first: NodeRow
    last: NodeRow
    """Differs from ``first`` where a run of siblings shares the line."""
    parent: NodeRow | None
    """The module on the line above it in the tree."""
    bases: tuple[str | None, str | None]
    """Paths on both sides that the names on this line are given relative to."""
    trunk: tuple[bool, ...]
    """For each ancestor below the root, and the line itself, whether siblings follow below."""
    worst: Mapping[Phase, Verdict]
    """Of all modules on the line."""
    uncovered: frozenset[Phase]
    """Phases in which something skipped is judged nowhere else."""
    state: State
    siblings: int
    """Modules that share the line, 1 unless it is a run."""
    folded: int
    """Further modules inside them that have no line of their own."""
    folded_pairs: int
    """Those of them that both sides have."""
    like: NodeRow | None = None
    """A sibling above that is drawn with all that is to be seen in it, which is the same here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """The tree as it is to be drawn."""

    lines: tuple[Line, ...]
    wrappers: int
    """Modules of one side around paired ones, left out."""


def fold(rows: Sequence[NodeRow], *, unfold: bool = False, most: int = 0) -> Folded:
    """Return the lines to draw, in tree order.

    Args:
        rows: The tree, parents before their children.
        unfold: Whether every module gets its line.
        most: Lines from which on siblings that look the same share one.
    """
    tree = _Tree(rows, unfold=unfold)
    lines = tree.lines(share=False, most=None if unfold else most)
    if not unfold and len(lines) > most:
        lines = tree.lines(share=True, most=None)
    return Folded(lines=tuple(lines), wrappers=tree.sums.wrappers)


class _Run(NamedTuple):
    """Neighbours that share a line."""

    nodes: list[int]
    follows: bool
    """Whether another sibling follows."""
    like: int | None = None


class _Tree:
    """The tree with its sums; a row is looked at only where it gets a line."""

    def __init__(self, rows: Sequence[NodeRow], *, unfold: bool) -> None:
        self.sums = TreeSums(rows, keep_wrappers=unfold)
        self._rows = rows
        self._unfold = unfold
        self._total = len(rows) - self.sums.wrappers

    def lines(self, *, share: bool, most: int | None) -> list[Line]:
        """Walk the tree and make its lines, at most one more than ``most``."""
        lines: list[Line] = []
        # An explicit stack: a dump may be nested deeper than Python recurses.
        stack = [self._runs(self.sums.roots, share=share)]
        trunk: list[bool] = []
        parents: list[NodeRow | None] = [None]
        bases: list[tuple[str | None, str | None]] = [(None, None)]
        while stack and (most is None or len(lines) <= most):
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
                parents.pop()
                bases.pop()
                if trunk:
                    trunk.pop()
                continue
            is_top = parents[-1] is None
            run, here = found.nodes, (*trunk, found.follows) if not is_top else ()
            is_open = found.like is None and len(run) == 1 and self._opens(run[0])
            line = self._line(run, parents[-1], bases[-1], here, opened=is_open)
            if found.like is not None:
                line = replace(line, like=self._rows[found.like])
            lines.append(line)
            if is_open:
                row = lines[-1].first
                stack.append(self._runs(self.sums.children[run[0]], share=share))
                parents.append(row)
                bases.append(_bases(row, bases[-1]))
                if not is_top:
                    trunk.append(found.follows)
        return lines

    def _opens(self, node: int) -> bool:
        """Return whether a node's children get lines: if one must be seen, or most are."""
        sums = self.sums
        children = sums.children[node]
        is_most = len(children) > 1 and 2 * sums.sizes[node] > self._total
        is_seen = sums.of(node).state is State.OPEN or sums.parents[node] is None
        return bool(children) and (self._unfold or is_seen or is_most)

    def _line(
        self,
        run: list[int],
        parent: NodeRow | None,
        bases: tuple[str | None, str | None],
        trunk: tuple[bool, ...],
        *,
        opened: bool,
    ) -> Line:
        """Make the line of one node or of a run of siblings."""
        sums, first = self.sums, self._rows[run[0]]
        shown = sums.own(run[0]) if opened else sums.joined(run)
        state = sums.of(run[0]).state
        return Line(
            first=first,
            last=first if len(run) == 1 else self._rows[run[-1]],
            parent=parent,
            bases=bases,
            trunk=trunk,
            worst=shown.verdicts(),
            uncovered=shown.uncovered,
            state=State.INHERITED if opened and first.inherited else state,
            siblings=len(run),
            folded=0 if opened else sum(sums.sizes[node] - 1 for node in run),
            folded_pairs=0 if opened else sum(sums.pairs[node] for node in run),
        )

    def _runs(self, nodes: Sequence[int], *, share: bool) -> Iterator[_Run]:
        """Group neighbours that look the same."""
        last = nodes[-1] if nodes else None
        if not share:
            return (_Run([node], node != last) for node in nodes)
        return self._shared(nodes)

    def _shared(self, nodes: Sequence[int]) -> Iterator[_Run]:
        last = nodes[-1] if nodes else None
        for _, group in groupby(nodes, key=self.sums.kind):
            run = list(group)
            if self.sums.of(run[0]).state is State.OPEN:
                yield _Run(run[:1], run[0] != last)
                if run[1:]:
                    yield _Run(run[1:], run[-1] != last, like=run[0])
                continue
            for part in [run] if len(run) >= RUN else [[node] for node in run]:
                yield _Run(part, part[-1] != last)


def _bases(row: NodeRow, above: tuple[str | None, str | None]) -> tuple[str | None, str | None]:
    """Return the nearest paths above the children of a row."""
    return (
        above[0] if row.reference is None else row.reference,
        above[1] if row.candidate is None else row.candidate,
    )
