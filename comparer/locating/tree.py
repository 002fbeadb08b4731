"""The module trees of both sides as one tree of rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from padiff.comparer.result import Divergence, JudgedPair, Kind, NodeRow, Verdict
from padiff.dumpfile import Role

from .calltree import is_bad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from padiff.dumpfile import Index, Phase
    from padiff.pairing import ModulePair, PairedBy, Pairing

__all__ = ["merge_trees"]

SEVERITY = (
    Verdict.SKIPPED,
    Verdict.MATCH,
    Verdict.MISSING,
    Verdict.INCOMPARABLE,
    Verdict.DIVERGED,
)
"""Verdicts from harmless to bad; the worst one stands for a module."""
_ARGUMENTS = (Role.INPUT, Role.GRAD_INPUT)


_Own = tuple[int | None, int | None]
"""The modules of a node, reference's and candidate's."""


@dataclass(slots=True)
class _Node:
    reference: int | None
    candidate: int | None
    paired_by: PairedBy | None = None
    children: list[_Node] = field(default_factory=list)


def merge_trees(
    pairing: Pairing,
    reference: Index,
    candidate: Index,
    pairs: Sequence[JudgedPair],
    divergences: tuple[Divergence, ...],
) -> tuple[NodeRow, ...]:
    """Merge the two module trees and annotate every row with what its records showed.

    Rows come in the order of first execution on the reference; a module that only the candidate
    has stands under the partner of its parent, after the others.
    """
    worst, uncovered = _worst(pairing, pairs)
    origins = {
        found.pair.reference.module
        for found in divergences
        if found.kind is Kind.ORIGIN and found.pair.reference is not None
    }
    inherited = _only_inherited(divergences)
    rows: list[NodeRow] = []
    waiting: list[tuple[_Node, int | None]] = [
        (node, None) for node in reversed(_grow(pairing, reference, candidate))
    ]
    while waiting:
        node, parent = waiting.pop()
        known = None if node.reference is None else reference.modules[node.reference]
        found = None if node.candidate is None else candidate.modules[node.candidate]
        own = node.reference, node.candidate
        rows.append(
            NodeRow(
                id=len(rows),
                parent=parent,
                reference=None if known is None else known.path,
                candidate=None if found is None else found.path,
                reference_class=None if known is None else known.class_name,
                candidate_class=None if found is None else found.class_name,
                paired_by=node.paired_by,
                worst=worst.get(own, {}),
                origin=node.reference in origins,
                inherited=node.reference in inherited,
                covered=frozenset(worst.get(own, {})) - uncovered.get(own, set()),
            )
        )
        waiting += [(child, rows[-1].id) for child in reversed(node.children)]
    return tuple(rows)


def _grow(pairing: Pairing, reference: Index, candidate: Index) -> list[_Node]:
    """Build the nodes and hang them together; give the roots."""
    partner: dict[int, ModulePair] = {pair.reference: pair for pair in pairing.modules}
    first_call = {call.module: call.start for call in reversed(reference.calls)}
    nodes: dict[int, _Node] = {}
    hosts: dict[int, _Node] = {}
    roots: list[_Node] = []
    for module in reference.modules:
        pair = partner.get(module.id)
        node = _Node(module.id, None)
        if pair is not None and pair.candidate not in hosts:
            node.candidate, node.paired_by = pair.candidate, pair.paired_by
            hosts[pair.candidate] = node
        nodes[module.id] = node
        (roots if module.parent is None else nodes[module.parent].children).append(node)
    for module in reference.modules:
        nodes[module.id].children.sort(key=lambda node: _turn(node, first_call))
    for found in candidate.modules:
        if found.id not in hosts:
            node = _Node(None, found.id)
            hosts[found.id] = node
            host = None if found.parent is None else hosts.get(found.parent)
            (roots if host is None else host.children).append(node)
    return roots


def _turn(node: _Node, first_call: dict[int, int]) -> tuple[bool, int]:
    """Sort executed modules by their first call, the others after them in definition order."""
    start = first_call.get(node.reference if node.reference is not None else -1)
    return start is None, start if start is not None else node.reference or 0


def _worst(
    pairing: Pairing, pairs: Sequence[JudgedPair]
) -> tuple[dict[_Own, dict[Phase, Verdict]], dict[_Own, set[Phase]]]:
    """Find the worst verdict of each node's own records, and where not all are covered.

    What only one of two partners is given, a mask or positions, says nothing about what both do: it
    counts where there is nothing else to say.
    """
    partner = {pair.reference: pair.candidate for pair in pairing.modules}
    back = {pair.candidate: pair.reference for pair in pairing.modules}
    found: dict[_Own, dict[Phase, Verdict]] = defaultdict(dict)
    uncovered: dict[_Own, set[Phase]] = defaultdict(set)
    aside: dict[tuple[_Own, Phase], Verdict] = {}
    # Most records of a module say the same: each thing that is said of it is looked at once.
    told = dict.fromkeys(
        (
            pair.reference is None,
            end.module,
            end.address.phase,
            pair.verdict,
            pair.covered,
            _is_argument(pair),
        )
        for pair in pairs
        if (end := pair.reference or pair.candidate) is not None
    )
    for is_candidate, module, phase, verdict, covered, is_argument in told:
        key: _Own = (back.get(module), module) if is_candidate else (module, partner.get(module))
        if not covered:
            uncovered[key].add(phase)
        if is_argument and None not in key:
            aside[key, phase] = verdict
            continue
        current = found[key].get(phase, Verdict.SKIPPED)
        found[key][phase] = max(current, verdict, key=SEVERITY.index)
    for (key, phase), verdict in aside.items():
        found[key].setdefault(phase, verdict)
    return found, uncovered


def _is_argument(pair: JudgedPair) -> bool:
    """Tell whether it is something that one side's call alone is given."""
    end = pair.reference or pair.candidate
    is_alone = pair.reference is None or pair.candidate is None
    is_open = pair.verdict is Verdict.MISSING and not pair.fatal
    return is_alone and is_open and end is not None and end.address.role in _ARGUMENTS


def _only_inherited(divergences: tuple[Divergence, ...]) -> set[int]:
    kinds: dict[int, set[Kind]] = defaultdict(set)
    for found in divergences:
        if found.pair.reference is not None and is_bad(found.pair):
            kinds[found.pair.reference.module].add(found.kind)
    return {module for module, seen in kinds.items() if seen == {Kind.INHERITED}}
