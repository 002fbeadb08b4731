"""Which rows of the paired module tree are worth a line: what agrees is folded, with counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from padiff.comparer.treerows import columns_of

from .tree_sums import State, TreeSums

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.comparer.result import NodeRow, Verdict
    from padiff.dumpfile import Phase

__all__ = ["Folded", "Line", "State", "fold"]

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
    """Give the lines to draw, in tree order.

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
        self.sums = TreeSums(columns_of(rows), keep_wrappers=unfold)
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
        """Tell whether a node's children get lines: where something has to be seen, or most is."""
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
    """Give the nearest paths above the children of a row."""
    return (
        above[0] if row.reference is None else row.reference,
        above[1] if row.candidate is None else row.candidate,
    )
