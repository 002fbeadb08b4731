"""Which rows of the paired module tree are worth a line: what agrees is folded, with counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING

from padiff.comparer.result import NodeRow, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from padiff.dumpfile import Phase

__all__ = ["Folded", "Line", "State", "fold"]

RUN = 4
"""Siblings of one state from which on they share a line."""

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


@dataclass(slots=True, kw_only=True)
class _Node:
    """A row with what its subtree amounts to."""

    row: NodeRow
    children: list[_Node]
    state: State
    worst: dict[Phase, Verdict]
    uncovered: set[Phase]
    size: int = 1
    pairs: int = 0
    """Modules below it that both sides have."""


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
    roots, wrappers = _summed(rows, keep_wrappers=unfold)
    total = len(rows) - wrappers
    lines = _lines(roots, total, unfold=unfold, share=False)
    if not unfold and len(lines) > most:
        lines = _lines(roots, total, unfold=unfold, share=True)
    return Folded(lines=tuple(lines), wrappers=wrappers)


def _lines(roots: list[_Node], total: int, *, unfold: bool, share: bool) -> list[Line]:
    """Walk the tree and make its lines."""
    lines: list[Line] = []
    # An explicit stack: a dump may be nested deeper than Python recurses.
    stack: list[Iterator[tuple[list[_Node], bool]]] = [iter(_runs(roots, share=share))]
    trunk: list[bool] = []
    parents: list[NodeRow | None] = [None]
    bases: list[tuple[str | None, str | None]] = [(None, None)]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            parents.pop()
            bases.pop()
            if trunk:
                trunk.pop()
            continue
        run, follows = found
        node = run[0]
        is_top = parents[-1] is None
        here = (*trunk, follows) if not is_top else ()
        is_open = len(run) == 1 and bool(node.children) and (unfold or _opens(node, total))
        lines.append(_line(run, parents[-1], bases[-1], here, opened=is_open))
        if is_open:
            stack.append(iter(_runs(node.children, share=share)))
            parents.append(node.row)
            bases.append(_bases(node.row, bases[-1]))
            if not is_top:
                trunk.append(follows)
    return lines


def _bases(row: NodeRow, above: tuple[str | None, str | None]) -> tuple[str | None, str | None]:
    """Give the nearest paths above the children of a row."""
    return (
        above[0] if row.reference is None else row.reference,
        above[1] if row.candidate is None else row.candidate,
    )


def _opens(node: _Node, total: int) -> bool:
    """Tell whether a node's children get lines: where something has to be seen, or most is."""
    is_most = len(node.children) > 1 and 2 * node.size > total
    return node.state is State.OPEN or node.row.parent is None or is_most


def _line(
    run: list[_Node],
    parent: NodeRow | None,
    bases: tuple[str | None, str | None],
    trunk: tuple[bool, ...],
    *,
    opened: bool,
) -> Line:
    """Make the line of one node or of a run of siblings."""
    first = run[0]
    worst: dict[Phase, Verdict] = {}
    uncovered: set[Phase] = set()
    if opened:
        worst.update(first.row.worst)
        uncovered |= _uncovered(first.row)
    else:
        for node in run:
            _raise(worst, node.worst)
            uncovered |= node.uncovered
    return Line(
        first=first.row,
        last=run[-1].row,
        parent=parent,
        bases=bases,
        trunk=trunk,
        worst=worst,
        uncovered=frozenset(uncovered),
        state=State.INHERITED if opened and first.row.inherited else first.state,
        siblings=len(run),
        folded=0 if opened else sum(node.size - 1 for node in run),
        folded_pairs=0 if opened else sum(node.pairs for node in run),
    )


def _runs(nodes: list[_Node], *, share: bool) -> list[tuple[list[_Node], bool]]:
    """Group neighbours that look the same; with each, whether another one follows."""
    groups: list[list[_Node]] = []
    for node in nodes:
        if groups and _alike(groups[-1][-1], node):
            groups[-1].append(node)
        else:
            groups.append([node])
    runs: list[list[_Node]] = []
    for group in groups:
        if len(group) >= RUN and share:
            runs.append(group)
        else:
            runs.extend([node] for node in group)
    return [(run, position + 1 < len(runs)) for position, run in enumerate(runs)]


def _alike(one: _Node, other: _Node) -> bool:
    """Tell whether two siblings can share a line."""
    return (
        one.state is not State.OPEN
        and one.state is other.state
        and _sides(one.row) == _sides(other.row)
        and set(one.worst) == set(other.worst)
    )


def _sides(row: NodeRow) -> tuple[bool, bool]:
    """Tell which sides have it."""
    return row.reference is not None, row.candidate is not None


def _summed(rows: Sequence[NodeRow], *, keep_wrappers: bool) -> tuple[list[_Node], int]:
    """Build the tree and sum it up from the leaves; gives its roots and the wrappers left out."""
    nodes = {
        row.id: _Node(
            row=row,
            children=[],
            state=_own_state(row),
            worst=dict(row.worst),
            uncovered=_uncovered(row),
        )
        for row in rows
    }
    roots: list[_Node] = []
    for row in rows:
        parent = None if row.parent is None else nodes.get(row.parent)
        (roots if parent is None else parent.children).append(nodes[row.id])
    wrappers = 0
    for row in reversed(rows):
        node = nodes[row.id]
        for child in node.children:
            _add(node, child)
        if row.reference is not None and row.candidate is not None and node.state in _ONE_SIDED:
            node.state = State.OPEN  # what is missing has to be seen by name
        if not keep_wrappers:
            inside = [child.children if _wraps(child) else [child] for child in node.children]
            wrappers += sum(map(_wraps, node.children))
            node.children = list(chain.from_iterable(inside))
    return roots, wrappers


def _add(node: _Node, child: _Node) -> None:
    """Add a child to the sums of its parent."""
    node.size += child.size
    node.pairs += child.pairs + (_sides(child.row) == (True, True))
    _raise(node.worst, child.worst)
    node.uncovered |= child.uncovered
    node.state = _joined(node.state, child.state)


def _uncovered(row: NodeRow) -> set[Phase]:
    """Give the phases in which something of a row is skipped for good."""
    return {
        phase
        for phase, verdict in row.worst.items()
        if verdict is Verdict.SKIPPED and phase not in row.covered
    }


def _wraps(node: _Node) -> bool:
    """Tell whether a module of one side only stands around paired ones, with nothing to report."""
    is_alone = _sides(node.row) != (True, True)
    return is_alone and node.pairs > 0 and _own_state(node.row) is State.CALM


def _own_state(row: NodeRow) -> State:
    """Judge a row by its own records."""
    worst = max((_RANK[verdict] for verdict in row.worst.values()), default=0)
    if row.origin:
        return State.OPEN
    if worst <= _RANK[Verdict.MATCH]:
        return State.CALM
    if row.inherited:
        return State.INHERITED
    if worst == _RANK[Verdict.MISSING] and row.candidate is None:
        return State.REFERENCE
    if worst == _RANK[Verdict.MISSING] and row.reference is None:
        return State.CANDIDATE
    return State.OPEN


def _joined(one: State, other: State) -> State:
    """Give the state of two parts together; what is calm goes along with anything."""
    if one is other or other is State.CALM:
        return one
    return other if one is State.CALM else State.OPEN


def _raise(worst: dict[Phase, Verdict], by: Mapping[Phase, Verdict]) -> None:
    """Keep the worse verdict of each phase."""
    for phase, verdict in by.items():
        if phase not in worst or _RANK[verdict] > _RANK[worst[phase]]:
            worst[phase] = verdict
