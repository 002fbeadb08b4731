"""The module trees of both sides as one tree of rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from padiff.comparer.judgedpairs import spots
from padiff.comparer.result import (
    SEVERITY,
    CallPlace,
    Divergence,
    JudgedPair,
    Kind,
    NodeRow,
    PairedCalls,
    PairedModules,
    Verdict,
)
from padiff.dumpfile.bulk import build_all

from .calltree import is_bad

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from padiff.comparer.judgedpairs import Spot
    from padiff.dumpfile import Index, Phase
    from padiff.pairing import ModulePair, PairedBy, Pairing

_Own = tuple[int | None, int | None]
"""The modules of a node, reference's and candidate's."""


@dataclass(slots=True)
class _Nodes:
    """The nodes of the tree in the order in which they were made; parallel lists."""

    own: list[_Own]
    paired_by: list[PairedBy | None]
    children: list[list[int]]
    roots: list[int]

    def add(self, own: _Own, paired_by: PairedBy | None, parent: int | None) -> None:
        """Hang a node under another, or make it a root."""
        (self.roots if parent is None else self.children[parent]).append(len(self.own))
        self.own.append(own)
        self.paired_by.append(paired_by)
        self.children.append([])


def merge_trees(
    pairing: Pairing,
    reference: Index,
    candidate: Index,
    pairs: Sequence[JudgedPair],
    divergences: tuple[Divergence, ...],
) -> list[NodeRow]:
    """Merge the two module trees and annotate every row with what its records showed.

    Rows come in the order of first execution on the reference; a module that only the candidate
    has stands under the partner of its parent, after the others.
    """
    nodes = _grow(pairing, reference, candidate)
    order, parents = _laid_out(nodes)
    own = [nodes.own[node] for node in order]
    known = [None if one is None else reference.modules[one] for one, _ in own]
    found = [None if other is None else candidate.modules[other] for _, other in own]
    shown = _Annotations(pairing, pairs).of(own)
    origins, inherited = _origins(divergences), _only_inherited(divergences)
    return build_all(
        NodeRow,
        len(order),
        id=range(len(order)),
        parent=parents,
        reference=[None if module is None else module.path for module in known],
        candidate=[None if module is None else module.path for module in found],
        reference_class=[None if module is None else module.class_name for module in known],
        candidate_class=[None if module is None else module.class_name for module in found],
        paired_by=[nodes.paired_by[node] for node in order],
        worst=[one.worst for one in shown],
        covered=[one.covered for one in shown],
        origin=[one in origins for one, _ in own],
        inherited=[one in inherited for one, _ in own],
    )


def _grow(pairing: Pairing, reference: Index, candidate: Index) -> _Nodes:
    """Make the nodes and hang them together; those of the reference have its modules' ids."""
    partner: dict[int, ModulePair] = {pair.reference: pair for pair in pairing.modules}
    first_call = {call.module: call.start for call in reversed(reference.calls)}
    nodes = _Nodes(own=[], paired_by=[], children=[], roots=[])
    hosts: dict[int, int] = {}
    for module in reference.modules:
        pair = partner.get(module.id)
        if pair is not None and pair.candidate not in hosts:
            nodes.add((module.id, pair.candidate), pair.paired_by, module.parent)
            hosts[pair.candidate] = module.id
        else:
            nodes.add((module.id, None), None, module.parent)
    after = max(first_call.values(), default=0) + 1
    turns = [first_call.get(module.id, after + module.id) for module in reference.modules]
    for children in nodes.children:
        children.sort(key=turns.__getitem__)
    for found in candidate.modules:
        if found.id not in hosts:
            hosts[found.id] = len(nodes.own)
            parent = None if found.parent is None else hosts.get(found.parent)
            nodes.add((None, found.id), None, parent)
    return nodes


def _laid_out(nodes: _Nodes) -> tuple[list[int], list[int | None]]:
    """Return the nodes, parents before their children, and the place of each one's parent."""
    order: list[int] = []
    parents: list[int | None] = []
    waiting: list[tuple[int, int | None]] = [(node, None) for node in reversed(nodes.roots)]
    while waiting:
        node, parent = waiting.pop()
        place = len(order)
        order.append(node)
        parents.append(parent)
        waiting += [(child, place) for child in reversed(nodes.children[node])]
    return order, parents


@dataclass(frozen=True, slots=True)
class _Shown:
    """What the records of a module showed."""

    worst: Mapping[Phase, Verdict]
    covered: frozenset[Phase]
    uncovered: frozenset[Phase]

    def and_spot(self, spot: Spot, *, is_aside: bool) -> _Shown:
        """Add what one more record shows; aside, it counts where there is nothing else to say."""
        known = self.worst.get(spot.phase)
        verdict = max(known or Verdict.SKIPPED, spot.verdict, key=SEVERITY.index)
        worst = {**self.worst, spot.phase: known if is_aside and known else verdict}
        uncovered = self.uncovered if spot.is_covered else self.uncovered | {spot.phase}
        return _Shown(worst, frozenset(worst) - uncovered, uncovered)


_NOTHING = _Shown({}, frozenset(), frozenset())


class _Annotations:
    """What the records of each node showed; most show the same, which is then one object."""

    def __init__(self, pairing: Pairing, pairs: Sequence[JudgedPair]) -> None:
        """Go through all records.

        What only one of two partners is given, a mask or positions, says nothing about what both
        do: it is set aside.
        """
        self._partner = {pair.reference: pair.candidate for pair in pairing.modules}
        self._back = {pair.candidate: pair.reference for pair in pairing.modules}
        self._shown: dict[_Own, _Shown] = {}
        self._known: dict[tuple[object, ...], _Shown] = {}
        aside: list[tuple[_Own, Spot]] = []
        for spot in spots(pairs):
            own = self._own(spot)
            if spot.is_argument and None not in own:
                aside.append((own, spot))
            else:
                self._add(own, spot, is_aside=False)
        for own, spot in aside:
            self._add(own, spot, is_aside=True)

    def of(self, nodes: Sequence[_Own]) -> list[_Shown]:
        """Return what the records of each node showed."""
        return [self._shown.get(own, _NOTHING) for own in nodes]

    def _own(self, spot: Spot) -> _Own:
        """Return the modules that a record belongs to."""
        if spot.is_candidates:
            return self._back.get(spot.module), spot.module
        return spot.module, self._partner.get(spot.module)

    def _add(self, own: _Own, spot: Spot, *, is_aside: bool) -> None:
        before = self._shown.get(own, _NOTHING)
        key = id(before), spot.phase, spot.verdict, spot.is_covered, is_aside
        shown = self._known.get(key)
        if shown is None:
            shown = self._known[key] = before.and_spot(spot, is_aside=is_aside)
        self._shown[own] = shown


def _origins(divergences: tuple[Divergence, ...]) -> set[int | None]:
    return {
        found.pair.reference.module
        for found in divergences
        if found.kind is Kind.ORIGIN and found.pair.reference is not None
    }


def _only_inherited(divergences: tuple[Divergence, ...]) -> set[int]:
    kinds: dict[int, set[Kind]] = defaultdict(set)
    for found in divergences:
        if found.pair.reference is not None and is_bad(found.pair):
            kinds[found.pair.reference.module].add(found.kind)
    return {module for module, seen in kinds.items() if seen == {Kind.INHERITED}}


def paired_modules(
    pairing: Pairing, reference: Index, candidate: Index
) -> tuple[PairedModules, ...]:
    """Name the pairs of modules."""
    known, pairs = reference.modules, pairing.modules
    paths = [module.path for module in candidate.modules]
    return tuple(
        build_all(
            PairedModules,
            len(pairs),
            reference=[known[one.reference].path for one in pairs],
            candidate=[paths[one.candidate] for one in pairs],
            paired_by=[one.paired_by for one in pairs],
            confidence=[one.confidence for one in pairs],
            alternatives=[tuple([paths[other] for other in one.alternatives]) for one in pairs],
        )
    )


def paired_calls(pairing: Pairing, reference: Index, candidate: Index) -> tuple[PairedCalls, ...]:
    """Name the pairs of calls."""
    places = _places(candidate, [other for one in pairing.calls for other in one.alternatives])
    others = iter(places)
    return tuple(
        build_all(
            PairedCalls,
            len(pairing.calls),
            reference=_places(reference, [one.reference for one in pairing.calls]),
            candidate=_places(candidate, [one.candidate for one in pairing.calls]),
            paired_by=[one.paired_by for one in pairing.calls],
            confidence=[one.confidence for one in pairing.calls],
            alternatives=[tuple([next(others) for _ in one.alternatives]) for one in pairing.calls],
        )
    )


def _places(index: Index, calls: Sequence[int]) -> list[CallPlace]:
    """Name calls by their modules."""
    infos = [index.calls[call] for call in calls]
    return build_all(
        CallPlace,
        len(infos),
        module=[index.modules[info.module].path for info in infos],
        call=[info.index for info in infos],
    )
